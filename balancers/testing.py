"""The property kit: hypothesis strategies for problems, named checks, and `check_balancer` for balancers of your own.

from balancers.testing import check_balancer
check_balancer(MyBalancer())          # raises CheckFailed: which property, on which problem
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias
from unittest.mock import patch

import numpy as np

from packing.errors import CannotServe
from packing.lazy import missing_extra

from . import BALANCERS
from .base import Balancer
from .errors import NoPlanFound
from .grid import Barrier, Counts, Grid
from .plan import Assignment, Plan
from .problem import Problem
from .references import allowed, brute_force_cost, naive_cost, step_optimum

try:
    from hypothesis import assume

    from packing.checking import (
        CheckFailed,
        named,
        on_drawn,
        random_states,
        refusal_asked,
        repr_parses,
        same_in_any_process,
    )

    from .drawn import FAMILIES, grids, large_problems, problems
except ModuleNotFoundError as error:
    raise missing_extra("balancers.testing", error) from error

__all__ = ["FAMILIES", "CheckFailed", "check_balancer", "checks", "grids", "large_problems", "problems"]

Check: TypeAlias = Callable[[Balancer, Problem], None]


# Checks: each is a property as a sentence, and raises AssertionError with what was seen.


def every_pack_once(balancer: Balancer, problem: Problem) -> None:
    """The answer gives each pack one cell of the grid."""
    answer: object = balancer.assign(problem)
    assert isinstance(answer, Assignment | Plan), f"assign must return Assignment(cell), not {type(answer).__name__}"
    cell = np.asarray(answer.cell)
    assert cell.shape == (problem.n_packs,), (
        f"there must be a cell for each of {problem.n_packs} packs; got shape {cell.shape}"
    )
    assert cell.dtype.kind in "iu" or not cell.size, f"cells must be integers; got dtype {cell.dtype}"
    n_cells = problem.grid.n_cells
    assert all(0 <= c < n_cells for c in cell.tolist()), f"cells must be 0 to {n_cells - 1}; got {cell.tolist()}"


def counts_respected(balancer: Balancer, problem: Problem) -> None:
    """Every cell holds as many packs as the grid allows."""
    cells = np.asarray(balancer.assign(problem).cell).tolist()
    counts = [cells.count(c) for c in range(problem.grid.n_cells)]
    fewest, most = problem.fewest_per_cell, problem.most_per_cell
    assert all(fewest <= n <= most for n in counts), f"cells hold {counts} packs, allowed are {fewest} to {most}"


def constraints_respected(balancer: Balancer, problem: Problem) -> None:
    """No cell exceeds a cap, no group is split, every bound pack is on its rank."""
    cells = np.asarray(balancer.assign(problem).cell).tolist()
    assert allowed(problem, cells), f"cells are {cells}"


def cost_recomputed(balancer: Balancer, problem: Problem) -> None:
    """The plan's cost is the one that plain Python finds from the cells."""
    plan = balancer.plan(problem)
    cost = naive_cost(problem, plan.cell.tolist())
    assert plan.cost == cost, f"the plan says {plan.cost}, the cells cost {cost}"


def not_below_bound(balancer: Balancer, problem: Problem) -> None:
    """No plan costs less than the bound, and on small problems no assignment at all does."""
    plan = balancer.plan(problem)
    assert plan.cost >= plan.lower_bound, f"cost {plan.cost} is below the bound {plan.lower_bound}"
    if problem.grid.barrier is Barrier.STEP and problem.is_plain and problem.n_packs <= 9:
        best = step_optimum(problem)
    elif problem.grid.n_cells**problem.n_packs <= 256:
        best = brute_force_cost(problem)
    else:
        return
    assert plan.lower_bound <= best, f"the bound {plan.lower_bound} is above the optimum {best}"


def not_below_bound_of_textbooks(balancer: Balancer) -> None:
    """The bound is not above the optimum of examples that heuristics are known to fail on."""
    for loads, grid in TEXTBOOK:
        problem = Problem(loads, grid)
        if balancer.refusal(problem) is None:
            named(not_below_bound.__name__, balancer, problem, partial(not_below_bound, balancer, problem))


TEXTBOOK = [
    (loads, replace(grid, counts=counts))
    for loads, grid in (
        ([3, 3, 2, 2, 2], Grid(2)),  # Graham 1969
        ([5, 5, 4, 4, 3, 3, 3], Grid(3)),
        ([8, 7, 6, 5, 4], Grid(2)),  # differencing makes 16
        ([9, 7, 6, 5, 5, 4, 3, 3], Grid(3)),
    )
    for counts in (Counts.FREE, Counts.WITHIN_ONE, Counts.PADDED)
]


def same_again(balancer: Balancer, problem: Problem) -> None:
    """Planning twice gives one plan, and leaves the global random states alone."""
    random.random()  # hypothesis has seeded both with 0, so that a balancer that does it too would go unseen
    np.random.random()
    before = random_states()
    first, second = balancer.plan(problem).digest(), balancer.plan(problem).digest()
    assert first == second, "two calls gave two plans"
    assert random_states() == before, "a global random state was drawn from or seeded"


