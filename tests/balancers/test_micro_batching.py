"""Micro-batches: the cap is hard, every rank has as many, every sample is there once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancers import Barrier, Grid, Infeasible, InvalidProblem, Plan, micro_batches, partition


def tokens_per_cell(plan: Plan, lengths: list[int]) -> np.ndarray:
    return np.bincount(plan.cell, lengths, minlength=plan.problem.grid.n_cells).astype(int)


@settings(max_examples=100)
@given(
    st.lists(st.integers(0, 100), max_size=30),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([Barrier.STEP, Barrier.MICRO_STEP]),
    st.booleans(),
)
def test_the_cap_is_hard_and_all_ranks_have_as_many(
    lengths: list[int], n_ranks: int, multiple_of: int, barrier: Barrier, squared: bool
) -> None:
    costs = [length * length for length in lengths] if squared else None
    plan = micro_batches(lengths, Grid(n_ranks, barrier=barrier), 100, costs=costs, multiple_of=multiple_of)
    assert max(tokens_per_cell(plan, lengths), default=0) <= 100
    assert plan.problem.grid.n_micro_steps % multiple_of == 0
    assert len(plan.cell) == len(lengths)
    assert plan.problem.grid.n_cells >= sum(lengths) / 100
    bound = [i % n_ranks for i in range(len(lengths))]
    local = micro_batches(
        lengths, Grid(n_ranks, barrier=barrier), 100, costs=costs, multiple_of=multiple_of, rank=bound
    )
    assert local.rank.tolist() == bound
    assert max(tokens_per_cell(local, lengths), default=0) <= 100


def test_ranks_agree_on_the_number_even_if_their_needs_differ() -> None:
    """Samples stay where they are; rank 0 needs 4, rank 1 needs 8: both get 8."""
    lengths = [400] * 8 + [900] * 8
    plan = micro_batches(lengths, 2, 1000, rank=[0] * 8 + [1] * 8)
    assert plan.problem.grid.n_micro_steps == 8
    assert tokens_per_cell(plan, lengths).max() == 900
    assert sorted(map(len, plan.partitions)) == [8, 8]


def test_a_light_rank_gets_empty_cells_and_no_exception() -> None:
    lengths = [100, 100] + [950] * 5
    plan = micro_batches(lengths, 2, 1000, rank=[0, 0, 1, 1, 1, 1, 1])
    assert plan.problem.grid.n_micro_steps == 5
    counts = np.bincount(plan.cell, minlength=10).reshape(5, 2)
    assert counts[:, 1].tolist() == [1] * 5
    assert counts[:, 0].sum() == 2


def test_the_mean_is_only_a_lower_bound_on_their_number() -> None:
    plan = micro_batches([6] * 10, 1, 10)
    assert plan.problem.grid.n_micro_steps == 10
    assert tokens_per_cell(plan, [6] * 10).max() == 6


def test_the_cap_holds_against_any_cost() -> None:
    """Squared costs would like 90 alone against 190 tokens of the others."""
    lengths = [90] + [10] * 19
    plan = micro_batches(lengths, 1, 100, costs=[length**2 for length in lengths])
    assert plan.problem.grid.n_micro_steps == 3
    assert tokens_per_cell(plan, lengths).max() <= 100


def test_the_number_is_a_multiple_for_interleaved_pipelines() -> None:
    plan = micro_batches([6] * 5 + [1], 1, 6, multiple_of=4)  # 6 needed
    assert plan.problem.grid.n_micro_steps == 8
    assert micro_batches([1] * 249, 1, 2).problem.grid.n_micro_steps == 125
    assert sorted(np.bincount(micro_batches([1] * 249, 1, 2).cell).tolist()) == [1] + [2] * 124


def test_fewer_samples_than_ranks() -> None:
    plan = micro_batches([10, 10, 10], 4, 100)
    assert plan.problem.grid.n_micro_steps == 1
    assert sorted(map(len, plan.partitions)) == [0, 1, 1, 1]
    assert micro_batches([], 4, 100).problem.grid.n_micro_steps == 1


def test_a_search_saves_a_micro_step_where_best_fit_does_not_see_it() -> None:
    """Best fit decreasing needs three packs of 10 here, two are enough: 4 + 3 + 3 and 4 + 2 + 2 + 2."""
    assert micro_batches([4, 4, 3, 3, 2, 2, 2], 1, 10).problem.grid.n_micro_steps == 2


def test_a_sample_above_the_cap_is_named_before_any_work() -> None:
    with pytest.raises(InvalidProblem, match="sample 0 has 5000 tokens, the cap is 4096"):
        micro_batches([5000, 100, 100], 2, 4096)
    for arguments, text in (
        ({"max_tokens": 0}, "max_tokens must be in"),
        ({"max_tokens": 9, "multiple_of": 0}, "multiple_of must be in"),
        ({"max_tokens": 9, "costs": [1]}, "costs must have one value per sample; 1 for 2"),
        ({"max_tokens": 9, "rank": [0, 2]}, r"rank must be <= 1; rank\[1\] = 2"),
        ({"max_tokens": 9, "rank": [0]}, "rank must have one value per sample; 1 for 2"),
    ):
        with pytest.raises(InvalidProblem, match=text):
            micro_batches([1, 2], 2, **arguments)


def test_the_partition_of_rl_frameworks() -> None:
    lengths = [9, 8, 7, 6, 5, 5, 4, 4, 3, 3, 2]
    parts = partition(lengths, 4)
    assert sorted(i for part in parts for i in part) == list(range(11))
    assert max(sum(lengths[i] for i in part) for part in parts) == 14
    with pytest.raises(Infeasible, match=r"11 lengths, k = 4\. Pad the batch"):
        partition(lengths, 4, equal_size=True)
    assert sorted(map(len, partition([*lengths, 1], 4, equal_size=True))) == [3, 3, 3, 3]
    assert sorted(partition([5, 6], 3)) == [[], [0], [1]]
    for arguments, text in (((lengths, 0), r"k must be in \[1, "), (([1.5], 2), r"lengths\[0\] = 1.5")):
        with pytest.raises(InvalidProblem, match=text):
            partition(*arguments)


def test_replicas_are_counted_not_processes() -> None:
    """160 items on 4 replicas of 16 processes: 40 each, the same for all 16; not 64 parts."""
    assert [len(part) for part in partition([7] * 160, 4, equal_size=True)] == [40] * 4
    with pytest.raises(Infeasible, match="160 lengths, k = 64"):
        partition([7] * 160, 64, equal_size=True)


def test_stages_and_windows_are_refused_at_once() -> None:
    with pytest.raises(InvalidProblem, match="not STAGE"):
        micro_batches([1, 2], Grid(2, barrier=Barrier.STAGE), 10)
    with pytest.raises(InvalidProblem, match="not a window of 3"):
        micro_batches([1, 2], Grid(2, n_steps=3), 10)
