"""MULTIFIT: bin packing inside a bisection on the capacity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import as_int
from packing.errors import InvalidParameter
from packing.kernels import first_fit

from .base import Balancer
from .bounds import max_of_sums
from .cells import bins_of, cells_of, fullest, spread
from .grid import Barrier
from .lpt import lpt
from .plan import Assignment
from .problem import Problem

__all__ = ["Multifit"]


@dataclass(frozen=True)
class Multifit(Balancer):
    """Find by bisection a small capacity at which first fit decreasing needs no more bins than there are. Also: MF.

    Guarantee: cost <= 13/11 x optimum for STEP with free counts, up to the last bisection (Coffman, Garey & Johnson
    1978; Yue 1990); starts from `LPT`, so it is never worse. O(n log n) time per bisection, O(n) memory. First fit is
    not monotone, so the capacity found need not be the smallest. Free counts only. Ties: lower pack, then lower bin.
    """

    bisections: int = 10

    barriers = frozenset({Barrier.STEP})
    free_counts_only = order_free = True

    def __post_init__(self) -> None:
        super().__post_init__()
        as_int("Multifit.bisections", self.bisections, InvalidParameter, least=0)

    def assign(self, problem: Problem) -> Assignment:
        order, bins = problem.heaviest_first, bins_of(problem)
        best = lpt(problem.total, order, *bins)
        low = max_of_sums(problem.total[order[::-1]], *bins) if problem.n_packs else 0
        high = fullest(problem, best, bins.n_bins)
        falling = problem.total[order]
        n_loaded = int(np.count_nonzero(falling))
        for _ in range(self.bisections):
            if low >= high:
                break
            capacity = (low + high) // 2
            fitted = first_fit(falling[:n_loaded], capacity)
            if fitted.max(initial=-1) < bins.n_bins:
                best[order[:n_loaded]] = fitted
                high = capacity
            else:
                low = capacity + 1
        spread(best, order, n_loaded, bins.n_bins)
        return Assignment(cells_of(problem, best))
