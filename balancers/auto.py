"""The default: what suits the problem, improved until the bound is met or nothing helps."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Balancer
from .grid import Barrier, Counts
from .iterated import Iterated
from .karmarkar_karp import KarmarkarKarp
from .lpt import LPT
from .minimum_bin_slack import MinimumBinSlack
from .multifit import Multifit
from .peel import Peel
from .plan import Assignment
from .portfolio import Portfolio
from .problem import Problem
from .refine import Refine

__all__ = ["Auto"]

SMALL = 10_000_000  # packs x ranks up to which methods that are quadratic in them are quick
KICKS, KICKED_PACKS = 200, 60_000  # at most so many kicks, and so many packs refined by all of them


@dataclass(frozen=True)
class Auto(Balancer):
    """Plans what the others are good at; the one to take when you have not compared.

    Equal and bounded counts: the better of `LPT` and `KarmarkarKarp`, each improved by `Refine`. Free counts: of `LPT`,
    `KarmarkarKarp`, `Multifit` and `MinimumBinSlack`, each improved, then `Iterated` where the bound is not met; large
    problems `LPT` alone, improved. Micro-steps with equal counts: the better of `LPT` and `Peel`. A plan at the bound
    ends the search.

    Guarantee: never worse than any of these. Time: O(n log n) for equal counts, about 1 ms for 512 packs on 64 ranks.
    """

    barriers = frozenset({Barrier.STEP, Barrier.MICRO_STEP})

    def assign(self, problem: Problem) -> Assignment:
        plan = suited(problem).plan(problem)
        return Assignment(plan.cell, plan.lower_bound, plan.status)


def suited(problem: Problem) -> Balancer:
    """Return the composition that `Auto` stands for on ``problem``."""
    grid = problem.grid
    if grid.barrier is Barrier.MICRO_STEP and problem.fewest_per_cell == problem.most_per_cell:
        return Portfolio((LPT(), Peel()))
    if grid.counts is not Counts.FREE:
        return Portfolio((Refine(LPT()), Refine(KarmarkarKarp())))
    if problem.n_packs * grid.n_ranks > SMALL:
        return Refine(LPT())
    starts = (LPT(), MinimumBinSlack(), Multifit(), KarmarkarKarp())
    best = Portfolio(tuple(map(Refine, starts)))
    if grid.barrier is Barrier.MICRO_STEP:
        return best
    return Iterated(best, kicks=min(KICKS, KICKED_PACKS // max(problem.n_packs, 1)))
