"""Loaders that are dropped, closed twice, closed too early or not at all: one rank, no job."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
import torch

from balancers import LPT, Assignment, Balancer, Grid, Problem
from dist import RankClosed

from .jobs import alone

COLLECT = threading.Event()


@dataclass(frozen=True)
class Collecting(Balancer):
    """Collects garbage in step 2, and takes its time then."""

    def assign(self, problem: Problem) -> Assignment:
        if problem.step == 2 and threading.current_thread().name == "evenstep-exchange" and not gc.isenabled():
            assert COLLECT.wait(10)
            gc.collect()
            time.sleep(0.5)
        return LPT().assign(problem)


def exchange_threads() -> int:
    return sum(thread.name == "evenstep-exchange" for thread in threading.enumerate())


def test_untouched_loaders_start_nothing_and_dropped_ones_leave_nothing() -> None:
    loaders = [alone([torch.zeros(10)] * 100) for _ in range(50)]
    assert exchange_threads() == 0
    iterators = [iter(each) for each in loaders]
    batches = [next(each) for each in iterators]
    assert exchange_threads() == 50
    dropped = [weakref.ref(each) for each in (*loaders, *iterators)]
    last = weakref.ref(batches[0])
    del loaders, iterators, batches
    gc.collect()
    assert [each() for each in dropped] == [None] * 100
    assert last() is None
    assert exchange_threads() == 0


def test_a_pass_that_is_dropped_in_its_own_thread_ends_before_the_next_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an iterator is part of a cycle, the garbage collector drops it in whatever thread it runs."""
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    loader = alone(list(range(9)), balancer=Collecting())
    gc.disable()
    try:
        batches = iter(loader)
        next(batches)
        cycle: list[object] = [batches]
        cycle.append(cycle)
        dropped = weakref.ref(batches)
        del batches, cycle
        COLLECT.set()
        begin = time.monotonic()
        while dropped() is not None and time.monotonic() - begin < 10:
            time.sleep(0.001)
        assert dropped() is None
        assert exchange_threads() == 1  # still planning
        again = iter(loader)
        assert exchange_threads() == 1  # that of the new pass
    finally:
        gc.enable()
        COLLECT.clear()
    assert [batch.pack for batch in again] == list(range(9))
    assert unraisable == []


def test_the_iterator_keeps_working_without_the_loader() -> None:
    batches = iter(alone(list(range(5))))
    gc.collect()
    assert [batch.pack for batch in batches] == [0, 1, 2, 3, 4]


def test_closing_twice_and_asking_again_is_harmless() -> None:
    loader = alone(list(range(5)))
    batches = iter(loader)
    next(batches)
    begin = time.monotonic()
    loader.close()
    loader.close()
    assert time.monotonic() - begin < 1
    assert list(batches) == []
    with pytest.raises(RankClosed, match=r"^this loader can no longer be used: it was closed\. Build a new one\.$"):
        iter(loader)


def test_the_thread_ends_with_the_pass_and_later_passes_are_whole() -> None:
    loader = alone(list(range(5)), depth=3)
    for _ in range(3):
        assert [batch.pack for batch in loader] == [0, 1, 2, 3, 4]
        assert exchange_threads() == 0
    assert len(loader) == 5


def test_a_source_is_pulled_only_so_far_ahead() -> None:
    pulled = []

    def source() -> Iterator[int]:
        for i in range(100):
            pulled.append(i)
            yield i

    batches = iter(alone(source(), depth=2, grid=Grid(1, n_micro_steps=3)))
    next(batches)
    assert len(pulled) == 2 * 3 + 1
    next(batches)
    assert len(pulled) == 2 * 3 + 2


@pytest.mark.parametrize(("overlap", "dropped"), [(True, [6, 6, 6, 6]), (False, [2, 1, 0, 2])])
def test_packs_lost_to_a_break_are_counted(overlap: bool, dropped: list[int]) -> None:
    """Three micro-steps per step, two steps ahead; or, inside ``next``, the step that is needed and nothing ahead."""
    loader = alone(range(100), overlap=overlap, grid=Grid(1, n_micro_steps=3))
    assert loader.dropped == 0
    for stop, expected in enumerate(dropped):
        for i, _ in enumerate(loader):
            assert loader.dropped == 0
            if i == stop:
                break
        assert loader.dropped == expected


def test_an_error_that_is_dropped_keeps_nothing() -> None:
    """Not even until the garbage collector comes: groups and packs wait for nobody."""

    def source() -> Iterator[torch.Tensor]:
        yield torch.zeros(10)
        raise KeyError("item 1")

    loader = alone(source())
    batches = iter(loader)
    held = [weakref.ref(each) for each in (loader, loader._group, batches, next(batches))]
    gc.collect()
    gc.disable()
    try:
        with suppress(KeyError):
            next(batches)
        del loader, batches
        assert [each() for each in held] == [None] * 4
    finally:
        gc.enable()


def test_packs_lost_to_an_error_are_counted() -> None:
    def source() -> Iterator[int]:
        yield from range(5)
        raise KeyError("item 5")

    loader = alone(source(), packs_per_cell=2, depth=1)
    with pytest.raises(KeyError, match="item 5"):
        list(loader)
    assert loader.dropped == 1  # two steps of two came before


LEAVE = """
import sys, time, threading
from balancers import LPT, Grid
from dist import BalancedLoader
packs = iter(lambda: [1, 2], None)
loader = BalancedLoader(packs, balancer=LPT(), grid=Grid(1), loads=lambda pack: 1)
batches = iter(loader)
next(batches)
{how}
"""


@pytest.mark.parametrize(("how", "code"), [("", 0), ("sys.exit(3)", 3), ("raise KeyError(5)", 1)])
def test_a_process_that_just_ends_does_so_at_once(how: str, code: int) -> None:
    script = LEAVE.format(how=f"begin = time.monotonic(); {how}")
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert "thread" not in done.stderr.lower()
    assert (done.stderr == "") == (code != 1)
    assert time.monotonic() - begin < 30  # importing torch included
