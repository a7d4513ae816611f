"""Each algorithm on the examples of the literature, against brute force, and on what it is known to be bad at."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancers import (
    LPT,
    Auto,
    Balancer,
    Barrier,
    Counts,
    Grid,
    KarmarkarKarp,
    Plan,
    Problem,
    RoundRobin,
    StayHome,
    Zigzag,
)
from balancers.karmarkar_karp import differencing
from balancers.references import brute_force_cost, naive_cost
from balancers.testing import FAMILIES
from packing import CannotServe

from .naive import differencing_by_lists

EVENING = (LPT(), KarmarkarKarp(), Zigzag())


def cost(balancer: Balancer, loads: list[int], grid: Grid | int) -> int:
    return balancer.plan(Problem(loads, grid)).cost


@pytest.mark.parametrize("m", [2, 3, 4, 7])
def test_lpt_is_as_bad_as_graham_says_on_his_example(m: int) -> None:
    """2m - 1, 2m - 1, ..., m + 1, m + 1, m, m, m: LPT makes 4m - 1 where 3m is possible (Graham 1969)."""
    loads = sorted([*range(m + 1, 2 * m), *range(m + 1, 2 * m), m, m, m], reverse=True)
    assert cost(LPT(), loads, m) == 4 * m - 1
    assert sum(loads) == 3 * m * m


def test_textbook_example_of_number_partitioning() -> None:
    """8, 7, 6, 5, 4: in two parts greedy makes 17, differencing 16 (optimum 15); in three differencing 8, 11, 11."""
    assert cost(LPT(), [8, 7, 6, 5, 4], 2) == 17
    assert cost(KarmarkarKarp(), [8, 7, 6, 5, 4], 2) == 16
    plan = KarmarkarKarp().plan(Problem([8, 7, 6, 5, 4], 3))
    assert sorted(plan.rank_load.tolist()) == [8, 11, 11]
    assert sorted(map(sorted, plan.partitions)) == [[0], [1, 4], [2, 3]]


def test_balanced_differencing_by_hand() -> None:
    """Groups (9, 8) (6, 5) (2, 1): (9 + 5, 8 + 6) is even, then (14 + 1, 14 + 2)."""
    plan = KarmarkarKarp().plan(Problem([9, 8, 6, 5, 2, 1], Grid(2, counts=Counts.EQUAL)))
    assert sorted(plan.rank_load.tolist()) == [15, 16]
    assert sorted(map(sorted, plan.partitions)) == [[0, 3, 5], [1, 2, 4]] or plan.cost == 16


def test_zigzag_by_hand() -> None:
    plan = Zigzag().plan(Problem([1, 2, 3, 4, 5, 6, 7], 3))
    assert plan.partitions == [[0, 1, 6], [2, 5], [3, 4]]


def test_round_robin_by_hand() -> None:
    plan = RoundRobin().plan(Problem([1] * 7, Grid(2, 2)))
    assert plan.cell.tolist() == [0, 1, 2, 3, 0, 1, 2]


def test_eleven_packs_on_four_ranks() -> None:
    loads = [9, 8, 7, 6, 5, 5, 4, 4, 3, 3, 2]
    assert cost(LPT(), loads, 4) == 15
    assert cost(LPT(), loads, Grid(4, counts=Counts.WITHIN_ONE)) == 15
    assert cost(KarmarkarKarp(), loads, 4) == 14  # the optimum


def test_bounded_counts_by_hand() -> None:
    loads = [100] + [1] * 9
    assert cost(LPT(), loads, 3) == 100
    plan = LPT().plan(Problem(loads, Grid(3, counts=Counts.WITHIN_ONE)))
    assert plan.cost == 102
    assert sorted(map(len, plan.partitions)) == [3, 3, 4]
    plan = LPT().plan(Problem(loads, Grid(3, counts=(2, 5))))
    assert plan.cost == 101
    assert sorted(map(len, plan.partitions)) == [2, 4, 4]


@pytest.mark.parametrize("balancer", [*EVENING, RoundRobin()], ids=repr)
def test_packs_without_load_are_spread(balancer: Balancer) -> None:
    plan = balancer.plan(Problem([0, 0, 0], 4))
    assert plan.cost == 0
    assert plan.imbalance == 1.0
    assert sorted(map(len, plan.partitions)) == [0, 1, 1, 1]
    plan = balancer.plan(Problem([0] * 5 + [7], 3))
    assert plan.cost == 7
    assert sorted(map(len, plan.partitions)) == [2, 2, 2]


@pytest.mark.parametrize("balancer", [*EVENING, RoundRobin()], ids=repr)
def test_fewer_packs_than_ranks(balancer: Balancer) -> None:
    plan = balancer.plan(Problem([10, 10, 10], 4))
    assert sorted(map(len, plan.partitions)) == [0, 1, 1, 1]


def test_huge_loads_are_exact() -> None:
    assert cost(LPT(), [3 * 10**15, 2 * 10**15, 10**15 + 1], 2) == 3 * 10**15 + 1
    near = 2**62 // 3 - 1
    for balancer in EVENING:
        assert cost(balancer, [near, near, near], 3) == near
        assert cost(balancer, [near, near, near], 1) == 3 * near


@settings(max_examples=150)
@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 3))
def test_small_problems_against_brute_force(loads: list[int], n_ranks: int) -> None:
    problem = Problem(loads, n_ranks)
    best = brute_force_cost(problem)
    assert problem.lower_bound <= best
    for balancer in (*EVENING, RoundRobin()):
        plan = balancer.plan(problem)
        assert plan.cost == naive_cost(problem, plan.cell.tolist()) >= best
        if plan.status.value == "optimal":
            assert plan.cost == best
    for balancer in (LPT(), KarmarkarKarp()):  # Graham 1969; Michiels, Korst, Aarts & van Leeuwen 2003
        assert 3 * n_ranks * balancer.plan(problem).cost <= (4 * n_ranks - 1) * best


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=6),
    st.sampled_from(
        [Grid(2, 2, barrier, counts) for barrier in Barrier for counts in Counts if counts.value != "equal"]
    ),
)
def test_bounds_hold_for_every_barrier_and_count(loads: list[int], grid: Grid) -> None:
    problem = Problem(loads, grid)
    assert problem.lower_bound <= brute_force_cost(problem)


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 30), min_size=6, max_size=6), st.sampled_from([Grid(3), Grid(2), Grid(3, 2), Grid(2, 3)])
)
def test_equal_counts_against_brute_force(loads: list[int], grid: Grid) -> None:
    for barrier in (Barrier.STEP, Barrier.MICRO_STEP):
        problem = Problem(loads, Grid(grid.n_ranks, grid.n_micro_steps, barrier, Counts.EQUAL))
        best = brute_force_cost(problem)
        assert problem.lower_bound <= best
        for balancer in EVENING:
            plan = balancer.plan(problem)
            assert plan.cost >= best
            if barrier is Barrier.MICRO_STEP and problem.most_per_cell == 1:
                assert plan.cost == best  # one pack per cell: sorting is optimal
                assert problem.lower_bound == best


def test_permuting_packs_inside_a_micro_step_gains_nothing_but_regrouping_does() -> None:
    """One pack per cell, a barrier in each micro-step: 9 + 8 as they come, 9 + 2 when like meets like."""
    grid = Grid(2, 2, Barrier.MICRO_STEP, Counts.EQUAL)
    loads = [9, 1, 2, 8]
    assert cost(RoundRobin(), loads, grid) == 17
    for balancer in EVENING:
        assert cost(balancer, loads, grid) == 11


@pytest.mark.parametrize(("n_ranks", "per_rank", "lpt", "alone"), [(64, 4, 1.02, 1.08), (256, 16, 1.02, 1.4)])
def test_balanced_differencing_alone_is_weak_on_heavy_tails(
    n_ranks: int, per_rank: int, lpt: float, alone: float
) -> None:
    """Mean of 10 seeds of lognormal loads, cost / bound: why the balancer takes the plan of `LPT` there."""
    ratios = []
    for seed in range(10):
        loads = FAMILIES["heavy_tail"](np.random.default_rng(seed), n_ranks * per_rank)
        problem = Problem(loads, Grid(n_ranks, counts=Counts.EQUAL))
        bin_of = differencing(problem.total, problem.heaviest_first, n_ranks, True)
        plans = [LPT().plan(problem), KarmarkarKarp().plan(problem), Plan(problem, bin_of)]
        assert plans[1].cost == min(plans[0].cost, plans[2].cost)
        ratios.append([plan.cost / plan.lower_bound for plan in plans])
    means = np.mean(ratios, axis=0)
    assert means[0] < lpt
    assert means[2] > alone


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("n_ranks", "per_rank"), [(64, 4), (64, 16), (256, 16)])
def test_differencing_is_never_much_worse_than_lpt_and_auto_than_either(
    family: str, n_ranks: int, per_rank: int
) -> None:
    loads = FAMILIES[family](np.random.default_rng(0), n_ranks * per_rank)
    problem = Problem(loads, Grid(n_ranks, counts=Counts.EQUAL))
    greedy, differencing_, auto = (balancer.plan(problem).cost for balancer in (LPT(), KarmarkarKarp(), Auto()))
    assert 100 * differencing_ <= 101 * greedy
    assert auto <= min(greedy, differencing_)


def test_differencing_wins_on_uniform_loads() -> None:
    loads = FAMILIES["uniform"](np.random.default_rng(0), 64 * 4)
    grid = Grid(64, counts=Counts.EQUAL)
    assert KarmarkarKarp().plan(Problem(loads, grid)).gap < 0.012 < LPT().plan(Problem(loads, grid)).gap


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("counts", [Counts.FREE, Counts.EQUAL])
def test_differencing_is_the_naive_one(family: str, counts: Counts) -> None:
    """The compiled form against tuples that are merged by the book; the costs must agree."""
    for seed in range(5):
        loads = FAMILIES[family](np.random.default_rng(seed), 24)
        n_bins = 4
        problem = Problem(loads, Grid(n_bins, counts=counts))
        bin_of = differencing(problem.total, problem.heaviest_first, n_bins, counts is Counts.EQUAL)
        falling = sorted((int(load) for load in loads), reverse=True)
        if counts is Counts.EQUAL:
            rows = [falling[i : i + n_bins] for i in range(0, 24, n_bins)]
        else:
            rows = [[load] + [0] * (n_bins - 1) for load in falling if load]
        by_lists = differencing_by_lists(rows, open_first=True) if rows else [0] * n_bins
        assert sorted(Plan(problem, bin_of).rank_load.tolist(), reverse=True) == by_lists


@pytest.mark.parametrize("balancer", EVENING, ids=repr)
@pytest.mark.parametrize("barrier", [Barrier.STEP, Barrier.MICRO_STEP])
def test_rank_totals_are_even_in_both_barriers(balancer: Balancer, barrier: Barrier) -> None:
    loads = FAMILIES["uniform"](np.random.default_rng(0), 64 * 8)
    plan = balancer.plan(Problem(loads, Grid(64, 8, barrier, Counts.EQUAL)))
    assert plan.rank_cost <= 1.02 * plan.rank_load.mean()


def test_stage_loads_are_judged_but_not_planned_yet_by_these() -> None:
    problem = Problem([[1, 2], [3, 4]], Grid(2, barrier=Barrier.STAGE, stages=("vision", "language")))
    assert RoundRobin().plan(problem).cost == 3 + 4
    for balancer in EVENING:
        with pytest.raises(CannotServe, match=r"it serves the barrier MICRO_STEP and STEP, not STAGE\."):
            balancer.plan(problem)


def test_staying_home_needs_a_home_that_respects_the_counts() -> None:
    with pytest.raises(CannotServe, match=r"StayHome\(\) cannot serve .* the packs have no home"):
        StayHome().plan(Problem([1, 2], 2))
    with pytest.raises(CannotServe, match="home must put 1 to 1 packs into each cell; rank 0, micro-step 0 has 2"):
        StayHome().plan(Problem([1, 2], Grid(2, counts=Counts.EQUAL), home=[0, 0]))
