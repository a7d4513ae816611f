"""A deadline of our own for what the device does: a device waits for a lost rank for ever, and says nothing."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep

from .errors import ExchangeTimeout
from .meeting import Patience
from .store import Store, StoreHolder
from .streams import Event

__all__ = ["PHASE", "Watchdog", "passed"]

PHASE = "device exchange"
POLL_S = (0.000_05, 0.02)  # shortest and longest pause between two looks; they grow with the time waited


class Watchdog:
    """Waits for an exchange on the device, up to a deadline. The store holds who has launched which exchange: the error
    names who has not."""

    def __init__(
        self, store: Store, holder: StoreHolder, rank: int, n_ranks: int, pass_number: int, patience: Patience
    ) -> None:
        """``store``: a connection that the training loop's thread has for itself."""
        self._store, self._holder, self._rank, self._n_ranks = store, holder, rank, n_ranks
        self._pass, self._patience = pass_number, patience

    def launched(self, step: int) -> None:
        """Say that this rank launches the exchange of ``step``. Raises `RankLost` where the store is gone."""
        with self._holder.asked(step, PHASE):
            self._store.set(f"launched/{self._rank}", f"{self._pass} {step}")

    def wait(self, event: Event, step: int) -> None:
        """Return once ``event``, after the exchange of ``step``, has passed. Raises `ExchangeTimeout` or `RankLost`."""
        limit = self._patience.timeout_s
        with self._patience.waiting():
            if passed(event, lambda _: self._patience.waited > limit):
                return
        with self._holder.asked(step, PHASE):
            late = self._late(step)
        who = ", ".join(f"rank {rank} ({where})" for rank, where in late.items())
        raise ExchangeTimeout(
            f"step {step}, {PHASE}: rank {self._rank} waited {limit:g} s in vain. "
            + (f"Not launched by {who}." if late else "All ranks have launched it: a device or a connection is stuck.")
            + " Raise timeout if it was only slow; else end this process, whose device may wait for ever.",
            tuple(late),
            step,
            PHASE,
        )

    def _late(self, step: int) -> dict[int, str]:
        """Return the ranks that have not launched ``step``, and where they are."""
        late = {}
        for rank in range(self._n_ranks):
            key = f"launched/{rank}"
            known = self._store.get(key).decode() if self._store.check([key]) else ""
            pass_number, last = map(int, known.split()) if known else (-1, -1)
            if (pass_number, last) < (self._pass, step):
                late[rank] = f"last launched step {last} of pass {pass_number}" if known else "not seen yet"
        return late


def passed(event: Event, enough: Callable[[float], bool]) -> bool:
    """Wait for ``event`` until ``enough(seconds)``; return whether it has passed."""
    begin = monotonic()
    while not event.query():
        waited = monotonic() - begin
        if enough(waited):
            return False
        sleep(min(max(waited / 8, POLL_S[0]), POLL_S[1]))
    return True
