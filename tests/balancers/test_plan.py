"""What a plan says of itself, checked by hand."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancers import (
    LPT,
    Barrier,
    Counts,
    Grid,
    InvalidPlan,
    InvalidProblem,
    Plan,
    Problem,
    RoundRobin,
    Status,
    StayHome,
)
from balancers.references import naive_cost
from balancers.testing import problems

#                     micro-step 0   micro-step 1
#           rank          0  1           0  1
LOADS = [[5, 1], [2, 2], [3, 0], [1, 4]]


def grid(barrier: Barrier) -> Grid:
    return Grid(2, 2, barrier, stages=("vision", "language"))


@pytest.mark.parametrize(
    ("barrier", "busy", "cost"),
    [
        (Barrier.STEP, [[9, 9]], 9),
        (Barrier.MICRO_STEP, [[6, 4], [3, 5]], 6 + 5),
        (Barrier.STAGE, [[5, 2], [1, 2], [3, 1], [0, 4]], 5 + 2 + 3 + 4),
    ],
)
def test_cost_at_each_barrier(barrier: Barrier, busy: list[list[int]], cost: int) -> None:
    plan = Plan(Problem(LOADS, grid(barrier)), [0, 1, 2, 3])
    assert plan.busy.tolist() == busy
    assert plan.cost == cost
    assert plan.waste == 1 - 18 / (2 * cost)
    assert plan.imbalance == 2 * cost / 18
    assert plan.rank_load.tolist() == [9, 9]
    assert plan.rank_cost == 9


@given(problems(frozenset(Barrier)), st.randoms(use_true_random=False))
def test_any_assignment_is_judged_as_plain_python_does(problem: Problem, random: object) -> None:
    cells = list(range(problem.grid.n_cells)) * problem.n_packs
    random.shuffle(cells)  # type: ignore[attr-defined]
    try:
        plan = Plan(problem, cells[: problem.n_packs])
    except InvalidPlan:
        counts = [cells[: problem.n_packs].count(c) for c in range(problem.grid.n_cells)]
        assert not all(problem.fewest_per_cell <= n <= problem.most_per_cell for n in counts)
        return
    assert plan.cost == naive_cost(problem, cells[: problem.n_packs])
    assert 0 <= plan.waste < 1
    assert plan.cost >= plan.lower_bound


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ([[0], [1, 2]], "mine must give each pack one cell; setting an array element with a sequence"),
        ([0, 1], r"mine must give each pack one cell: shape \(3,\); got \(2,\)"),
        ([0.0, 1.0, 0.0], "mine must give cells as integers; got dtype float64"),
        ([0, 1, 2], r"mine must use cells 0 to 1; cell\[2\] = 2"),
        ([0, -1, 1], r"mine must use cells 0 to 1; cell\[1\] = -1"),
        ([0, 0, 0], "mine must put 1 to 2 packs into each cell; rank 0, micro-step 0 has 3"),
    ],
)
def test_a_wrong_assignment_is_refused(cell: list[float], text: str) -> None:
    with pytest.raises(InvalidPlan, match=text):
        Plan(Problem([1, 2, 3], Grid(2, counts=Counts.WITHIN_ONE)), cell, "mine")


def test_a_bound_above_the_cost_is_refused() -> None:
    with pytest.raises(InvalidPlan, match="mine claims the bound 7, above the cost 6"):
        Plan(Problem([1, 2, 3], 2), [0, 0, 0], "mine", lower_bound=7)
    for odd in (None, 5.5, "5"):
        with pytest.raises(InvalidPlan, match="the bound of mine must be an integer; got"):
            Plan(Problem([1, 2, 3], 2), [0, 0, 0], "mine", lower_bound=odd)  # type: ignore[arg-type]


def test_an_optimum_that_is_not_proven_is_refused() -> None:
    with pytest.raises(InvalidPlan, match="cost 6 and bound 3 do not prove it"):
        Plan(Problem([1, 2, 3], 2), [0, 0, 0], "mine", Status.OPTIMAL)
    with pytest.raises(InvalidPlan, match="mine says 'optimal'"):
        Plan(Problem([1, 2, 3], 2), [0, 0, 0], "mine", "optimal")  # type: ignore[arg-type]


def test_a_plan_is_read_only_and_travels() -> None:
    plan = LPT().plan(Problem([3, 1, 2], Grid(2), home=[0, 0, 1], n_bytes=[1, 1, 1]))
    for each in (plan, pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert (each.digest(), each.status, each.balancer) == (plan.digest(), plan.status, "LPT()")
        assert each.moved is not None
        for array in (each.cell, each.busy, each.order, each.rank_load, each.moved):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_status_is_optimal_where_the_bound_is_met() -> None:
    assert Plan(Problem([1, 2, 3], 2), [0, 0, 1]).status is Status.OPTIMAL
    assert Plan(Problem([1, 2, 3], 2), [0, 0, 0], status=Status.FEASIBLE).status is Status.FEASIBLE
    assert Plan(Problem([1, 2, 3], 2), [0, 0, 0], lower_bound=6).status is Status.OPTIMAL


def test_reordering_is_undone_by_the_inverse() -> None:
    lengths = [3, 9, 1, 7, 2, 8, 4]
    outputs = np.array([10 * i for i in range(7)])
    names = np.array(list("abcdefg"))
    for loads in (lengths, [1] * 7):
        plan = LPT().plan(Problem(loads, 3))
        assert outputs[plan.order][plan.inverse].tolist() == [0, 10, 20, 30, 40, 50, 60]
        assert names[plan.order][plan.inverse].tolist() == list("abcdefg")
        assert plan.order[plan.inverse].tolist() == plan.inverse[plan.order].tolist() == list(range(7))
        assert [pack for part in plan.partitions for pack in part] == plan.order.tolist()


def test_packs_of_a_rank_and_micro_step() -> None:
    plan = Plan(Problem([1] * 6, Grid(2, 2)), [3, 0, 1, 0, 2, 3])
    assert plan.order.tolist() == [1, 3, 4, 2, 0, 5]
    assert plan.partitions == [[1, 3, 4], [2, 0, 5]]
    assert plan.packs(0, 0).tolist() == [1, 3]
    assert plan.packs(1, 1).tolist() == [0, 5]
    assert plan.packs(1).tolist() == [2, 0, 5]
    with pytest.raises(IndexError, match="rank 2, micro-step 0 is outside"):
        plan.packs(2, 0)


def test_moving_is_counted_between_ranks_only() -> None:
    problem = Problem([1, 1, 1, 1], Grid(2, 2), home=[0, 1, 2, 3], n_bytes=[10, 20, 30, 40])
    plan = Plan(problem, [2, 1, 1, 0])  # pack 0 changes its micro-step, 2 and 3 their rank
    assert plan.moved is not None
    assert plan.moved.tolist() == [2, 3]
    assert (plan.moved_packs, plan.moved_bytes, plan.busiest_bytes) == (2, 70, 40)
    assert plan.key == (2, 2, 70)
    homeless = Plan(Problem([1, 1], 2), [0, 1])
    assert (homeless.moved_packs, homeless.moved_bytes, homeless.home) == (None, None, None)
    unsized = Plan(Problem([1, 1], 2, home=[1, 0]), [0, 1])
    assert (unsized.moved_packs, unsized.moved_bytes) == (2, None)


def test_or_home_weighs_the_gain_against_the_bytes() -> None:
    """Ranks of 14 s and 10 s; the one pack that could move takes 2 s, and 3 GB or 0.1 GB at 1 GB/s."""
    for n_bytes, moves in ((3_000_000_000, False), (100_000_000, True)):
        problem = Problem([12_000, 2_000, 10_000], 2, home=[0, 0, 1], n_bytes=[n_bytes] * 3)
        plan = Plan(problem, [0, 1, 1])
        chosen = plan.or_home(bytes_per_unit=1_000_000)  # per millisecond
        assert chosen.stayed is not moves
        assert chosen.cell.tolist() == ([0, 1, 1] if moves else [0, 0, 1])
        assert plan.or_home().cost == 12_000  # moving for free is worth it


def test_or_home_does_not_move_for_nothing() -> None:
    equal = Problem([5, 5], 2, home=[0, 1], n_bytes=[1, 1])
    stayed = Plan(equal, [1, 0]).or_home()
    assert (stayed.stayed, stayed.moved_bytes) == (True, 0)
    assert LPT().plan(Problem([0, 3, 3, 2, 2, 2], 2, home=[0, 0, 0, 1, 1, 1])).or_home().moved_packs == 0
    assert Plan(Problem([1], 2), [1]).or_home().stayed is False  # nothing has a home
    with pytest.raises(InvalidProblem, match="needs the packs' sizes"):
        Plan(Problem([1], 2, home=[0]), [1]).or_home(bytes_per_unit=1)
    with pytest.raises(InvalidProblem, match=r"bytes_per_unit must be in \[1, \d+\]; got 0"):
        Plan(equal, [1, 0]).or_home(bytes_per_unit=0)


def test_a_home_that_breaks_the_counts_is_no_plan_to_fall_back_to() -> None:
    plan = RoundRobin().plan(Problem([1, 1], Grid(2, counts=Counts.EQUAL), home=[0, 0]))
    assert plan.home is None
    assert plan.or_home() is plan


def test_staying_home_changes_nothing() -> None:
    plan = StayHome().plan(Problem([5, 1, 4], 3, home=[0, 1, 2], n_bytes=[1, 1, 1]))
    assert plan.order.tolist() == [0, 1, 2]
    assert (plan.moved_packs, plan.moved_bytes) == (0, 0)


def test_empty_places_of_padded_counts() -> None:
    problem = Problem([3, 2, 1, 1, 1], Grid(2, 2, counts=Counts.PADDED))
    assert LPT().plan(problem).n_dummies == 3
    assert LPT().plan(Problem([3, 2], Grid(8, counts=Counts.PADDED))).n_dummies == 6
    assert LPT().plan(Problem([3, 2], Grid(8))).n_dummies == 0


def test_the_digest_is_fixed_for_ever_and_sees_every_part() -> None:
    problem = Problem([3, 1, 2], Grid(2, counts=Counts.WITHIN_ONE), home=[0, 1, 1], n_bytes=[7, 8, 9])
    plan = Plan(problem, [0, 1, 1])
    assert plan.digest() == "8c77109f516b8301510c3a977972fc57"
    others = [
        Plan(problem, [1, 0, 0]),
        Plan(Problem([3, 1, 1], problem.grid, problem.home, problem.n_bytes), [0, 1, 1]),
        Plan(Problem([3, 1, 2], Grid(2), problem.home, problem.n_bytes), [0, 1, 1]),
        Plan(Problem([3, 1, 2], Grid(2, counts=(1, 2)), problem.home, problem.n_bytes), [0, 1, 1]),
        Plan(Problem([3, 1, 2], problem.grid, [1, 1, 1], problem.n_bytes), [0, 1, 1]),
        Plan(Problem([3, 1, 2], problem.grid, problem.home), [0, 1, 1]),
        Plan(Problem([3, 1, 2], problem.grid), [0, 1, 1]),
    ]
    assert len({plan.digest(), *(other.digest() for other in others)}) == 8
    assert Plan(problem, np.array([0, 1, 1], dtype=">i8"), "another name").digest() == plan.digest()


def test_a_plan_says_what_matters() -> None:
    assert repr(Plan(Problem([1, 2, 3], 2, home=[0, 1, 1]), [0, 0, 0], "Mine()")) == (
        "Plan(Mine(): cost 6, gap 100.0000%, waste 50.00%, 2 packs moved, heuristic)"
    )
