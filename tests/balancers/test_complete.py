"""The complete Karmarkar-Karp method and LPT by slack: by hand, against brute force, and at their limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from balancers import LPT, Barrier, Counts, Grid, KarmarkarKarp, Problem, Status
from balancers.complete_karmarkar_karp import CompleteKarmarkarKarp, search
from balancers.references import step_optimum
from balancers.slack import SlackLPT, by_slack
from balancers.testing import FAMILIES
from packing import CannotServe, InvalidParameter

from .naive import differencing_by_lists

UNREACHABLE = 2**61


@pytest.mark.parametrize(
    ("loads", "n_ranks", "optimum"),
    [
        ([8, 7, 6, 5, 4], 2, 15),  # differencing makes 16 (Korf 1998)
        ([46, 39, 27, 26, 16, 13, 10], 3, 62),
        ([5, 5, 4, 4, 3, 3, 3], 3, 9),  # LPT makes 11 (Graham 1969)
        ([9, 7, 6, 5, 5, 4, 3, 3], 3, 14),
        ([6, 6, 6, 6, 6], 4, 12),
        ([10, 10, 10], 8, 10),
    ],
)
def test_textbook_examples_are_solved_and_proven(loads: list[int], n_ranks: int, optimum: int) -> None:
    plan = CompleteKarmarkarKarp().plan(Problem(loads, n_ranks))
    assert (plan.cost, plan.lower_bound, plan.status) == (optimum, optimum, Status.OPTIMAL)


@settings(max_examples=300)
@given(st.lists(st.integers(0, 60), max_size=9), st.integers(1, 3))
def test_the_complete_search_is_exact(loads: list[int], n_ranks: int) -> None:
    plan = CompleteKarmarkarKarp().plan(Problem(loads, n_ranks))
    assert plan.cost == plan.lower_bound == step_optimum(Problem(loads, n_ranks))


@settings(max_examples=50)
@given(st.lists(st.integers(1, 1000), min_size=4, max_size=7), st.integers(4, 5))
def test_the_complete_search_is_exact_on_more_ranks(loads: list[int], n_ranks: int) -> None:
    """No bound helps here: every way is tried or cut."""
    falling = np.array(sorted(loads, reverse=True), dtype=np.int64)
    bin_of, cost, ended = search(falling, n_ranks, UNREACHABLE, 0, UNREACHABLE)
    assert ended
    assert cost == step_optimum(Problem(loads, n_ranks)) == np.bincount(bin_of, falling).max()


@settings(max_examples=100)
@given(st.lists(st.integers(1, 1000), min_size=2, max_size=20), st.integers(2, 5))
@example([74, 198, 330, 330, 332, 332, 455, 531, 531, 532, 533], 3)  # the order of equal differences matters
def test_the_first_leaf_is_that_of_differencing(loads: list[int], n_ranks: int) -> None:
    falling = sorted(loads, reverse=True)
    bin_of, cost, _ = search(np.array(falling), n_ranks, UNREACHABLE, 0, len(loads) - 1)
    sums = differencing_by_lists([[load, *[0] * (n_ranks - 1)] for load in falling], open_first=False)
    assert sorted(np.bincount(bin_of, falling, n_ranks), reverse=True) == sums
    assert cost == sums[0]


def test_without_nodes_the_plan_is_that_of_differencing() -> None:
    problem = Problem(np.random.default_rng(0).integers(1, 10**6, 20), 3)
    plan, start = CompleteKarmarkarKarp(nodes=0).plan(problem), KarmarkarKarp().plan(problem)
    assert plan.cell.tolist() == start.cell.tolist()
    assert plan.status is Status.FALLBACK


def test_more_nodes_never_cost_more_and_the_end_is_a_proof() -> None:
    problem = Problem(np.random.default_rng(2).integers(1, 10**6, 14), 3)
    plans = [CompleteKarmarkarKarp(nodes).plan(problem) for nodes in (10, 100, 1000, 200_000)]
    assert [plan.status.value for plan in plans] == ["fallback", "feasible", "feasible", "optimal"]
    costs = [plan.cost for plan in plans]
    assert costs == [2335638, 2315825, 2314139, 2314072]
    assert costs[0] == KarmarkarKarp().plan(problem).cost
    assert all(plan.lower_bound <= costs[-1] for plan in plans)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("n_packs", "n_ranks"), [(100, 8), (30, 2)])
def test_an_unfinished_search_is_never_worse_and_the_same_again(family: str, n_packs: int, n_ranks: int) -> None:
    problem = Problem(FAMILIES[family](np.random.default_rng(0), n_packs), n_ranks)
    first, second = (CompleteKarmarkarKarp(nodes=2000).plan(problem) for _ in range(2))
    assert first.digest() == second.digest()
    assert first.cost <= KarmarkarKarp().plan(problem).cost


def test_packs_without_load_are_spread_over_ranks_and_micro_steps() -> None:
    plan = CompleteKarmarkarKarp().plan(Problem([8, 7, 6, 5, 4, 0, 0, 0], Grid(2, 2)))
    assert plan.cost == 15
    assert sorted(map(len, plan.partitions)) == [4, 4]
    assert np.bincount(plan.cell).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem([1, 1], Grid(2, counts=Counts.EQUAL)), r"it does not count packs\. Use Counts\.FREE\."),
        (
            Problem([1] * 101, 2),
            r"at most 100 packs and 8 ranks, not 101 packs on 2 ranks\. Use Auto\(\), or LPT\(\)\.",
        ),
        (Problem([1] * 9, 9), r"at most 100 packs and 8 ranks, not 9 packs on 9 ranks\. Use Auto\(\), or LPT\(\)\."),
        (Problem([1], Grid(1, barrier=Barrier.MICRO_STEP)), "it serves the barrier STEP, not MICRO_STEP"),
    ],
    ids=["counts", "packs", "ranks", "barrier"],
)
def test_what_the_search_is_not_made_for_is_refused(problem: Problem, text: str) -> None:
    with pytest.raises(CannotServe, match=text):
        CompleteKarmarkarKarp().plan(problem)


def test_bad_node_limits_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"CompleteKarmarkarKarp\.nodes must be in \[0, "):
        CompleteKarmarkarKarp(nodes=-1)


def test_groups_go_by_slack_and_zeros_last() -> None:
    """Groups of two: 9 9 | 8 5 | 4 and nothing, with the slacks 0, 3 and 4; then the zero."""
    loads = np.array([0, 5, 9, 4, 8, 9])
    order = np.array([2, 5, 4, 1, 3, 0])
    assert by_slack(loads, order, 2).tolist() == [3, 4, 1, 2, 5, 0]
    assert by_slack(loads, order, 1).tolist() == order.tolist()  # no slack: as it was
    assert by_slack(loads[:0], order[:0], 3).tolist() == []


def test_slack_by_hand() -> None:
    """8 7 | 6 5 | 4 have the slacks 1, 1 and 4: 4 and 8, then 7 on 4, 6 on 8, 5 on 11; LPT makes 17."""
    assert SlackLPT().plan(Problem([8, 7, 6, 5, 4], 2)).partitions == [[1, 3, 4], [0, 2]]
    assert SlackLPT().plan(Problem([5, 5, 4, 4, 3, 3, 3], 3)).cost == 10  # LPT makes 11, the optimum is 9 (Graham 1969)


@settings(max_examples=150)
@given(st.lists(st.integers(0, 30), max_size=9), st.integers(1, 3))
def test_slack_stays_within_the_bound_of_list_scheduling(loads: list[int], n_ranks: int) -> None:
    problem = Problem(loads, n_ranks)
    assert n_ranks * SlackLPT().plan(problem).cost <= (2 * n_ranks - 1) * step_optimum(problem)


@pytest.mark.parametrize(("n_ranks", "per_rank"), [(64, 4), (64, 8), (256, 16)])
def test_slack_is_closer_than_lpt_on_uniform_loads_and_further_on_heavy_tails(n_ranks: int, per_rank: int) -> None:
    gaps = {
        family: [
            sum(
                balancer.plan(Problem(draw(np.random.default_rng(seed), n_ranks * per_rank), n_ranks)).gap
                for seed in range(10)
            )
            for balancer in (SlackLPT(), LPT())
        ]
        for family, draw in FAMILIES.items()
    }
    assert gaps["uniform"][0] < 0.8 * gaps["uniform"][1]
    assert gaps["heavy_tail"][0] >= gaps["heavy_tail"][1]
