"""Balancers made of balancers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from balancers import (
    BALANCERS,
    LPT,
    Auto,
    Balancer,
    Barrier,
    Counts,
    Grid,
    KarmarkarKarp,
    Multifit,
    Peel,
    Portfolio,
    Problem,
    Random,
    Refine,
    Rotate,
    RoundRobin,
    StayHome,
    Zigzag,
)
from balancers.peel import peel
from balancers.references import brute_force_cost
from balancers.testing import FAMILIES, problems
from packing import CannotServe, InvalidParameter

EQUAL = Counts.EQUAL


def test_texts_are_short_and_parse_back() -> None:
    for balancer, text in {
        Refine(): "Refine(LPT())",
        Refine(KarmarkarKarp()): "Refine(KarmarkarKarp())",
        Portfolio((LPT(), Refine(Zigzag()))): "Portfolio((LPT(), Refine(Zigzag())))",
        Rotate(Multifit(3)): "Rotate(Multifit(bisections=3))",
        Random(7): "Random(seed=7)",
        Auto(): "Auto()",
    }.items():
        assert repr(balancer) == text
        assert BALANCERS.parse(text) == balancer
    assert Portfolio([LPT(), Zigzag()]) == Portfolio((LPT(), Zigzag()))  # type: ignore[arg-type]


def test_a_portfolio_keeps_the_best_and_skips_who_refuses() -> None:
    problem = Problem([8, 7, 6, 5, 4], 2)
    assert Portfolio((RoundRobin(), LPT(), KarmarkarKarp(), StayHome())).plan(problem).cost == 16
    with pytest.raises(CannotServe, match=r"all of it refuse: StayHome\(\): the packs have no home"):
        Portfolio((StayHome(),)).plan(problem)
    with pytest.raises(InvalidParameter, match="at least one"):
        Portfolio(())
    with pytest.raises(InvalidParameter, match=r"Portfolio\.balancers must be"):
        Portfolio((LPT, Zigzag))  # type: ignore[arg-type]


def test_a_class_where_a_balancer_must_be_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidParameter, match=r"Refine\.inner must be .*LPT'>\. Write LPT\(\)\."):
        Refine(LPT)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["Refine(3)", "LeastMovement('LPT')", "ILP(None)", "Portfolio(3)", "Portfolio((3,))"])
def test_what_is_wrapped_must_be_a_balancer(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"must be a (tuple of balancers|balancer, such as .*); got .*\."):
        BALANCERS.parse(text)


def test_of_equal_plans_the_first_is_kept_and_evener_ranks_come_before() -> None:
    problem = Problem([2, 2, 1, 1], Grid(2, counts=EQUAL))
    assert Portfolio((Zigzag(), LPT())).plan(problem).cell.tolist() == Zigzag().plan(problem).cell.tolist()


def test_rotation_makes_another_rank_heaviest_and_keeps_the_rest() -> None:
    heaviest, costs = [], set()
    for step in range(4):
        plan = Rotate(LPT()).plan(Problem([5, 3, 1], Grid(3, 2), step=step))
        heaviest.append(int(np.argmax(plan.rank_load)))
        costs.add(plan.cost)
    assert heaviest == [0, 1, 2, 0]
    assert costs == {5}
    assert Rotate(StayHome()).refusal(Problem([1], 2)) is not None


def test_random_plans_depend_on_seed_and_step_alone() -> None:
    problem = Problem([1] * 20, Grid(4, counts=EQUAL))
    first = Random(3).plan(problem).cell.tolist()
    assert first == Random(3).plan(problem).cell.tolist()
    assert first != Random(4).plan(problem).cell.tolist()
    assert first != Random(3).plan(Problem([1] * 20, problem.grid, step=1)).cell.tolist()
    with pytest.raises(InvalidParameter, match=r"Random\.seed must be in"):
        Random(-1)


@settings(max_examples=100)
@given(problems())
def test_multifit_stays_within_its_guarantee(problem: Problem) -> None:
    if Multifit().refusal(problem) is not None or problem.grid.n_cells**problem.n_packs > 3000:
        return
    plan = Multifit().plan(problem)
    assert plan.cost <= LPT().plan(problem).cost
    assert 11 * plan.cost <= 13 * brute_force_cost(problem) + 11  # ten bisections leave less than one unit here


def test_multifit_by_hand() -> None:
    """Graham's example on three machines: LPT makes 11, first fit decreasing fits in 9."""
    assert Multifit().plan(Problem([5, 5, 4, 4, 3, 3, 3], 3)).cost == 9
    with pytest.raises(CannotServe, match=r"it does not count packs\. Use Counts\.FREE"):
        Multifit().plan(Problem([1, 1], Grid(2, counts=EQUAL)))
    assert sorted(map(len, Multifit().plan(Problem([0] * 5 + [7], 3)).partitions)) == [2, 2, 2]


