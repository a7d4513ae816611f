"""Where ranks wait for each other: in the rendezvous store, by name, and not inside a collective.

A gloo call that waits cannot be cancelled, and names nobody. So ranks meet here before each collective: whoever is
late, raises, or closes is seen by name, for as long as it takes, while nobody is inside gloo.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from threading import Event
from time import monotonic, sleep
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from .errors import ExchangeError, ExchangeTimeout, RankClosed, RankDisagreement, RankFailed, RankLost
from .store import Holder, Store

__all__ = ["Meeting", "Patience"]

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.001  # in this time there is no pause between two looks: all are usually here
POLL_S = 0.1  # the longest pause between two looks; they grow with the time waited
WARN_S = 10.0
ROLL_CALL_S = 0.8  # for survivors to report; twice that while more than one is missing
DETAILS = 4_000  # characters of a traceback that travel


class Patience:
    """How long others may take: ``timeout_s`` from when somebody here began to wait for the result.

    A rank whose training loop is busy elsewhere (evaluation, a checkpoint) can wait for late ones for ever.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._since: float | None = None

    @contextmanager
    def tried(self) -> Iterator[None]:
        """The time inside counts."""
        self._since = monotonic()
        try:
            yield
        finally:
            self._since = None

    @property
    def waited(self) -> float:
        """Seconds that somebody has waited, 0.0 if nobody does."""
        since = self._since
        return 0.0 if since is None else monotonic() - since


