"""Slow ranks, stages that are waited for one by one, windows of several steps, and nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from balancers import (
    ILP,
    LPT,
    Auto,
    Barrier,
    Counts,
    Grid,
    HillClimb,
    InvalidGrid,
    InvalidProblem,
    LeastMovement,
    ListScheduling,
    Plan,
    Problem,
    Relax,
    Rotate,
    RoundRobin,
)
from balancers.bounds import uniform_machines
from balancers.references import brute_force_cost, naive_cost
from balancers.testing import grids
from packing import CannotServe

ALL = frozenset(Barrier)


# slow ranks


def test_a_slow_rank_gets_less() -> None:
    """A rank half as fast: of twelve ones it takes four, and both end after eight."""
    problem = Problem([1] * 12, Grid(2, slowdown=(1000, 2000)))
    for balancer in (ListScheduling(), Auto(), ILP()):
        plan = balancer.plan(problem)
        assert (plan.cost, plan.lower_bound, plan.waste) == (8, 8, 0.0)
        assert plan.busy.tolist() == [[8, 8]]
    assert RoundRobin().plan(problem).cost == 12
    assert Plan(Problem([5], Grid(1, slowdown=(1001,))), [0]).cost == 6  # rounded up


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.lists(st.integers(1, 3000), min_size=1, max_size=3))
def test_uniform_bound_holds(loads: list[int], slowdown: list[int]) -> None:
    problem = Problem(loads, Grid(len(slowdown), slowdown=tuple(slowdown)))
    bound = uniform_machines(np.sort(loads)[::-1], np.sort(slowdown))
    assert bound <= problem.lower_bound <= brute_force_cost(problem)
    assert ListScheduling().plan(problem).cost <= 2 * brute_force_cost(problem) + 1  # rounded up by less than one


def test_bounds_of_many_slow_ranks_stay_in_64_bits() -> None:
    problem = Problem([1125899638407] * 4096, Grid(4096, slowdown=(999,) * 4096))
    assert problem.lower_bound == -(-1125899638407 * 999 // 1000)
    assert Auto().plan(Problem([2**57] * 16, Grid(16, slowdown=(1,) * 16))).cost == -(-(2**57) // 1000)


def test_floats_leave_room_for_slow_ranks() -> None:
    loads = [0.1234567890123456, 0.9876543210987654]
    problem = Problem.from_floats(loads, Grid(2, slowdown=(1000, 20_000)))
    assert Auto().plan(problem).cost * float(problem.unit) == pytest.approx(1.111111110111111, rel=1e-12)


def test_slowdown_is_checked() -> None:
    with pytest.raises(InvalidGrid, match="slowdown must have one value per rank; got 1500"):
        Grid(2, slowdown=1500)  # type: ignore[arg-type]
    with pytest.raises(InvalidGrid, match=r"slowdown\[1\] must be an integer; got 1.5 .* thousandths: 1000 nominal"):
        Grid(2, slowdown=(1000, 1.5))  # type: ignore[arg-type]
    with pytest.raises(InvalidGrid, match="slowdown must have one value per rank; 1 for 2 ranks"):
        Grid(2, slowdown=(1000,))
    with pytest.raises(InvalidProblem, match="loads x slowdown must sum to less than 2"):
        Problem([2**60], Grid(1, slowdown=(5000,)))
    for balancer, text in ((LPT(), "ranks of different speed"), (Rotate(ListScheduling()), "ranks are not alike")):
        with pytest.raises(CannotServe, match=text):
            balancer.plan(Problem([1, 2], Grid(2, slowdown=(1000, 2000))))


# stages


def test_stages_are_planned_together() -> None:
    """Two ranks, two micro-steps, packs (9, 1) (9, 1) (1, 9) (1, 9): like with like costs 10 + 10, mixed 18 + 18."""
    problem = Problem([[9, 1], [1, 9], [9, 1], [1, 9]], Grid(2, 2, Barrier.STAGE, Counts.EQUAL, ("vision", "language")))
    for balancer in (ListScheduling(), HillClimb(), Relax(), Auto(), ILP()):
        plan = balancer.plan(problem)
        assert plan.cost == 20 or isinstance(balancer, ListScheduling | Relax)  # both know only sums or one stage
    assert Auto().plan(problem).lower_bound == 20
    assert RoundRobin().plan(problem).cost == 36


# windows of several steps


@settings(max_examples=60)
@given(grids(ALL, max_ranks=2), st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(2, 3))
def test_a_window_costs_what_its_definition_says(grid: Grid, loads: list[int], n_steps: int) -> None:
    grid = replace(grid, n_steps=n_steps, stages=("load",), counts=Counts.PADDED)
    problem = Problem(loads, grid)
    assume(grid.n_cells ** len(loads) <= 5000)
    best = brute_force_cost(problem)
    for balancer in (LPT(), Auto(), RoundRobin()):
        if balancer.refusal(problem) is None or grid.n_steps > 1:
            plan = balancer.plan(problem) if not (balancer == LPT() and grid.barrier is Barrier.STAGE) else None
            if plan is not None:
                assert plan.cost == naive_cost(problem, plan.cell.tolist())
                assert plan.lower_bound <= best <= plan.cost


def test_a_window_lets_packs_change_their_step() -> None:
    """Heavy packs 8, 8 and light packs 1, 1 come one of each a step: 8 + 8. Together in a step: 8 + 1."""
    loads, home = [8, 1, 1, 8], [0, 1, 2, 3]
    window = Grid(2, n_steps=2, counts=Counts.EQUAL)
    plan = Auto().plan(Problem(loads, window, home=home))
    assert plan.cost == plan.lower_bound == 9
    assert plan.moved_steps == 2
    assert plan.home is not None
    assert (plan.home.cost, plan.home.moved_steps) == (16, 0)
    assert Plan(Problem(loads, window), plan.cell).moved_steps is None
    micro = Auto().plan(Problem([8, 1, 1, 8, 8, 1, 1, 8], Grid(2, 2, n_steps=2, counts=Counts.EQUAL)))
    assert micro.cost == 18  # two heavy on each rank in one step, two light in the other
    assert sorted(micro.packs(0).tolist() + micro.packs(1).tolist()) == list(range(8))


# nodes


def test_moves_inside_a_node_come_first() -> None:
    """Ranks 0, 1 | 2, 3. Pack 1 must leave rank 0; rank 1 is as light as 2 and 3, and in the same node."""
    grid = Grid(4, ranks_per_node=2)
    problem = Problem([5, 5, 1, 5, 5], grid, home=[0, 0, 1, 2, 3], n_bytes=[10] * 5)
    plan = LeastMovement().plan(problem)
    assert plan.cost == 6
    assert (plan.moved_bytes, plan.bytes_between_nodes) == (10, 0)
    assert Plan(Problem([1], 2, home=[0], n_bytes=[3]), [1]).bytes_between_nodes is None


def test_renaming_prefers_the_node_of_home() -> None:
    """A plan that sends everything from node 0 to node 1 and back is renamed; one rank of each cannot stay."""
    grid = Grid(4, ranks_per_node=2)
    problem = Problem([4, 4, 4, 4], grid, home=[0, 0, 2, 2], n_bytes=[1, 1, 1, 1])
    plan = LeastMovement(LPT()).plan(problem)
    assert (plan.cost, plan.moved_bytes, plan.bytes_between_nodes) == (4, 2, 0)
