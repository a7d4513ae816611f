"""Zigzag: sorted, then dealt back and forth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Balancer
from .cells import bins_of, cells_of
from .grid import Barrier
from .plan import Assignment
from .problem import Problem

__all__ = ["Zigzag"]


@dataclass(frozen=True)
class Zigzag(Balancer):
    """Packs from heaviest to lightest, dealt to the bins forth and back. Also: snake, boustrophedon dealing.

    Guarantee: none better than round robin on sorted loads; close on smooth loads with many packs per rank, far off on
    heavy tails. Counts within one of each other. O(n log n) time, O(n) memory. Ties: lower pack first.
    """

    barriers = frozenset({Barrier.STEP, Barrier.MICRO_STEP})
    order_free = scale_free = True

    def assign(self, problem: Problem) -> Assignment:
        n_bins = bins_of(problem).n_bins
        lap, place = np.divmod(np.arange(problem.n_packs), n_bins)
        bin_of = np.empty(problem.n_packs, dtype=np.int32)
        bin_of[problem.heaviest_first] = np.where(lap % 2 == 0, place, n_bins - 1 - place)
        return Assignment(cells_of(problem, bin_of))
