"""Plans whose heaviest rank is another one in every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Balancer
from .lpt import LPT
from .plan import Assignment
from .problem import Problem

__all__ = ["Rotate"]


@dataclass(frozen=True)
class Rotate(Balancer):
    """The plan of ``inner`` with its ranks shifted by the number of the step, `Problem.step`.

    Ties go to low ranks, so that the same rank would be the heaviest step after step: this spreads wear and heat, at
    no cost, since ranks are alike. O(n).
    """

    inner: Balancer = LPT()

    def refusal(self, problem: Problem) -> str | None:
        if not problem.ranks_alike:
            return "ranks are not alike: they differ in speed, or packs are bound to them. Use the balancer inside"
        return self.inner.refusal(problem)

    def assign(self, problem: Problem) -> Assignment:
        plan = self.inner.plan(problem)
        n_ranks = problem.grid.n_ranks
        shifted = (plan.rank + np.int32(problem.step % n_ranks)) % np.int32(n_ranks)
        return Assignment(plan.cell - plan.rank + shifted, plan.lower_bound, plan.status)
