"""Iterated local search: disturb the plan a little, refine it again, keep what is no worse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import Int32, as_int
from packing.errors import InvalidParameter

from .base import Balancer
from .cells import bins_of, cells_of, fullest
from .grid import Barrier
from .lpt import LPT
from .plan import Assignment
from .problem import Problem
from .refine import LARGEST_GROUP, Refine, refined

__all__ = ["Iterated"]


@dataclass(frozen=True)
class Iterated(Balancer):
    """Disturb the plan of ``inner`` by a few random exchanges that touch the fullest bin, refine again, and go on from
    the better of the two, equally good ones included. Also: ILS, kicks (Lourenco, Martin & Stutzle 2003).

    Ends at the bound or after ``kicks``. Guarantee: never worse than ``inner``. Time: a refinement per kick, so for
    small and hard problems. Every rank draws the same: the generator is local, seeded by ``seed``.
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

    def assign(self, problem: Problem) -> Assignment:
        plan = self.inner.plan(problem)
        best, peak, n_bins = plan.rank, plan.cost, bins_of(problem).n_bins
        rng = np.random.default_rng(self.seed)
        for _ in range(self.kicks if problem.n_packs and n_bins > 1 else 0):
            if peak <= plan.lower_bound:
                break
            candidate = refined(problem, _kicked(problem, best, n_bins, rng), plan.lower_bound, LARGEST_GROUP)
            new_peak = fullest(problem, candidate, n_bins)
            if new_peak <= peak:
                best, peak = candidate, new_peak
        return Assignment(cells_of(problem, best) if peak < plan.cost else plan.cell, plan.lower_bound)


def _kicked(problem: Problem, bin_of: Int32, n_bins: int, rng: np.random.Generator) -> Int32:
    """Return ``bin_of`` with one to three packs exchanged with the fullest bin (or moved, where counts are free)."""
    load = np.zeros(n_bins, dtype=np.int64)
    np.add.at(load, bin_of, problem.total)
    heaviest = int(load.argmax())
    changed = bin_of.copy()
    for _ in range(int(rng.integers(1, 4))):
        mine = np.flatnonzero(changed == heaviest)
        others = np.flatnonzero(changed != heaviest)
        if not len(mine) or not len(others):
            break
        give, take = rng.choice(mine), rng.choice(others)
        changed[give], changed[take] = changed[take], changed[give]
    return changed
