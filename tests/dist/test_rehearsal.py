"""What test_cuda.py runs on GPUs, on the CPU: so that it runs at all where there is one at last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar
from unittest import mock

import pytest
import torch

from tests.ranks import Ranks

from . import on_cuda
from .on_cuda import Held, allocation, bit_exact, contexts_elsewhere

T = TypeVar("T")
TRANSPORT = pytest.mark.parametrize("transport", ["host", "device"])


def rehearsed(job: Callable[..., T], *arguments: object) -> T:
    with ExitStack() as stack:
        for target, name, value in (
            (on_cuda, "own_device", lambda: torch.device("cpu")),
            (torch.Tensor, "pin_memory", lambda tensor: tensor),
            (torch.cuda, "_sleep", lambda cycles: None),
            (torch.cuda, "device_count", lambda: 2),
            (torch.cuda, "reset_peak_memory_stats", lambda device: None),
            (torch.cuda, "memory_reserved", lambda device: 0),
            (torch.cuda, "max_memory_allocated", lambda device: 0),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        return job(*arguments)


@TRANSPORT
@pytest.mark.parametrize("resident", [True, False], ids=["resident", "on-host"])
def test_what_arrives_has_the_bytes_that_left(ranks: Ranks, transport: str, resident: bool) -> None:
    came = ranks.run(rehearsed, bit_exact, transport, "balance", True, resident, 40)
    assert sorted(each for of_rank in came for each in of_rank) == [(r, i) for r in (0, 1) for i in range(40)]


@TRANSPORT
def test_one_rank_alone_gets_its_own_packs(ranks: Ranks, transport: str) -> None:
    (came,) = ranks.run(rehearsed, bit_exact, transport, "balance", True, False, 20, n=1)
    assert came == [(0, i) for i in range(20)]


@TRANSPORT
def test_memory_is_looked_at_twice(ranks: Ranks, transport: str) -> None:
    assert ranks.run(rehearsed, allocation, transport, 2, 3) == [(Held(0, 0), Held(0, 0))] * 2


@TRANSPORT
def test_all_other_gpus_are_looked_at(ranks: Ranks, transport: str) -> None:
    assert ranks.run(rehearsed, contexts_elsewhere, transport) == [[0, 0]] * 2
