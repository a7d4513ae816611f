"""The default: what suits the problem, improved until the bound is met or nothing helps."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Balancer
from .grid import Barrier, Counts
from .karmarkar_karp import KarmarkarKarp
from .lpt import LPT
from .multifit import Multifit
from .peel import Peel
from .plan import Assignment
from .portfolio import Portfolio
from .problem import Problem
from .refine import Refine

__all__ = ["Auto"]

SMALL = 2_000_000  # packs x ranks up to which differencing with free counts is quick


@dataclass(frozen=True)
class Auto(Balancer):
    """Plans what the others are good at; the one to take when you have not compared.

    It is the best of `LPT`, `KarmarkarKarp` (but for large problems with free counts) and `Multifit` (free counts),
    each improved by `Refine`; for micro-steps with equal counts of `LPT` and `Peel`. The search ends at the bound.

    Guarantee: never worse than any of these. Time: O(n log n) for equal counts, under 1 ms for 512 packs on 64 ranks.
    """

    barriers = frozenset({Barrier.STEP, Barrier.MICRO_STEP})

    def assign(self, problem: Problem) -> Assignment:
        plan = suited(problem).plan(problem)
        return Assignment(plan.cell, plan.lower_bound, plan.status)


def suited(problem: Problem) -> Balancer:
    """Return the composition that `Auto` stands for on ``problem``."""
    if problem.grid.barrier is Barrier.MICRO_STEP and problem.fewest_per_cell == problem.most_per_cell:
        return Portfolio((LPT(), Peel()))
    starts: tuple[Balancer, ...] = (LPT(),)
    if problem.grid.counts is not Counts.FREE:
        starts += (KarmarkarKarp(),)
    elif problem.n_packs * problem.grid.n_ranks <= SMALL:
        starts += (KarmarkarKarp(), Multifit())
    return Portfolio(tuple(map(Refine, starts)))
