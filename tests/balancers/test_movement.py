"""Few bytes for the same cost, and no bytes for nothing."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings

from balancers import (
    LPT,
    Auto,
    Barrier,
    Counts,
    Grid,
    HillClimb,
    LeastMovement,
    Plan,
    Problem,
    RoundRobin,
    StayHome,
    WorthMoving,
    movement_front,
)
from balancers.renaming import _assigned, _matched
from balancers.testing import FAMILIES, problems
from packing import CannotServe, InvalidParameter

BOTH = frozenset({Barrier.STEP, Barrier.MICRO_STEP})


def test_patches_move_to_the_nearest_even_plan() -> None:
    """1024 x 3 on rank 0, 256 on rank 1, 64 on rank 3: two of the large ones and the small one move, 2112 in all."""
    loads = [1024, 1024, 1024, 256, 64]
    problem = Problem(loads, 4, home=[0, 0, 0, 1, 3], n_bytes=loads)
    plan = LeastMovement(LPT()).plan(problem)
    assert (plan.cost, plan.moved_bytes) == (1024, 2112)
    assert plan.partitions[0] == [0] or plan.partitions[0] == [1] or plan.partitions[0] == [2]
    assert plan.partitions[1] == [3, 4]


def test_equal_ranks_move_nothing() -> None:
    problem = Problem([5, 5, 3, 3], 2, home=[1, 0, 0, 1], n_bytes=[7, 7, 7, 7])
    assert LPT().plan(problem).moved_bytes != 0
    assert LeastMovement(LPT()).plan(problem).moved_bytes == 0
    assert WorthMoving(LPT()).plan(problem).moved_bytes == 0


@settings(max_examples=150)
@given(problems(BOTH))
def test_the_promises_hold(problem: Problem) -> None:
    if problem.home is None:
        with pytest.raises(CannotServe, match="the packs have no home, so nothing moves"):
            LeastMovement().plan(problem)
        return
    inner = LPT().plan(problem)
    for tolerance in (0, 50_000, 10_000_000):
        plan = LeastMovement(LPT(), tolerance).plan(problem)
        assert 1_000_000 * plan.cost <= (1_000_000 + tolerance) * inner.cost
        assert (plan.moved_bytes or 0) <= (inner.moved_bytes or 0)
    for bytes_per_unit in (1, 1000):
        worth = WorthMoving(LPT(), bytes_per_unit).plan(problem)
        if worth.home is not None and worth.busiest_bytes is not None:
            assert worth.cost + -(-worth.busiest_bytes // bytes_per_unit) <= worth.home.cost


@settings(max_examples=60)
@given(problems(frozenset({Barrier.STEP}), max_ranks=4, max_packs=10))
def test_renaming_ranks_is_exact(problem: Problem) -> None:
    """The plan moves no more than the best of all renamings of the ranks of the inner plan."""
    if problem.home is None or problem.n_bytes is None:
        return
    inner = LPT().plan(problem)
    names = [np.array(name) for name in permutations(range(problem.grid.n_ranks))]
    renamed = [Plan(problem, inner.cell - inner.rank + name[inner.rank]).moved_bytes or 0 for name in names]
    assert (LeastMovement(LPT()).plan(problem).moved_bytes or 0) <= min(renamed)


def test_greedy_renaming_keeps_at_least_half() -> None:
    rng = np.random.default_rng(0)
    n_ranks = 30
    pairs = np.unique(rng.integers(0, n_ranks * n_ranks, 120))
    rank, home = np.divmod(pairs, n_ranks)
    kept = rng.integers(1, 100, len(pairs))
    table = np.zeros((n_ranks, n_ranks), dtype=np.int64)
    table[rank, home] = kept
    totals = []
    for rename in (_assigned, _matched):
        name = rename(rank, home, kept, n_ranks)
        assert sorted(name.tolist()) == list(range(n_ranks))
        totals.append(int(table[np.arange(n_ranks), name].sum()))
    assert totals[0] / 2 <= totals[1] <= totals[0]


def test_a_tolerance_saves_most_of_the_traffic() -> None:
    loads = FAMILIES["uniform"](np.random.default_rng(0), 512)
    problem = Problem(loads, Grid(64, 8, counts=Counts.EQUAL), np.arange(512), loads)
    everything = Auto().plan(problem)
    plans = [LeastMovement(tolerance_ppm=ppm).plan(problem) for ppm in (0, 1_000, 10_000)]
    moved = [plan.moved_bytes or 0 for plan in plans]
    assert (everything.moved_bytes or 0) > moved[0] > moved[1] > moved[2]
    assert moved[2] < 0.5 * (everything.moved_bytes or 0)
    assert plans[0].cost == everything.cost


def test_a_byte_limit_is_kept_at_the_price_of_cost() -> None:
    loads = FAMILIES["uniform"](np.random.default_rng(0), 64)
    problem = Problem(loads, Grid(8, counts=Counts.EQUAL), np.arange(64) % 8, np.full(64, 10))
    free = LeastMovement().plan(problem)
    assert (free.moved_bytes or 0) > 100
    costs = [free.cost]
    for limit in (200, 100, 40, 0):
        plan = LeastMovement(max_moved_bytes=limit).plan(problem)
        assert (plan.moved_bytes or 0) <= limit
        costs.append(plan.cost)
    assert costs == sorted(costs)
    assert plan.cell.tolist() == StayHome().plan(problem).cell.tolist()


def test_the_front_leads_from_least_cost_to_home() -> None:
    loads = FAMILIES["uniform"](np.random.default_rng(1), 64)
    problem = Problem(loads, Grid(8, counts=Counts.EQUAL), np.arange(64) % 8)
    front = movement_front(Auto(), problem)
    assert front[0].cost == Auto().plan(problem).cost
    assert front[-1].moved_packs == 0
    costs, moved = [plan.cost for plan in front], [plan.moved_bytes or 0 for plan in front]
    assert costs == sorted(set(costs))
    assert moved == sorted(set(moved), reverse=True)
    assert len(front) >= 4
    large = Problem(loads * 2**30, problem.grid, problem.home)  # the product of cost and tolerance leaves int64
    tolerances = np.array([0, 1_000, 300_000], dtype=np.int32)
    same = movement_front(Auto(), large, tolerances.tolist())
    assert [plan.key for plan in movement_front(Auto(), large, tolerances)] == [plan.key for plan in same]  # type: ignore[arg-type]


def test_without_home_there_is_no_front() -> None:
    with pytest.raises(CannotServe, match="there is no front: the packs have no home"):
        movement_front(LPT(), Problem([1, 2], 2))
    with pytest.raises(InvalidParameter, match=r"tolerances_ppm must be in .* got -5"):
        movement_front(LPT(), Problem([1, 2], 2, home=[0, 0]), [0, -5])


def test_moving_is_worth_it_only_if_it_pays() -> None:
    """Ranks of 14 s and 10 s; the pack that could move takes 2 s, and 3 GB or 0.1 GB at 1 GB/s."""
    for n_bytes, moves in ((3_000_000_000, 0), (100_000_000, 1)):
        problem = Problem([12_000, 2_000, 10_000], 2, home=[0, 0, 1], n_bytes=[10**12, n_bytes, 10**12])
        assert WorthMoving(bytes_per_unit=1_000_000).plan(problem).moved_packs == moves


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"LeastMovement\.tolerance_ppm must be in"):
        LeastMovement(tolerance_ppm=-1)
    with pytest.raises(InvalidParameter, match=r"LeastMovement\.max_moved_bytes must be an integer"):
        LeastMovement(max_moved_bytes=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"WorthMoving\.bytes_per_unit must be in"):
        WorthMoving(bytes_per_unit=0)
    assert repr(LeastMovement(RoundRobin(), 5)) == "LeastMovement(RoundRobin(), tolerance_ppm=5)"
    assert repr(WorthMoving()) == "WorthMoving(Auto())"


def test_any_tolerance_will_do() -> None:
    loads = [2**55, 2**55 - 1, 5, 7, 9]
    problem = Problem(loads, Grid(2, counts=(1, 4)), home=[0, 0, 0, 0, 1])
    assert LeastMovement(Auto(), 2**61).plan(problem).moved_packs == 0
    assert LeastMovement(Auto(), 10**9).plan(problem).moved_packs == 0


def test_home_is_kept_on_slow_ranks_too() -> None:
    """Each rank takes four times as long as its load: the cost is above the sum of the loads."""
    problem = Problem([5, 5], Grid(2, slowdown=(4000, 4000)), home=[1, 0])
    assert LeastMovement(HillClimb()).plan(problem).moved_packs == 0


def test_nodes_may_be_larger_than_the_grid() -> None:
    for per_node in (2, 2**31 - 1):
        problem = Problem([3, 4, 5], Grid(2, ranks_per_node=per_node), home=[0, 1, 1], n_bytes=[1, 1, 1])
        plan = LeastMovement(LPT()).plan(problem)
        assert (plan.moved_bytes, plan.bytes_between_nodes) == (1, 0)


def test_worth_moving_is_no_worse_than_the_plan_inside() -> None:
    problem = Problem([7, 7, 4], Grid(2, 2, Barrier.MICRO_STEP), home=[1, 1, 2], n_bytes=[3, 6, 5])
    inner, worth = LPT().plan(problem), WorthMoving(LPT(), 1).plan(problem)
    assert worth.cost + (worth.busiest_bytes or 0) <= inner.cost + (inner.busiest_bytes or 0)
