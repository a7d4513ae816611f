"""Refine: local search on a finished plan."""

from __future__ import annotations

from dataclasses import dataclass

from packing.arrays import Int32

from .base import Balancer
from .bounds import max_of_sums
from .cells import bins_of, cells_of
from .grid import Barrier
from .local_search import refine
from .lpt import LPT
from .plan import Assignment, Plan
from .problem import Problem

__all__ = ["Refine", "refined", "target_of"]

GROUP = 3  # packs exchanged at once: larger groups cost memory and gain little
STEPS_PER_PACK = 600  # the budget, in comparisons of groups: counted, never timed
CLOSE_ENOUGH, SMALL = 100_000, 2_048  # with more packs the search ends within one part in so many of the bound


@dataclass(frozen=True)
class Refine(Balancer):
    """Improve the plan of ``inner`` by exchanging groups of up to three packs between pairs of bins (`local_search`).

    The search ends at the bound, at a local optimum, or at a budget of steps, never by the clock.

    Guarantee: never worse than ``inner``. O(n) steps, about 100 per pack on image loads; O(n) memory. Bins hold as many
    packs as the counts allow throughout. Ties: strict improvement only, the first found.
    """

    inner: Balancer = LPT()

    barriers = frozenset({Barrier.STEP, Barrier.MICRO_STEP})

    def refusal(self, problem: Problem) -> str | None:
        return super().refusal(problem) or self.inner.refusal(problem)

    def assign(self, problem: Problem) -> Assignment | Plan:
        plan = self.inner.plan(problem)
        if plan.cost <= plan.lower_bound:
            return plan
        if problem.grid.barrier is Barrier.STEP:
            return Assignment(cells_of(problem, refined(problem, plan.rank, plan.lower_bound)), plan.lower_bound)
        better = Plan(problem, cells_of(problem, refined(problem, plan.cell)))
        return Assignment(min(plan, better, key=lambda each: each.key).cell, plan.lower_bound)


def refined(problem: Problem, bin_of: Int32, limit: int = 0) -> Int32:
    """Return ``bin_of`` (n_packs,) after local search with groups of up to `GROUP` packs.

    It ends when no bin is above the target; see `target_of`.
    """
    target, budget = target_of(problem, limit), STEPS_PER_PACK * problem.n_packs
    return refine(problem.total, problem.heaviest_first, bin_of, *bins_of(problem), target, budget, GROUP)


def target_of(problem: Problem, limit: int = 0) -> int:
    """Return the load at which searching on is not worth it: ``limit`` or the bins' lower bound, whichever is larger;
    for many packs one part in `CLOSE_ENOUGH` more, which is no difference where the loads have a common step."""
    if problem.grid.barrier is Barrier.STEP:
        bound = problem.lower_bound
    else:
        bound = max_of_sums(problem.total[problem.heaviest_first[::-1]], *bins_of(problem))
    return max(limit, bound + (bound // CLOSE_ENOUGH if problem.n_packs > SMALL else 0))
