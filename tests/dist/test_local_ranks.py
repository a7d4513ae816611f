"""Ranks whose processes have ended, and only those."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dist.local_ranks import LocalRanks, address_of
from tests.ranks import Ranks

from .faults import Told, halted, train

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ends of processes are seen on Linux alone")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    some = [subprocess.Popen(["sleep", "100"]) for _ in range(3)]
    yield some
    for each in some:
        each.kill()
        each.wait()


def until(state: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has stopped or ended, and leave it a zombie."""
    os.waitid(os.P_PID, process.pid, state | os.WNOWAIT)


def test_who_is_killed_has_ended_and_who_is_stopped_has_not(processes: list[subprocess.Popen[bytes]]) -> None:
    own = os.getpid()
    local_ranks = LocalRanks([address_of(each) for each in (processes[0].pid, own, processes[1].pid, processes[2].pid)])
    assert local_ranks.ended() == []
    processes[1].send_signal(signal.SIGSTOP)
    until(os.WSTOPPED, processes[1])
    assert local_ranks.ended() == []
    processes[2].kill()
    until(os.WEXITED, processes[2])
    assert local_ranks.ended() == [3]  # a zombie
    processes[2].wait()
    processes[0].terminate()
    until(os.WEXITED, processes[0])
    assert local_ranks.ended() == [0, 3]
    local_ranks.close()
    local_ranks.close()
    assert local_ranks.ended() == []


def test_nobody_is_taken_for_another(processes: list[subprocess.Popen[bytes]]) -> None:
    """Of another machine, another container, or a process whose number was given again: the mark is another."""
    files = len(list(Path("/proc/self/fd").iterdir()))
    mark, number = address_of(processes[0].pid)
    assert (mark, number) == address_of(processes[0].pid) != address_of(processes[1].pid)
    assert 0 < mark < 2**63
    local_ranks = LocalRanks([(0, number), (mark ^ 1, number), (mark, processes[1].pid), address_of(2**22 + 1)])
    assert address_of(2**22 + 1) == (0, 2**22 + 1)  # more than a process number can be
    assert len(list(Path("/proc/self/fd").iterdir())) == files
    for each in processes:
        each.kill()
        until(os.WEXITED, each)
    assert local_ranks.ended() == []


def test_where_the_kernel_does_not_tell_nobody_has_ended(
    monkeypatch: pytest.MonkeyPatch, processes: list[subprocess.Popen[bytes]]
) -> None:
    addresses = [address_of(each.pid) for each in processes]
    monkeypatch.delattr(os, "pidfd_open")
    local_ranks = LocalRanks(addresses)
    processes[0].kill()
    until(os.WEXITED, processes[0])
    assert local_ranks.ended() == []


@pytest.mark.parametrize("overlap", [True, False], ids=["beside", "inline"])
def test_a_rank_that_dies_is_found_long_before_the_timeout(ranks: Ranks, overlap: bool) -> None:
    outcomes = ranks.outcomes(train, "kill", 10, 600.0, 2, overlap, n=3, timeout=30)
    for survivor in (outcomes[0].result, outcomes[2].result):
        assert isinstance(survivor, Told)
        assert (survivor.kind, survivor.ranks) == ("RankLost", (1,)), survivor.text
        assert survivor.seconds < 5


@pytest.mark.parametrize("how", ["stopped", "holds the GIL"])
def test_a_rank_that_halts_for_a_while_is_no_fault(ranks: Ranks, how: str) -> None:
    assert ranks.run(halted, how, n=3) == [40] * 3