def input_untouched(balancer: Balancer, problem: Problem) -> None:
    """Planning does not change the problem."""
    before = [None if a is None else a.copy() for a in (problem.loads, problem.home, problem.n_bytes)]
    balancer.plan(problem)
    for old, new in zip(before, (problem.loads, problem.home, problem.n_bytes), strict=True):
        assert (old is None and new is None) or np.array_equal(old, new), f"{old} became {new}"  # type: ignore[arg-type]


def ties_do_not_matter(balancer: Balancer, problem: Problem) -> None:
    """Exchanging homes and sizes among packs of equal load leaves the cost as it is (claimed by ``order_free``)."""
    if problem.home is None or problem.n_bytes is None:
        return
    partner = np.arange(problem.n_packs)
    for load in np.unique(problem.total):
        group = np.flatnonzero(problem.total == load)
        partner[group] = group[::-1]
    other = replace(problem, home=problem.home[partner], n_bytes=problem.n_bytes[partner])
    _same_cost(balancer, problem, other)


def relabelling_harmless(balancer: Balancer, problem: Problem) -> None:
    """The order in which the packs are listed does not change the cost (claimed by ``order_free``)."""
    order = np.random.default_rng(problem.n_packs).permutation(problem.n_packs)
    home, n_bytes = problem.home, problem.n_bytes
    _same_cost(
        balancer,
        problem,
        Problem(
            problem.loads[order],
            problem.grid,
            None if home is None else home[order],
            None if n_bytes is None else n_bytes[order],
        ),
    )


def scaling_scales(balancer: Balancer, problem: Problem) -> None:
    """Multiplying all loads leaves every pack in its cell (claimed by ``scale_free``)."""
    factor = 1000 if int(problem.total.sum()) * max(problem.grid.slowdown or (1,)) < 2**50 else 1
    scaled = replace(problem, loads=problem.loads * factor)
    first, second = balancer.plan(problem).cell.tolist(), balancer.plan(scaled).cell.tolist()
    assert first == second, f"cells {first} became {second}"


def refusal_tells(balancer: Balancer, problem: Problem) -> None:
    """A refusal is a sentence, or None, the same when asked again, and asking changes nothing."""
    refusal_asked(lambda: balancer.refusal(problem), problem)


def refuses_before_work(balancer: Balancer, problem: Problem) -> None:
    """A problem that is refused is refused by an error, and nothing is planned."""
    if balancer.refusal(problem) is None:
        return
    with patch.object(type(balancer), "assign", side_effect=AssertionError("assign was called")):
        try:
            balancer.plan(problem)
        except CannotServe:
            return
    raise AssertionError("refusal gives a reason, but plan gave a plan")


OF_ALL: tuple[Check, ...] = (
    every_pack_once,
    counts_respected,
    constraints_respected,
    cost_recomputed,
    not_below_bound,
    same_again,
    input_untouched,
)


def checks(balancer: Balancer, max_examples: int = 50) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield (name, check) for every property that ``balancer`` must have or claims; call a check to run it.

    Made for ``pytest.mark.parametrize``; `check_balancer` runs them all.
    """
    yield "repr_parses", lambda: repr_parses(BALANCERS, balancer)
    yield "refusal_tells", _on_drawn_problems(refusal_tells, balancer, max_examples, refused=True)
    claimed: tuple[Check, ...] = (ties_do_not_matter, relabelling_harmless) * balancer.order_free
    claimed += (scaling_scales,) * balancer.scale_free
    for check in (*OF_ALL, *claimed):
        yield check.__name__, _on_drawn_problems(check, balancer, max_examples, refused=False)
    yield "not_below_bound_of_textbooks", lambda: not_below_bound_of_textbooks(balancer)
    yield "refuses_before_work", _on_drawn_problems(refuses_before_work, balancer, max_examples, refused=True)
    yield (
        "same_in_any_process",
        lambda: same_in_any_process(balancer, partial(_digest, balancer), large_problems(balancer)),
    )


def check_balancer(balancer: Balancer, max_examples: int = 50) -> None:
    """Run all checks; raise `CheckFailed` with the first property that fails and the smallest problem found for it.

    ``max_examples`` problems are drawn per property, always the same ones. The last check plans in three other
    processes: different hash seeds, thread counts, CPU features, clocks, used random states, and load.
    """
    for _, check in checks(balancer, max_examples):
        check()


def _on_drawn_problems(check: Check, balancer: Balancer, max_examples: int, *, refused: bool) -> Callable[[], None]:
    drawn = problems(frozenset(Barrier), constraints=True, slowdown=True)
    if not refused:
        drawn = problems(balancer.barriers, constraints=balancer.takes_constraints, slowdown=balancer.takes_slowdown)

    def run(problem: Problem) -> None:
        assume(refused or balancer.refusal(problem) is None)
        try:
            named(check.__name__, balancer, problem, partial(check, balancer, problem), (NoPlanFound,))
        except NoPlanFound:  # a heuristic may say so, where there are constraints
            assert problem.constraints or problem.grid.counts is not Counts.FREE
            assume(False)

    return on_drawn(check.__name__, balancer, run, drawn, max_examples)


def _digest(balancer: Balancer, problem: Problem) -> str:
    return balancer.plan(problem).digest()


def _same_cost(balancer: Balancer, problem: Problem, other: Problem) -> None:
    first, second = balancer.plan(problem).cost, balancer.plan(other).cost
    assert first == second, f"cost {first} became {second} on {other!r}"
