"""A deadline of our own for what the device does, and what is told of the ranks when it ends."""

from __future__ import annotations

import time
from typing import cast

import pytest
import torch.distributed as td

import dist.watchdog
from dist import ExchangeTimeout, RankLost
from dist.meeting import Patience
from dist.store import Store, StoreHolder
from dist.watchdog import Watchdog, passed

from .lazy import Mark


def watchdogs(n: int, timeout_s: float = 0.01, pass_number: int = 3) -> list[Watchdog]:
    """One for each rank, on one store."""
    store = cast("Store", td.HashStore())  # type: ignore[attr-defined]
    return [Watchdog(store, StoreHolder(0), rank, n, pass_number, Patience(timeout_s)) for rank in range(n)]


def told(watchdog: Watchdog, step: int) -> tuple[str, tuple[int, ...], int, str]:
    """What ``watchdog`` says of an exchange that never ends: text, and the error's attributes."""
    with pytest.raises(ExchangeTimeout) as caught:
        watchdog.wait(Mark(), step)
    error = caught.value
    return str(error), error.ranks, error.step, error.phase


REMEDY = " Raise timeout if it was only slow; else end this process, whose device may wait for ever."


def test_who_has_not_launched_is_named_with_where_it_was_last() -> None:
    own, _, earlier_step, earlier_pass, later_step, later_pass = watchdogs(6)
    own.launched(7)
    earlier_step.launched(6)
    later_step.launched(8)
    earlier_pass._pass, later_pass._pass = 2, 4
    earlier_pass.launched(9)  # of a pass that is over: a higher number, and yet behind
    later_pass.launched(0)
    text = (
        "step 7, device exchange: rank 0 waited 0.01 s in vain. Not launched by rank 1 (not seen yet), "
        "rank 2 (last launched step 6 of pass 3), rank 3 (last launched step 9 of pass 2)."
    )
    assert told(own, 7) == (text + REMEDY, (1, 2, 3), 7, "device exchange")


def test_where_all_have_launched_no_rank_is_accused() -> None:
    first, second = watchdogs(2, 0.25)
    first.launched(0)
    second.launched(0)
    text = (
        "step 0, device exchange: rank 1 waited 0.25 s in vain. All ranks have launched it: a device or a connection "
        "is stuck."
    )
    begin = time.monotonic()
    assert told(second, 0) == (text + REMEDY, (), 0, "device exchange")
    assert 0.25 <= time.monotonic() - begin < 2


@pytest.mark.parametrize(
    ("holder", "who"), [(StoreHolder(0), "rank 0"), (StoreHolder(None), "a process outside of these ranks")]
)
def test_without_the_store_its_holder_is_named(holder: StoreHolder, who: str) -> None:
    server = td.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    store = td.TCPStore("127.0.0.1", server.port, None, is_master=False)  # type: ignore[attr-defined]
    watchdog = Watchdog(cast("Store", store), holder, 1, 2, 0, Patience(0.01))
    watchdog.launched(4)
    del server
    text = f"step 4, device exchange: the rendezvous store is gone, which {who} usually holds. "
    with pytest.raises(RankLost, match=f"^{text}") as caught:
        watchdog.wait(Mark(), 4)
    assert caught.value.ranks == (() if holder.rank is None else (0,))
    assert (caught.value.step, caught.value.phase) == (4, "device exchange")


def test_time_counts_only_while_somebody_waits() -> None:
    (watchdog,) = watchdogs(1)
    watchdog.wait(Mark(1), 0)
    assert watchdog._patience.waited == 0.0
    told(watchdog, 0)
    assert watchdog._patience.waited == 0.0


def test_an_event_is_looked_at_more_and_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses, asked = 0.0, list[float](), list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    monkeypatch.setattr(dist.watchdog, "sleep", sleep)
    monkeypatch.setattr(dist.watchdog, "monotonic", lambda: now)
    assert passed(Mark(1), lambda _: pytest.fail("it has passed: nobody asks for how long"))
    assert pauses == []

    def patient(seconds: float) -> bool:
        asked.append(seconds)
        return False

    assert passed(Mark(100), patient)
    assert len(asked) == len(pauses) == 99
    assert asked == sorted(asked)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.000_05, 0.02)
    assert not passed(Mark(), lambda seconds: seconds > 1)
