"""Exact planning: optima, proofs that are never wrong, limits that are kept, and the same plan again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancers import LPT, Auto, Balancer, Barrier, Counts, Grid, Linear, Multifit, Problem, RoundRobin, Status
from balancers.ilp import ILP
from balancers.references import brute_force_cost
from balancers.testing import problems
from experiments import draw
from packing import BestFitDecreasing, CannotServe, InvalidParameter
from packing.arrays import Int64

EQUAL = Counts.EQUAL
BOTH = frozenset({Barrier.STEP, Barrier.MICRO_STEP})


@settings(max_examples=150)
@given(problems(BOTH, max_ranks=3, max_packs=8))
def test_small_problems_are_planned_and_proven_optimal(problem: Problem) -> None:
    """From a poor start, so that the solver does the work; several packs per micro-step included."""
    if problem.grid.n_cells**problem.n_packs <= 2500 and ILP(RoundRobin()).refusal(problem) is None:
        plan = ILP(RoundRobin()).plan(problem)
        assert plan.cost == plan.lower_bound == brute_force_cost(problem)


@settings(max_examples=50)
@given(
    st.integers(31, 57).flatmap(lambda bits: st.lists(st.integers(0, 2**bits), min_size=4, max_size=6)),
    st.sampled_from([Counts.FREE, Counts.WITHIN_ONE, Counts.PADDED, (1, 4)]),
)
def test_proofs_hold_for_loads_beyond_32_bits(loads: list[int], counts: Counts | tuple[int, int]) -> None:
    problem = Problem(loads, Grid(2, counts=counts))
    plan = ILP(RoundRobin()).plan(problem)
    assert plan.cost == plan.lower_bound == brute_force_cost(problem)


def test_a_presolve_step_that_wraps_at_32_bits_is_off() -> None:
    """With it, OR-Tools 9.15 proves a plan optimal that is not."""
    loads = [1483891318, 3022121577, 66537067, 3101819392, 3561932180, 3721463241]
    plan = ILP(RoundRobin()).plan(Problem(loads, 2))
    assert (plan.cost, plan.lower_bound) == (7607832287, 7607832287)


@pytest.mark.parametrize("start", [RoundRobin(), LPT(), Auto()], ids=repr)
def test_known_optima(start: Balancer) -> None:
    assert ILP(start).plan(Problem([3 * 10**15, 2 * 10**15, 10**15 + 1], 2)).cost == 3_000_000_000_000_001
    assert ILP(start).plan(Problem([5, 5, 4, 4, 3, 3], 3)).cost == 8
    assert ILP(start).plan(Problem([5, 5, 4, 4, 3, 3, 3], 3)).cost == 9  # Graham's example
    assert ILP(start).plan(Problem([], 3)).cost == 0
    assert ILP(start).plan(Problem([0, 0], 3)).cost == 0


def test_costs_are_proven_where_the_bound_is_not_met() -> None:
    """7 + 3 or 7 + 2 + 2 against what is left: 9 at best, one above the mean. And three threes beside 6 + 1."""
    for loads, cost in (([7, 3, 2, 2, 2], 9), ([6, 3, 3, 3, 1], 9), ([7, 7, 4, 2, 2, 2], 13)):
        problem = Problem(loads, 2)
        plan = ILP(LPT()).plan(problem)
        assert (problem.lower_bound, plan.lower_bound, plan.cost) == (cost - 1, cost, cost)


def test_micro_steps_of_several_packs_by_hand() -> None:
    """9 + 1 and 8 + 2 wait together, then 4 + 3 and 4 + 3: 17. LPT evens out all cells and pays 10 + 8."""
    problem = Problem([1, 2, 3, 3, 4, 4, 8, 9], Grid(2, 2, Barrier.MICRO_STEP, EQUAL))
    plan = ILP(LPT()).plan(problem)
    assert (plan.cost, plan.status) == (17, Status.OPTIMAL)


def image_loads() -> Int64:
    packing = BestFitDecreasing().pack(draw(60_000, seed=5).samples, 8192)
    return Linear(fixed_us=60_000, image_tokens=280).loads(packing.sums())


@pytest.mark.parametrize(("n_ranks", "per_rank"), [(4, 16), (8, 64)])
def test_image_loads_are_proven_optimal(n_ranks: int, per_rank: int) -> None:
    loads = image_loads()
    for seed in range(4):
        chosen = np.random.default_rng(seed).choice(loads, n_ranks * per_rank, replace=False)
        assert ILP().plan(Problem(chosen, Grid(n_ranks, counts=EQUAL))).status is Status.OPTIMAL


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize(("n_ranks", "per_rank"), [(4, 4), (8, 3), (8, 4), (16, 4), (8, 64), (16, 64)])
def test_tiles_are_proven_optimal(n_ranks: int, per_rank: int, share: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        n = n_ranks * per_rank
        loads = 256 * rng.geometric(0.2, n).clip(max=24) * (rng.random(n) < share)
        for start in (Auto(), LPT()):
            plan = ILP(start).plan(Problem(loads, Grid(n_ranks, counts=EQUAL)))
            assert plan.status is Status.OPTIMAL


def test_without_time_the_start_is_the_plan() -> None:
    problem = Problem([5, 5, 4, 4, 3, 3, 3], 3)
    plan = ILP(LPT(), limit=0).plan(problem)
    assert plan.cell.tolist() == LPT().plan(problem).cell.tolist()
    assert plan.status is Status.FALLBACK
    assert ILP(LPT(), limit=0).plan(Problem([1, 1], 2)).status is Status.OPTIMAL


def test_better_without_proof_is_feasible_and_nothing_better_is_a_fallback() -> None:
    loads = np.random.default_rng(0).integers(1, 10**6, 64)
    problem = Problem(loads, Grid(16, counts=EQUAL))
    poor, good = ILP(RoundRobin(), limit=0.1).plan(problem), ILP(limit=0.01).plan(problem)
    assert poor.status is Status.FEASIBLE
    assert poor.lower_bound < poor.cost < RoundRobin().plan(problem).cost
    assert good.status is Status.FALLBACK
    assert good.cell.tolist() == Auto().plan(problem).cell.tolist()


@pytest.mark.parametrize("counts", [Counts.FREE, EQUAL])
def test_the_same_plan_comes_out_again(counts: Counts) -> None:
    loads = np.random.default_rng(1).integers(1, 10**6, 48)
    problem = Problem(loads, Grid(8, counts=counts))
    plans = [ILP(RoundRobin(), limit=0.1).plan(problem) for _ in range(5)]
    assert plans[0].status is Status.FEASIBLE
    assert len({plan.digest() for plan in plans}) == 1


@pytest.mark.parametrize("limit", [0.0, 0.001, 1.0])
def test_large_problems_end_in_time_and_never_worse(limit: float) -> None:
    problem = Problem(np.random.default_rng(0).integers(1, 10**6, 2000), 64)
    plan = ILP(LPT(), limit=limit).plan(problem)
    assert (plan.cost, plan.status) == (LPT().plan(problem).cost, Status.FALLBACK)  # too many variables for the limit


def test_the_solver_takes_one_thread_and_leaves_the_environment_alone() -> None:
    """Eight ranks of a node that each plan must not start eight times as many threads as there are cores."""
    tasks, most, done = Path("/proc/self/task"), 0, threading.Event()
    if not tasks.exists():
        pytest.skip("counts threads in /proc")

    def watch() -> None:
        nonlocal most
        while not done.wait(0.002):
            most = max(most, len(list(tasks.iterdir())))

    watcher, environment = threading.Thread(target=watch), dict(os.environ)
    before = len(list(tasks.iterdir()))
    watcher.start()
    plan = ILP(RoundRobin(), limit=0.2).plan(Problem(np.random.default_rng(1).integers(1, 10**6, 40), 8))
    done.set()
    watcher.join()
    assert plan.status is not Status.HEURISTIC
    assert most <= before + 2  # the watcher, and the thread that CP-SAT solves in
    assert dict(os.environ) == environment


def test_what_is_refused_says_why() -> None:
    wide = Problem(np.arange(2001), 100)
    many = r"different loads x bins are 200100 variables, more than 200000\. Use Auto\(\), or coarser loads"
    with pytest.raises(CannotServe, match=many):
        ILP().plan(wide)
    assert ILP().refusal(Problem(np.arange(2001) // 2, 100)) is None  # loads that are equal count once
    with pytest.raises(
        CannotServe,
        match=f"the loads sum to {2**60 + 1} x their common step 1; the solver takes sums below {2**60}",
    ):
        ILP().plan(Problem([2**60, 1], 2))
    assert ILP().refusal(Problem([2**60, 2**60], 2)) is None
    with pytest.raises(CannotServe, match="does not count packs"):
        ILP(Multifit()).plan(Problem([1, 1], Grid(2, counts=EQUAL)))


def test_parameters_are_checked_and_shown() -> None:
    assert repr(ILP(LPT(), limit=0.5)) == "ILP(LPT(), limit=0.5)"
    for limit in (-1, float("nan"), float("inf"), True, "1"):
        with pytest.raises(InvalidParameter, match=r"ILP\.limit must be a finite number >= 0 of deterministic seconds"):
            ILP(limit=limit)  # type: ignore[arg-type]


def test_large_sums_of_peaks_are_refused_since_their_proofs_are_not_safe() -> None:
    """OR-Tools 9.15 calls the start of this problem optimal; the optimum is 8891100998."""
    loads = [3235761619, 6338830258, 2552270740, 3467038347]
    with pytest.raises(CannotServe, match="the solver takes sums below 1073741824"):
        ILP(RoundRobin()).plan(Problem(loads, Grid(2, 3, Barrier.MICRO_STEP)))
    assert ILP(RoundRobin()).refusal(Problem(loads, 2)) is None
