"""Minimum bin slack: fill bin by bin with the subset of packs that leaves the least room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import Int32, Int64, as_int
from packing.errors import InvalidParameter
from packing.filling import least_slack
from packing.jit import kernel

from .base import Balancer
from .bounds import max_of_sums
from .cells import bins_of, cells_of, fullest, spread
from .dual_feasible import dual_feasible_bound
from .grid import Barrier
from .lpt import lpt
from .ordering import heapify, sift_down
from .plan import Assignment
from .problem import Problem

__all__ = ["MinimumBinSlack", "fill"]


@dataclass(frozen=True)
class MinimumBinSlack(Balancer):
    """At a capacity found by bisection, fill one bin after the other as full as possible. Also: MBS, subset filling.

    Each bin takes the heaviest pack left, then the subset of the others that leaves the least room, found depth first
    (Gupta & Ho 1999 for bin packing). Packs left behind the last bin go to the lightest one. The first capacity is a
    lower bound by dual feasible functions, so that perfect packings are found at once, and proven. Starts from `LPT`.

    Guarantee: never worse than `LPT`. Time: at most ``nodes`` of the search per capacity, besides O(n n_bins); O(n)
    memory. The best single method for few packs per bin; free counts only. Ties: equal loads are one choice, the lower
    pack first.
    """

    capacities: int = 6
    nodes: int = 200_000

    barriers = frozenset({Barrier.STEP})
    free_counts_only = order_free = True

    def __post_init__(self) -> None:
        super().__post_init__()
        as_int("MinimumBinSlack.capacities", self.capacities, InvalidParameter, least=0)
        as_int("MinimumBinSlack.nodes", self.nodes, InvalidParameter, least=0)

    def assign(self, problem: Problem) -> Assignment:
        order, bins = problem.heaviest_first, bins_of(problem)
        best = lpt(problem.total, order, *bins)
        falling = problem.total[order]
        n_loaded = int(np.count_nonzero(falling))
        proven = 0
        if n_loaded:
            high = fullest(problem, best, bins.n_bins)
            low = capacity = dual_feasible_bound(
                falling[:n_loaded], bins.n_bins, max_of_sums(falling[::-1], *bins), high
            )
            proven = low
            for _ in range(self.capacities):
                if low >= high:
                    break
                filled, peak, fits = fill(falling[:n_loaded], bins.n_bins, capacity, self.nodes)
                if peak < high:
                    best[order[:n_loaded]] = filled
                    high = peak
                if not fits:
                    low = capacity + 1
                capacity = (low + high) // 2
        spread(best, order, n_loaded, bins.n_bins)
        return Assignment(cells_of(problem, best), proven)


@kernel
def fill(falling: Int64, n_bins: int, capacity: int, nodes: int) -> tuple[Int32, int, bool]:
    """Return the bin of each load (n,), the load of the fullest bin, and whether all fitted within ``capacity``."""
    n = len(falling)
    left, values = np.arange(n), falling.copy()  # of the loads not yet placed, heaviest first
    n_left = n
    suffix = np.empty(n + 1, dtype=np.int64)
    chosen, best_chosen = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    bin_of = np.empty(n, dtype=np.int32)
    load = np.zeros(n_bins, dtype=np.int64)
    for bin_ in range(n_bins):
        if n_left == 0:
            break
        suffix[n_left] = 0
        for i in range(n_left - 1, -1, -1):
            suffix[i] = suffix[i + 1] + values[i]
        n_chosen = least_slack(values, suffix, n_left, capacity - values[0], nodes // n_bins + 100, chosen, best_chosen)
        best_chosen[n_chosen] = n_left  # a sentinel, behind the last
        bin_of[left[0]] = bin_
        load[bin_] = values[0]
        kept, taken = 0, 0
        for i in range(1, n_left):
            if best_chosen[taken] == i:
                taken += 1
                bin_of[left[i]] = bin_
                load[bin_] += values[i]
            else:
                left[kept], values[kept] = left[i], values[i]
                kept += 1
        n_left = kept
    fits = n_left == 0
    heap = np.arange(n_bins)
    heapify(heap, n_bins, load)
    for i in range(n_left):
        bin_of[left[i]] = heap[0]
        load[heap[0]] += values[i]
        sift_down(heap, n_bins, load, 0)
    return bin_of, load.max(), fits and load.max() <= capacity