def _asking(method: Callable[Concatenate[Meeting, P], T]) -> Callable[Concatenate[Meeting, P], T]:
    """``method`` raises `RankLost` where the store is gone."""

    @wraps(method)
    def asking(self: Meeting, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except ExchangeError:
            raise
        except RuntimeError as error:
            raise self._holder.lost(error, self._step, self._phase) from error

    return asking


class Meeting:
    """The meetings of one pass over the data, numbered 0, 1, ...; one thread of each rank takes part.

    Each meeting has one verdict: ranks go on together, or all raise the same error. All verdicts are written to one
    key, each over the one before, compare-and-set: the first for a meeting wins. One for a later meeting says that all
    have gone on from this one. Keys stay few: one per rank and four. Requests are few: they are what a meeting costs.
    """

    def __init__(
        self,
        store: Store,
        holder: Holder,
        rank: int,
        n_ranks: int,
        patience: Patience,
        stop: Event,
        last: Meeting | None = None,
        ended: Callable[[], list[int]] = list,
    ) -> None:
        """``last``: that of the pass before, whose keys go once all have left it. ``ended``: ranks that are dead."""
        self._store, self._rank, self._n_ranks = store, rank, n_ranks
        self._patience, self._stop, self._holder, self._ended = patience, stop, holder, ended
        self._round, self._step = 0, -1
        self._phase = "start"
        self._met = "start"  # where all ranks were in the last meeting
        self._verdict = NONE
        self._last = last

    def at(self, step: int, phase: str) -> None:
        """Note where this rank is; others can read it from the next `enter` or `meet` on, if that takes a while."""
        self._step, self._phase = step, phase

    @_asking
    def enter(self, step: int, phase: str) -> None:
        """Say where this rank is, for others to read when they miss it."""
        self.at(step, phase)
        self._sign("")

    @_asking
    def meet(self, word: str = "", explain: Callable[[dict[str, list[int]]], str] | None = None) -> None:
        """Wait until every rank is here; with the same ``word``, if they bring one. Raises on all ranks alike:

        `RankDisagreement` (``explain`` tells from ranks by word what differs), `RankFailed`, `RankClosed`, `RankLost`
        or `ExchangeTimeout`, by what the verdict says.
        """
        if word:
            self._sign(word)
        if self._store.add("arrived", 1) < self._n_ranks * (self._round + 1):
            self._wait(word)
        elif word:
            self._judge(explain)
        else:
            self._rule("go")
        if self._verdict.round == self._round and self._verdict.kind != "go":
            raise self._verdict.error()
        if self._last is not None:
            self._last.forget()
            self._last = None
        self._round += 1
        self._met = f"step {self._step}, {self._phase}"

    @_asking
    def tell(self, text: str) -> None:
        """Leave ``text`` for those who come to the next meeting."""
        self._store.set(f"told/{self._round % 2}", text)

    @_asking
    def told(self) -> str:
        """Return what was told before the last meeting."""
        return self._store.get(f"told/{(self._round - 1) % 2}").decode()

    @_asking
    def fail(self, error: BaseException, trace: str) -> None:
        """Tell the others that this rank raised."""
        text = f"{type(error).__name__}: {error}"
        self._rule("failed", [self._rank], text, trace[-DETAILS:])

    @_asking
    def close(self) -> None:
        """Tell the others that this rank comes no more."""
        self._rule("closed", [self._rank])

    @_asking
    def lose(self, error: BaseException) -> ExchangeError:
        """Return the error to raise after a collective broke off with ``error``: it names the ranks that are gone.

        Every survivor reports here; who does not within some seconds is missing.
        """
        self._store.set(f"survivor/{self._rank}/{self._round}", "")
        begin = monotonic()
        missing = self._silent()
        while missing and monotonic() - begin < (ROLL_CALL_S if len(missing) == 1 else 2 * ROLL_CALL_S):
            sleep(0.05)
            missing = self._silent()
        where = self._where(missing)
        text = f"{where or 'a connection was lost, though every rank answers'}. Reported here: {error}".strip()
        self._rule("lost", missing, text)
        return self._verdict.error()

    def forget(self) -> None:
        """Remove this rank's keys. To be called once a later pass has begun: nobody reads them then."""
        keys = [f"rank/{self._rank}"]
        if self._rank == 0:
            keys += ["arrived", "told/0", "told/1", "verdict"]
        for key in keys:
            self._store.delete_key(key)

    def _sign(self, word: str, *, waiting: bool = False) -> None:
        """Leave the number of meetings that this rank has come to, where it is, and its word."""
        n_meetings = self._round + waiting
        self._store.set(f"rank/{self._rank}", json.dumps([n_meetings, f"step {self._step}, {self._phase}", word]))

    def _silent(self) -> list[int]:
        return [r for r in range(self._n_ranks) if not self._store.check([f"survivor/{r}/{self._round}"])]

    def _judge(self, explain: Callable[[dict[str, list[int]]], str] | None) -> None:
        signed = self._store.multi_get([f"rank/{rank}" for rank in range(self._n_ranks)])
        ranks: dict[str, list[int]] = {}
        for rank, text in enumerate(signed):
            ranks.setdefault(json.loads(text)[2], []).append(rank)
        if len(ranks) == 1:
            self._rule("go")
            return
        odd = sorted(rank for those in sorted(ranks.values(), key=len)[:-1] for rank in those)
        self._rule("disagreed", odd, explain(ranks) if explain else _listed(ranks))

    def _wait(self, word: str) -> None:
        begin, signed, warned = monotonic(), False, False
        while True:
            # compare-and-set of a text that no verdict has: reads in one request, without waiting for the key
            self._read(self._store.compare_set("verdict", "?", "?"))
            if self._verdict.round >= self._round:
                return
            if self._stop.is_set():
                self.close()
                return
            if dead := self._ended():
                self._rule("lost", dead, f"{self._where(dead)}, whose process has ended")
                return
            waited, passed = self._patience.waited, monotonic() - begin
            if waited > self._patience.timeout_s:
                missing = self._missing()
                self._rule("late", missing, f"{self._where(missing)}, after {self._patience.timeout_s:g} s")
                return
            if waited > WARN_S and not warned:
                warned = True
                log.warning("step %d, %s: still waiting for %s", self._step, self._phase, self._where(self._missing()))
            if passed > LOOK_AGAIN_S:
                if not signed:
                    self._sign(word, waiting=True)
                    signed = True
                sleep(min(passed / 8, POLL_S))

    def _missing(self) -> list[int]:
        """Ranks that do not wait in this meeting: they have not come, or died on the threshold."""
        return [rank for rank in range(self._n_ranks) if self._signed(rank)[0] <= self._round]

    def _where(self, ranks: list[int]) -> str:
        return ", ".join(f"rank {rank} ({self._signed(rank)[1]})" for rank in ranks)

    def _signed(self, rank: int) -> tuple[int, str]:
        """Return the number of meetings that a rank has come to, and where it was."""
        key = f"rank/{rank}"
        if not self._store.check([key]):
            return 0, f"last at {self._met}" if self._round else "not seen yet"
        n_meetings, where, _ = json.loads(self._store.get(key))
        return n_meetings, f"last at {where if n_meetings >= self._round else self._met}"

    def _rule(self, kind: str, ranks: Sequence[int] = (), text: str = "", details: str = "") -> None:
        """Write a verdict on this meeting, unless there is one; then take that."""
        if self._verdict.round < self._round:
            verdict = json.dumps([self._round, kind, ranks, text, details, self._step, self._phase])
            self._read(self._store.compare_set("verdict", self._verdict.written, verdict))

    def _read(self, content: bytes) -> None:
        written = content.decode()
        if written not in ("?", self._verdict.written):
            self._verdict = Verdict(written, *json.loads(written))


class Verdict(NamedTuple):
    """How a meeting ended: ``kind`` "go", or what went wrong, on which ranks, and where the one was who wrote it."""

    written: str
    round: int
    kind: str
    ranks: list[int]
    text: str
    details: str
    step: int
    phase: str

    def error(self) -> ExchangeError:
        """Return what every rank raises."""
        who = f"rank{'s' * (len(self.ranks) > 1)} {', '.join(map(str, self.ranks))}"
        where = f"step {self.step}, {self.phase}"
        cls: type[ExchangeError]
        match self.kind:
            case "disagreed":
                message, cls = f"{where}: {self.text}. Nothing was moved.", RankDisagreement
            case "failed":
                message, cls = f"{where}: {who} raised {self.text}", RankFailed
            case "closed":
                message = f"{where}: {who} closed its loader. End all ranks at the same step, or use at_end."
                cls = RankClosed
            case "late":
                message = (
                    f"{where}: waited in vain for {self.text}. It is dead, stopped, or its training loop asks for no "
                    f"packs; raise timeout if it was only slow."
                )
                cls = ExchangeTimeout
            case _:
                message, cls = f"{where}: lost {self.text}", RankLost
        error = cls(message, tuple(self.ranks), self.step, self.phase)
        if isinstance(error, RankFailed):
            error.details = self.details
        return error


NONE = Verdict("", -1, "go", [], "", "", -1, "start")


def _listed(ranks: dict[str, list[int]]) -> str:
    return ", ".join(f"ranks {', '.join(map(str, those))}: {word}" for word, those in ranks.items())
