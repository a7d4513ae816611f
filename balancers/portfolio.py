"""Several balancers tried, the best plan kept."""

from __future__ import annotations

from dataclasses import dataclass

from packing.errors import InvalidParameter

from .base import Balancer
from .errors import NoPlanFound
from .karmarkar_karp import KarmarkarKarp
from .lpt import LPT
from .plan import Assignment, Plan
from .problem import Problem

__all__ = ["Portfolio"]


@dataclass(frozen=True)
class Portfolio(Balancer):
    """The best plan of several balancers by (cost, largest rank total, bytes moved); of equal ones the first.

    Those that refuse a problem, or find no plan, are left out; it is refused where all of them do. A plan whose cost
    meets the bound ends the search. Guarantee: as good as the best of them. Time: their sum.
    """

    balancers: tuple[Balancer, ...] = (LPT(), KarmarkarKarp())

    def __post_init__(self) -> None:
        given: object = self.balancers
        if not isinstance(given, tuple | list) or not all(isinstance(each, Balancer) for each in given):
            raise InvalidParameter(f"Portfolio.balancers must be a tuple of balancers; got {given!r}.")
        object.__setattr__(self, "balancers", tuple(given))  # a list will do
        super().__post_init__()
        if not self.balancers:
            raise InvalidParameter("Portfolio needs at least one balancer.")

    def refusal(self, problem: Problem) -> str | None:
        reasons = [(balancer, balancer.refusal(problem)) for balancer in self.balancers]
        if any(reason is None for _, reason in reasons):
            return None
        return "all of it refuse: " + "; ".join(f"{balancer!r}: {reason}" for balancer, reason in reasons)

    def assign(self, problem: Problem) -> Assignment | Plan:
        best: Plan | None = None
        failure: NoPlanFound | None = None
        proven = 0
        for balancer in self.balancers:
            if balancer.refusal(problem) is None:
                try:
                    plan = balancer.plan(problem)
                except NoPlanFound as error:
                    failure = error
                    continue
                proven = max(proven, plan.lower_bound)
                if best is None or plan.key < best.key:
                    best = plan
                if best.cost == proven:
                    break
        if best is None:
            raise failure or AssertionError("refused above")
        return best if best.lower_bound == proven else Assignment(best.cell, proven, best.status)
