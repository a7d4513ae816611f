"""Caps, groups, bound packs, slow ranks, stages and windows: hand-checked, brute-forced, and refused with a witness."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from balancers import (
    ILP,
    LPT,
    Auto,
    Balancer,
    Barrier,
    Cap,
    Counts,
    Grid,
    HillClimb,
    Infeasible,
    InvalidPlan,
    InvalidProblem,
    KarmarkarKarp,
    ListScheduling,
    NoPlanFound,
    Pinned,
    Plan,
    Portfolio,
    Problem,
    Refine,
    Relax,
    RoundRobin,
    Together,
)
from balancers.feasibility import no_plan
from balancers.references import allowed, brute_force_cost, naive_cost
from balancers.testing import problems
from packing import CannotServe

ALL = frozenset(Barrier)
GENERAL: list[Balancer] = [ListScheduling(), HillClimb(), Relax(), Auto()]


@settings(max_examples=150)
@given(problems(ALL, max_ranks=3, max_packs=6, constraints=True, slowdown=True), st.integers(1, 2))
def test_plans_are_allowed_bounds_hold_and_the_solver_proves_optima(problem: Problem, n_steps: int) -> None:
    problem = _as_window(problem, n_steps)
    assume(problem.grid.n_cells**problem.n_packs <= 3000)
    best = brute_force_cost(problem)
    for balancer in (*GENERAL, ILP(ListScheduling())):
        if balancer.refusal(problem) is None:
            plan = _plan_or_none(balancer, problem)
            if plan is not None:
                assert allowed(problem, plan.cell.tolist())
                assert plan.cost == naive_cost(problem, plan.cell.tolist())
                assert plan.lower_bound <= best <= plan.cost
                assert plan.cost == best or not isinstance(balancer, ILP)


def _as_window(problem: Problem, n_steps: int) -> Problem:
    """Return the same packs in a window of steps, if the counts allow it: a cell more is a cell that may be empty."""
    counts = problem.grid.counts if problem.grid.counts in (Counts.FREE, Counts.PADDED) else (0, problem.most_per_cell)
    return replace(problem, home=None, n_bytes=None, grid=replace(problem.grid, n_steps=n_steps, counts=counts))


def _plan_or_none(balancer: Balancer, problem: Problem) -> Plan | None:
    try:
        return balancer.plan(problem)
    except NoPlanFound:
        return None


@settings(max_examples=100)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 3), st.integers(1, 15), st.data())
def test_infeasible_is_only_said_where_no_assignment_is_allowed(
    amounts: list[int], n_ranks: int, limit: int, data: st.DataObject
) -> None:
    n = len(amounts)
    group = data.draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    pin = data.draw(st.lists(st.integers(-1, n_ranks - 1), min_size=n, max_size=n))
    constraints = (Cap("tokens", amounts, limit), Together(group), Pinned(pin))
    free = Problem(amounts, n_ranks)
    object.__setattr__(free, "constraints", constraints)  # unchecked, so that the reference can look at it
    try:
        best: int | None = brute_force_cost(free)
    except ValueError:
        best = None
    try:
        problem = Problem(amounts, n_ranks, constraints=constraints)
        plan = ILP().plan(problem)
    except Infeasible:
        assert best is None
    else:
        assert plan.cost == plan.lower_bound == best


def test_groups_are_never_split() -> None:
    """Totals 30, 20, 10, 6 on two ranks: 30 + 6 against 20 + 10 is the best without splitting."""
    loads, group = [10, 20, 5, 15, 4, 6, 6], [0, 0, 1, 1, 2, 2, 3]
    problem = Problem(loads, 2, constraints=[Together(group)])
    for balancer in (HillClimb(), Auto(), ILP()):
        assert balancer.plan(problem).cost == 36
    assert ListScheduling().plan(problem).lower_bound == 34  # half of 66, and groups are even
    assert Auto().plan(problem).lower_bound == ILP().plan(problem).lower_bound == 36
    shuffled = np.array([3, 0, 6, 2, 5, 1, 4])
    other = Auto().plan(Problem(np.array(loads)[shuffled], 2, constraints=[Together(np.array(group)[shuffled])]))
    assert other.cost == 36
    flat = np.array(group)[shuffled][other.order]  # rank 0's slice, then rank 1's: no group on both
    first = len(other.packs(0))
    assert not set(flat[:first]) & set(flat[first:])


@pytest.mark.parametrize("balancer", [ListScheduling(), HillClimb(), Auto(), ILP()], ids=repr)
def test_token_and_image_caps_bind_together(balancer: Balancer) -> None:
    """Four packs of (10 tokens, 3 images) and six of (30, 1) in five cells of (100, 4): one of each, or two texts."""
    tokens, images = [10] * 4 + [30] * 6, [3] * 4 + [1] * 6
    problem = Problem(tokens, 5, constraints=[Cap("tokens", tokens, 100), Cap("images", images, 4)])
    plan = balancer.plan(problem)
    held = np.bincount(plan.cell, images, minlength=5)
    assert held.max() <= 4
    with pytest.raises(Infeasible, match=re.escape('Cap("images", limit 4) lets 4 cells hold 16; the packs have 18.')):
        Problem(tokens, 4, constraints=[Cap("images", images, 4)])


def test_a_cap_is_hard_whatever_the_cost() -> None:
    """90 and nineteen tens under a cap of 100 tokens, cost length squared: two cells of 90 and 190 are cheapest, and
    not allowed. 280 tokens fit three cells, where 90 goes alone: two cannot hold them."""
    tokens = np.array([90] + [10] * 19)
    capped = [Cap("tokens", tokens, 100)]
    with pytest.raises(Infeasible, match="It takes 3 cells at least"):
        Problem(tokens**2, 2, constraints=capped)
    plan = Auto().plan(Problem(tokens**2, 3, constraints=capped))
    assert np.bincount(plan.cell, tokens).max() <= 100
    assert plan.cost == plan.lower_bound == 8100


def test_caps_that_cannot_bind_change_nothing() -> None:
    loads = np.random.default_rng(0).integers(1, 10**6, 64)
    idle = [Cap("images", np.zeros(64, dtype=np.int64), 0), Cap("tokens", np.ones(64, dtype=np.int64), 8)]
    for grid in (Grid(8, counts=Counts.EQUAL), Grid(4, 2, Barrier.MICRO_STEP, Counts.EQUAL)):
        capped, plain = (Auto().plan(Problem(loads, grid, constraints=each)) for each in (idle, ()))
        assert capped.cell.tolist() == plain.cell.tolist()


def test_bound_packs_and_their_groups_stay_on_their_rank() -> None:
    problem = Problem([5, 4, 3, 2, 1], 3, constraints=[Pinned([2, -1, -1, -1, 2]), Together([-1, -1, 7, 7, -1])])
    plan = Auto().plan(problem)
    assert plan.rank[[0, 4]].tolist() == [2, 2]
    assert plan.rank[2] == plan.rank[3]
    assert plan.cost == plan.lower_bound == 6
    pulled = Problem([5, 4, 3, 2, 1], 3, constraints=[Pinned([2, -1, -1, -1, -1]), Together([7, -1, 7, 7, -1])])
    assert Auto().plan(pulled).rank[[0, 2, 3]].tolist() == [2, 2, 2]


INFEASIBLE = [
    ([Pinned([0, 1, -1]), Together([4, 4, -1])], Grid(2), "0 and 1 are of one group, but bound to ranks 0 and 1."),
    ([Cap("tokens", [5, 6, 7], 6)], Grid(3), 'Cap("tokens", limit 6) is below pack 2, which has 7.'),
    ([Cap("tokens", [4, 4, 4], 7)], Grid(2), "3 packs have more than half of it, so no two of them share a cell"),
    ([Cap("tokens", [3, 3, 3], 7), Together([0, 0, 0])], Grid(2), "group 0 has 9. Use more micro-steps"),
    ([Cap("tokens", [3, 3, 3], 8), Pinned([1, 1, 1])], Grid(2), "Pinned: rank 1 has 9."),
    ([Pinned([0, 0, 0])], Grid(2, counts=(1, 2)), "Pinned binds 3 packs to rank 0, but the cells of a rank hold at"),
    ([Together([0, 0, 0])], Grid(2, counts=(0, 2)), "Together holds 3 packs in group 0, but the cells of a rank hold"),
    ([Pinned([0, 0, -1])], Grid(3, counts=(1, 3)), "Pinned leaves 1 packs free, but the ranks need 2 more"),
    ([Cap("tokens", [5, 1, 1], 5)], Grid(1, counts=(2, 3)), "pack 0 has 5, and the 1 smallest beside it in a cell of"),
]


@pytest.mark.parametrize(("constraints", "grid", "text"), INFEASIBLE, ids=lambda value: str(value)[:40])
def test_what_no_plan_can_respect_is_refused_with_a_witness(
    constraints: list[Cap | Pinned | Together], grid: Grid, text: str
) -> None:
    with pytest.raises(Infeasible, match=re.escape(text)):
        Problem([1, 1, 1], grid, constraints=constraints)


def test_a_cap_that_counting_does_not_refute() -> None:
    """40 in four cells of ten: a seven needs a three, and of five fours only two fit in each of the other two cells."""
    amounts = [7, 7, 3, 3, 4, 4, 4, 4, 4]
    problem = Problem(amounts, 4, constraints=[Cap("tokens", amounts, 10)])
    for balancer in (Auto(), ILP()):
        with pytest.raises(Infeasible, match="some cell must hold 11 at least, by dual feasible functions"):
            balancer.plan(problem)


def test_no_plan_found_says_what_to_try() -> None:
    problem = Problem([1, 1], 2, constraints=[Cap("tokens", [1, 1], 1), Together([0, -1])])
    assert str(no_plan(problem, ListScheduling())) == (
        'ListScheduling() found no plan that respects Cap("tokens", limit 1), Together; there may be one. Try ILP, '
        "more micro-steps, or a higher limit."
    )


def test_who_finds_no_plan_is_passed_by() -> None:
    class Never(ListScheduling):
        def assign(self, problem: Problem) -> object:  # type: ignore[override]
            raise NoPlanFound("none")

    problem = Problem([1, 1], 2, constraints=[Cap("tokens", [1, 1], 1)])
    with pytest.raises(NoPlanFound):
        Portfolio((Never(),)).plan(problem)
    assert Portfolio((Never(), LPT(), ListScheduling())).plan(problem).cost == 1
    assert ILP(Never()).plan(problem).cost == 1
    with pytest.raises(NoPlanFound):
        ILP(Never(), limit=0).plan(problem)


@pytest.mark.parametrize("balancer", [LPT(), KarmarkarKarp(), Refine(), RoundRobin()], ids=repr)
def test_who_does_not_know_constraints_says_so_before_any_work(balancer: Balancer) -> None:
    problem = Problem([1, 2], 2, constraints=[Cap("tokens", [1, 1], 1)])
    with pytest.raises(CannotServe, match=r'it does not know Cap\("tokens", limit 1\). Use Auto'):
        balancer.plan(problem)


def test_plans_that_break_a_constraint_are_refused() -> None:
    problem = Problem([1, 1, 1], 2, constraints=[Cap("images", [2, 2, 1], 3)])
    with pytest.raises(InvalidPlan, match=re.escape('breaks Cap("images", limit 3): rank 0, micro-step 0 has 4.')):
        Plan(problem, [0, 0, 1])
    with pytest.raises(InvalidPlan, match="packs 0 and 2 are of one group, on ranks 0 and 1"):
        Plan(Problem([1, 1, 1], 2, constraints=[Together([0, -1, 0])]), [0, 0, 1])
    with pytest.raises(InvalidPlan, match="pack 1 is bound to rank 1, and put on rank 0"):
        Plan(Problem([1, 1, 1], 2, constraints=[Pinned([-1, 1, -1])]), [0, 0, 1])
    home = Plan(Problem([1, 1, 1], 2, home=[0, 0, 1], constraints=[Cap("images", [2, 2, 1], 3)]), [0, 1, 1])
    assert home.home is None  # it breaks the cap, so it is no plan to stay with


def test_constraints_are_checked() -> None:
    for constraints, text in (
        ([Cap("tokens", [1], 5)], 'Cap("tokens") must have one value per pack; 1 for 2 packs.'),
        ([Pinned([0, 2])], "packs can be bound to ranks 0 to 1; rank[1] = 2."),
        ([Together([0, 0]), Together([1, 1])], "there are two constraints Together; give one"),
        (["tokens"], "constraints are Cap, Together and Pinned; got 'tokens'."),
    ):
        with pytest.raises(InvalidProblem, match=re.escape(text)):
            Problem([1, 2], 2, constraints=constraints)  # type: ignore[arg-type]
    with pytest.raises(InvalidProblem, match="group must be >= -1"):
        Together([-2, 0])


def test_constraints_may_come_from_a_generator_and_labels_may_be_hashes() -> None:
    problem = Problem([1, 2, 3, 4], 2, constraints=(each for each in [Pinned([0, 0, 0, 0])]))  # type: ignore[arg-type]
    assert Auto().plan(problem).rank.tolist() == [0, 0, 0, 0]
    labels = [2**62 - 1, 5, 2**62 - 1, 5]
    assert Auto().plan(Problem([4, 1, 1, 4], 2, constraints=[Together(labels)])).cost == 5
    for wrong in (None, Pinned([0])):
        with pytest.raises(InvalidProblem, match="constraints must be a list of Cap, Together and Pinned; got"):
            Problem([1], 1, constraints=wrong)  # type: ignore[arg-type]


def test_constraints_change_the_digest_and_survive_copies() -> None:
    import pickle

    loads = [3, 2, 1]
    plans = [
        Plan(Problem(loads, 3, constraints=constraints), [0, 1, 2])
        for constraints in ((), [Cap("a", loads, 3)], [Cap("b", loads, 3)], [Cap("a", loads, 4)], [Pinned([0, 1, -1])])
    ]
    assert len({plan.digest() for plan in plans}) == len(plans)
    assert pickle.loads(pickle.dumps(plans[1])).digest() == plans[1].digest()
    assert Grid(2, slowdown=(1000, 1000)) == Grid(2)