def test_peeling_by_hand() -> None:
    """Two packs per cell: 9 meets 1, and 8 may then meet 2 for free; the rest is evened out."""
    loads = np.array([1, 2, 3, 3, 4, 4, 8, 9])
    cell, n_rows = peel(loads, 2, 2, 2)
    assert n_rows == 1
    assert cell.tolist() == [0, 1, -1, -1, -1, -1, 1, 0]
    problem = Problem(loads, Grid(2, 2, Barrier.MICRO_STEP, EQUAL))
    assert Peel(LPT()).plan(problem).cost == 10 + 7
    assert problem.lower_bound == 17
    with pytest.raises(CannotServe, match="it needs the same number of packs in every cell, or cells that"):
        Peel().plan(Problem([1, 2, 3], Grid(2, 1, Barrier.MICRO_STEP, Counts.WITHIN_ONE)))


@pytest.mark.parametrize("counts", [Counts.FREE, Counts.PADDED, (0, 4)])
def test_looser_counts_cost_no_more_than_equal_ones_in_micro_steps(counts: Counts | tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    loads = rng.lognormal(8, 0.8, 16 * 4 * 4).astype(np.int64)
    equal, loose = (Auto().plan(Problem(loads, Grid(16, 4, Barrier.MICRO_STEP, each))) for each in (EQUAL, counts))
    assert loose.cost <= equal.cost
    with_empty_places = Peel().plan(Problem(loads[3:], Grid(16, 4, Barrier.MICRO_STEP, counts)))
    assert with_empty_places.cost <= 1.01 * with_empty_places.lower_bound


def test_what_is_inside_draws_anew_in_each_step() -> None:
    loads, grid = np.arange(1, 65), Grid(4, 4, Barrier.MICRO_STEP, Counts.EQUAL)
    first, other = (Peel(Random()).plan(Problem(loads, grid, step=step)).cell for step in (0, 1))
    assert (first != other).any()


@settings(max_examples=30)
@given(problems(frozenset({Barrier.MICRO_STEP}), max_ranks=2, max_packs=8))
def test_micro_steps_of_several_packs_against_brute_force(problem: Problem) -> None:
    if problem.grid.counts is EQUAL and problem.grid.n_cells**problem.n_packs <= 70_000:
        best = brute_force_cost(problem)
        assert problem.lower_bound <= best <= Auto().plan(problem).cost


@pytest.mark.parametrize("family", FAMILIES)
def test_micro_steps_of_four_packs_are_close_to_the_bound(family: str) -> None:
    loads = FAMILIES[family](np.random.default_rng(1), 128 * 8 * 4)
    problem = Problem(loads, Grid(128, 8, Barrier.MICRO_STEP, EQUAL))
    plan = Auto().plan(problem)
    assert plan.gap < (0.02 if family == "zero_inflated" else 0.005)
    assert plan.cost <= LPT().plan(problem).cost


@pytest.mark.parametrize("counts", list(Counts))
@pytest.mark.parametrize("balancer", [LPT(), KarmarkarKarp(), Multifit(), Refine()], ids=repr)
@pytest.mark.parametrize("barrier", [Barrier.STEP, Barrier.MICRO_STEP])
def test_auto_is_never_worse(balancer: Balancer, counts: Counts, barrier: Barrier) -> None:
    for family in FAMILIES.values():
        problem = Problem(family(np.random.default_rng(0), 96), Grid(8, 3, barrier, counts))
        if balancer.refusal(problem) is None:
            assert Auto().plan(problem).cost <= balancer.plan(problem).cost


def test_one_micro_step_is_planned_like_a_step() -> None:
    loads = [7, 23, 16, 16, 12, 6, 7, 24, 14, 6, 5, 11]
    costs = {
        Auto().plan(Problem(loads, Grid(4, 1, barrier, EQUAL))).cost for barrier in (Barrier.STEP, Barrier.MICRO_STEP)
    }
    assert len(costs) == 1


def test_peeling_scales_up_to_the_limit() -> None:
    rng = np.random.default_rng(0)
    loads = rng.lognormal(3, 1, 36).astype(np.int64) + 1
    scale = (2**62 - 1) // int(loads.sum())
    grid = Grid(4, 3, Barrier.MICRO_STEP, EQUAL)
    small, large = (Peel(LPT()).plan(Problem(loads * factor, grid)) for factor in (1, scale))
    assert large.cost == small.cost * scale
