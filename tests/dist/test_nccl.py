"""What is asked of NCCL when its group is built: the path through torch is torch's own, NCCL a stand-in."""

from __future__ import annotations

import pytest

from tests.ranks import Ranks

from .nccl import Asked, built_beside_others


@pytest.mark.parametrize("bound", [None, "cuda:0"])
def test_a_group_of_some_ranks_needs_no_others(ranks: Ranks, bound: str | None) -> None:
    """Where the job's group has a device of its own, torch would split its communicator, which takes all ranks."""
    asked = ranks.run(built_beside_others, [0, 1], bound, n=3)
    assert asked == [[Asked(split=False, timeout_s=3620)]] * 2 + [[]]
