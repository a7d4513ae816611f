"""Iterated local search: disturb the plan a little, refine it again, keep what is no worse."""

from __future__ import annotations

from dataclasses import dataclass

from packing.arrays import as_int
from packing.errors import InvalidParameter

from .base import Balancer
from .cells import bins_of, cells_of
from .grid import Barrier
from .groups import LARGEST_GROUP
from .local_search import iterate
from .lpt import LPT
from .plan import Assignment, Plan
from .problem import Problem
from .refine import STEPS_PER_PACK, Refine, target_of

__all__ = ["Iterated"]


@dataclass(frozen=True)
class Iterated(Balancer):
    """Disturb the plan of ``inner`` by a few random exchanges that touch the fullest bin, refine again, and go on from
    the better of the two, equally good ones included. Also: ILS, kicks (Lourenco, Martin & Stutzle 2003).

    Ends at the bound, after ``kicks``, or at a budget of steps for all of them. Guarantee: never worse than ``inner``.
    Time: a refinement per kick, so for small and hard problems. Every rank draws the same:
    the generator is local, seeded by ``seed``.
    """

    inner: Balancer = Refine(LPT())
    kicks: int = 100
    seed: int = 0

    barriers = frozenset({Barrier.STEP})

    def __post_init__(self) -> None:
        super().__post_init__()
        as_int("Iterated.kicks", self.kicks, InvalidParameter, least=0)
        as_int("Iterated.seed", self.seed, InvalidParameter, least=0)

    def refusal(self, problem: Problem) -> str | None:
        return super().refusal(problem) or self.inner.refusal(problem)

    def assign(self, problem: Problem) -> Assignment | Plan:
        plan = self.inner.plan(problem)
        if plan.cost <= plan.lower_bound:
            return plan
        target, budget = target_of(problem, plan.lower_bound), STEPS_PER_PACK * problem.n_packs
        loads, order, bins = problem.total, problem.heaviest_first, bins_of(problem)
        bin_of = iterate(loads, order, plan.rank, *bins, target, budget, LARGEST_GROUP, self.kicks, self.seed)
        return Assignment(cells_of(problem, bin_of), plan.lower_bound)
