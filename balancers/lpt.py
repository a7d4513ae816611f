"""Longest processing time first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import Int32, Int64
from packing.jit import kernel

from .base import Balancer
from .cells import bins_of, cells_of, fill_fewest
from .grid import Barrier
from .ordering import heapify, sift_down
from .plan import Assignment
from .problem import Problem

__all__ = ["LPT", "lpt"]


@dataclass(frozen=True)
class LPT(Balancer):
    """Heaviest pack first, always into the least loaded bin that still has a place. Also: greedy, list scheduling.

    Guarantee: cost <= (4/3 - 1/(3 n_ranks)) x optimum for STEP with free counts (Graham 1969). With bounded counts it
    places by load as long as the packs left suffice to give every bin its fewest. For MICRO_STEP it evens out the cells
    and sorts them into micro-steps. O(n log n_bins) time, O(n) memory. Ties: lower pack, then lower bin; packs without
    load go where the fewest packs are. Strong on heavy tails; on smooth loads with few packs per rank `KarmarkarKarp`
    is closer.
    """

    barriers = frozenset({Barrier.STEP, Barrier.MICRO_STEP})
    order_free = scale_free = True

    def assign(self, problem: Problem) -> Assignment:
        bin_of = lpt(problem.total, problem.heaviest_first, *bins_of(problem))
        return Assignment(cells_of(problem, bin_of))


@kernel
def lpt(loads: Int64, order: Int64, n_bins: int, fewest: int, most: int) -> Int32:
    """Return the bin of each pack, (n,), every bin holding ``fewest`` to ``most`` packs. ``order``: heaviest first."""
    n = len(order)
    bin_of = np.empty(n, dtype=np.int32)
    load = np.zeros(n_bins, dtype=np.int64)
    used = np.zeros(n_bins, dtype=np.int64)
    heap = np.arange(n_bins)
    size = n_bins
    owed = n_bins * fewest  # packs that bins below their fewest still need
    placed = 0
    while placed < n and loads[order[placed]] > 0:
        pack = order[placed]
        if n - placed == owed and most > fewest:  # from here on only bins below their fewest may take packs
            most, size = fewest, 0
            for bin_ in range(n_bins):
                if used[bin_] < fewest:
                    heap[size] = bin_
                    size += 1
            heapify(heap, size, load)
        bin_ = heap[0]
        bin_of[pack] = bin_
        load[bin_] += loads[pack]
        used[bin_] += 1
        placed += 1
        if used[bin_] <= fewest:
            owed -= 1
        if used[bin_] >= most:
            size -= 1
            heap[0] = heap[size]
        if size > 0:
            sift_down(heap, size, load, 0)
    fill_fewest(bin_of, order[placed:], used)
    return bin_of
