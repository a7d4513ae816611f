"""What frameworks do today, and chance: to measure the others against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import as_int
from packing.errors import InvalidParameter

from .base import Balancer
from .errors import InvalidPlan
from .plan import Assignment, Plan
from .problem import Problem

__all__ = ["Random", "RoundRobin", "StayHome"]


@dataclass(frozen=True)
class RoundRobin(Balancer):
    """Pack i to cell i mod n_cells: a data loader that does not look at loads. O(n). All barriers, all counts."""

    scale_free = takes_slowdown = True

    def assign(self, problem: Problem) -> Assignment:
        return Assignment(np.arange(problem.n_packs, dtype=np.int32) % np.int32(problem.grid.n_cells))


@dataclass(frozen=True)
class Random(Balancer):
    """Round robin over packs shuffled by ``seed``: the control group. O(n). All barriers, all counts.

    Every rank draws the same: the generator is local and seeded by ``seed`` and the step of the problem.
    """

    seed: int = 0

    scale_free = takes_slowdown = True

    def __post_init__(self) -> None:
        super().__post_init__()
        as_int("Random.seed", self.seed, InvalidParameter, least=0)

    def assign(self, problem: Problem) -> Assignment:
        order = np.random.default_rng([self.seed, problem.step]).permutation(problem.n_packs)
        return Assignment(order.astype(np.int32) % np.int32(problem.grid.n_cells))


@dataclass(frozen=True)
class StayHome(Balancer):
    """Every pack stays in its home cell: nothing moves. Needs a home that respects counts and constraints."""

    scale_free = takes_constraints = takes_slowdown = True

    def refusal(self, problem: Problem) -> str | None:
        if problem.home is None:
            return "the packs have no home. Pass Problem(..., home=...)"
        try:
            Plan(problem, problem.home, "home")
        except InvalidPlan as error:
            return str(error).removesuffix(".")
        return super().refusal(problem)

    def assign(self, problem: Problem) -> Assignment:
        assert problem.home is not None, "refused above"
        return Assignment(problem.home)
