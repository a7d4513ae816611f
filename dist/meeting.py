"""Where ranks wait for each other: in the rendezvous store, by name, and not inside a collective.

A gloo call that waits cannot be cancelled, and names nobody. So ranks meet here before each collective: whoever is
late, raises, or closes is seen by name, for as long as it takes, while nobody is inside gloo.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from threading import Event
from time import monotonic, sleep
from typing import Concatenate, ParamSpec, TypeVar

from .errors import ExchangeError
from .roll import Roll, Verdict, line, listed, numbered
from .store import Store, StoreHolder

__all__ = ["Meeting", "Patience"]

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.001  # before this there is no pause between two looks: by then all are usually here
POLL_S = 0.02  # the longest pause between two looks; they grow with the time waited
POLL_MANY_S = 0.000_1  # the same for each rank, where they are many: 10,000 looks a second take an eighth of a core
WARN_S = 10.0
ROLL_CALL_S = 0.8  # for survivors to report; twice that while more than one is missing
DETAILS = 4_000  # characters of a traceback that travel
ROLLS = 3  # keys for rolls
FEW = 16  # ranks up to which a roll is read as quickly as a number
CAME, ALL = "came", 1 << 40  # how often any rank has come to a meeting, and what a verdict counts as


class Patience:
    """How long others may take: ``timeout_s`` from when somebody here began to wait for the result.

    While its training loop is busy elsewhere (evaluation, a checkpoint), a rank waits for late ones without limit.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._since: float | None = None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside."""
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


def _by_word(ranks: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{numbered(those)}: {word}" for word, those in ranks.items())


class Meeting:
    """The meetings of one pass over the data, numbered 0, 1, ...; one thread of each rank takes part.

    In each, ranks go on together, or all raise the same error: its `Roll` says which. A rank that comes appends a line
    and reads the roll. So the last to come learns in one request that all are there; the others look again. Requests
    are few: they are what a meeting costs. Many ranks do not each read all lines again and again: they ask how often
    any rank has come, and read the roll once that says that there is something to see.

    Three keys hold the rolls of all meetings in turn. Rank 0 empties the roll of the next meeting before it comes to
    this one. Nobody reads that key any more: it was used last two meetings ago. Rank 0 has left the meeting in between,
    to which all had come after they had left the one two ago. And nobody has written to it yet: a rank goes on to the
    next meeting only after it has seen rank 0 come to this one.
    """

    def __init__(
        self,
        store: Store,
        holder: StoreHolder,
        rank: int,
        n_ranks: int,
        patience: Patience,
        stop: Event,
        last: Meeting | None = None,
        ended: Callable[[], list[int]] = list,
    ) -> None:
        """``last``: that of the pass before, whose keys are removed once all have left it. ``stop``: set when this rank
        closes. ``ended``: returns the ranks whose processes have ended."""
        self._store, self._rank, self._n_ranks = store, rank, n_ranks
        self._patience, self._stop, self._holder, self._ended = patience, stop, holder, ended
        self._round, self._step = 0, -1
        self._phase = "start"
        self._met = "start"  # where all ranks were in the last meeting
        self._roll, self._told = Roll(n_ranks), ""
        self._last = last

    def at(self, step: int, phase: str) -> None:
        """Note where this rank is, for its own errors."""
        self._step, self._phase = step, phase

    @_asking
    def enter(self, step: int, phase: str) -> None:
        """Tell the others where this rank is: they read it when they miss it."""
        self.at(step, phase)
        self._write("at", self._here)

    def meet(self, word: str = "", explain: Callable[[Mapping[str, Sequence[int]]], str] = _by_word) -> None:
        """`come`, and `wait`."""
        self.come(word)
        self.wait(explain)

    @_asking
    def come(self, word: str = "") -> None:
        """Say that this rank is here, with the ``word`` that must be the same on all ranks.

        What it does until it calls `wait` costs no time: the request takes as long to reach the store and the others.
        """
        if self._rank == 0:
            self._store.set(_key(self._round + 1), "")
        self._write("here", word)
        self._signal(1)

    @_asking
    def wait(self, explain: Callable[[Mapping[str, Sequence[int]]], str] = _by_word) -> None:
        """Wait until every rank is here, or raise what the roll says, the same on all ranks.

        `RankDisagreement` where words differ (``explain`` makes a text of ranks by word), `RankFailed`, `RankClosed`,
        `RankLost` or `ExchangeTimeout`.
        """
        self._look()
        self._until_over()
        if self._roll.verdict is not None:
            raise self._roll.verdict.error()
        if ranks := self._roll.differ():
            odd = sorted(rank for those in sorted(ranks.values(), key=len)[:-1] for rank in those)
            raise Verdict("disagreed", odd, explain(ranks), "", self._step, self._phase).error()
        if self._last is not None:
            self._last.forget()
            self._last = None
        self._go_on()

    @_asking
    def tell(self, text: str) -> None:
        """Leave ``text`` for those who come to the next meeting."""
        self._write("told", text)

    def told(self) -> str:
        """Return what was told before the last meeting."""
        return self._told

    @_asking
    def fail(self, error: BaseException, trace: str) -> None:
        """Tell the others that this rank raised."""
        self._leave("failed", f"{type(error).__name__}: {error}", trace[-DETAILS:])

    @_asking
    def close(self) -> None:
        """Tell the others that this rank will not come again."""
        self._leave("closed")

    @_asking
    def lose(self, error: BaseException) -> ExchangeError:
        """Return the error to raise after a collective broke off with ``error``: it names the ranks that are gone.

        Every survivor answers here, or has come to the next meeting. A rank that does neither within a second or two is
        missing.
        """
        self._write("answers")
        self._read()
        begin = monotonic()
        while not self._roll.over and (missing := self._roll.silent()):
            if monotonic() - begin > (ROLL_CALL_S if len(missing) == 1 else 2 * ROLL_CALL_S):
                break
            sleep(0.05)
            self._read()
        if not self._roll.over:
            missing = self._roll.silent()
            where = self._where(missing) or "a connection was lost, though every rank answers"
            self._rule("lost", missing, f"{where}. Reported here: {error}".strip())
        assert self._roll.verdict is not None, "all have come, this rank too"
        return self._roll.verdict.error()

    def forget(self) -> None:
        """Remove the keys. To be called once a later pass has begun: nobody reads them any more."""
        if self._rank == 0:
            for round_ in range(ROLLS):
                self._store.delete_key(_key(round_))
            self._store.delete_key(CAME)

    @property
    def _here(self) -> str:
        return f"step {self._step}, {self._phase}"

    def _write(self, kind: str, content: str | Sequence[object] = "") -> None:
        self._store.append(_key(self._round), line(self._rank, kind, content))  # sent, and not waited for

    def _signal(self, times: int) -> None:
        """Count as so many that came: to be called once what was written can be read."""
        if self._n_ranks > FEW:
            self._store.add(CAME, times)

    def _look(self) -> None:
        """Read the roll, unless there is nothing to see."""
        if self._n_ranks <= FEW or self._store.add(CAME, 0) >= self._n_ranks * (self._round + 1):
            self._read()

    def _read(self) -> None:
        # compare-and-set of a text that no roll is: reads in one request, without waiting for the key
        self._roll.read(self._store.compare_set(_key(self._round), "?", "?").decode())

    def _leave(self, kind: str, text: str = "", details: str = "") -> None:
        self._rule(kind, [self._rank], text, details)
        if self._roll.verdict is None:  # all had come, this rank too: the others have gone on, and hear of it there
            self._go_on()
            self._rule(kind, [self._rank], text, details)

    def _go_on(self) -> None:
        self._round, self._met, self._told = self._round + 1, self._here, self._roll.told
        self._roll = Roll(self._n_ranks)

    def _rule(self, kind: str, ranks: Sequence[int] = (), text: str = "", details: str = "") -> None:
        """Write a verdict on this meeting, which ends it unless it had ended before, and see how it did."""
        self._write("verdict", (kind, ranks, text, details, self._step, self._phase))
        self._signal(ALL)
        self._read()

    def _until_over(self) -> None:
        begin, warned = monotonic(), False
        longest = max(POLL_S, POLL_MANY_S * self._n_ranks)
        while not self._roll.over:
            waited, passed = self._patience.waited, monotonic() - begin
            if self._stop.is_set():
                self._rule("closed", [self._rank])
            elif dead := self._ended():
                self._read()
                self._rule("lost", dead, f"{self._where(dead)}, whose process has ended")
            elif waited > self._patience.timeout_s:
                self._read()
                missing = self._roll.missing()
                self._rule("late", missing, f"{self._where(missing)}, after {self._patience.timeout_s:g} s")
            else:
                if waited > WARN_S and not warned:
                    warned = True
                    self._read()
                    log.warning("%s: still waiting for %s", self._here, self._where(self._roll.missing()))
                if passed > LOOK_AGAIN_S:
                    sleep(min(passed / 8, longest))
                self._look()

    def _where(self, ranks: Sequence[int]) -> str:
        return listed([f"rank {rank} ({self._last_at(rank)})" for rank in ranks])

    def _last_at(self, rank: int) -> str:
        if rank in self._roll.words:
            return f"last at {self._here}"
        if rank in self._roll.at:
            return f"last at {self._roll.at[rank]}"
        return f"last at {self._met}" if self._round else "not seen yet"


def _key(round_: int) -> str:
    return f"roll/{round_ % ROLLS}"
