"""The pool of rank processes itself: results, tracebacks, deaths, time limits."""

from __future__ import annotations

import os
import time

import pytest
import torch
import torch.distributed as td

from tests.ranks import Ranks


def summed(value: int) -> tuple[int, int]:
    total = torch.tensor([value + td.get_rank()])
    td.all_reduce(total)
    return os.getpid(), int(total)


def misbehave(how: str) -> str:
    if td.get_rank() == 1:
        if how == "raise":
            raise KeyError("item 5")
        if how == "die":
            os._exit(3)
        time.sleep(60)
    return "survived"


def test_jobs_run_in_the_same_processes(ranks: Ranks) -> None:
    first, again = ranks.run(summed, 5), ranks.run(summed, 7)
    assert [total for _, total in first] == [11, 11]
    assert [pid for pid, _ in first] == [pid for pid, _ in again]
    assert [total for _, total in again] == [15, 15]


def test_one_failure_stays_one(ranks: Ranks) -> None:
    with pytest.raises(AssertionError, match=r"(?s)rank 1: Traceback.*in misbehave.*KeyError: 'item 5'"):
        ranks.run(misbehave, "raise")
    dead = ranks.outcomes(misbehave, "die")
    assert (dead[0].result, dead[1].exit_code) == ("survived", 3)
    slow = ranks.outcomes(misbehave, "sleep", timeout=8)  # a process that was replaced has to connect within it
    assert (slow[0].result, slow[1].ended) == ("survived", False)
    assert [total for _, total in ranks.run(summed, 1)] == [3, 3]
