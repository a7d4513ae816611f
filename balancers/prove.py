"""Prove: column generation shows that a plan is optimal, or finds a better one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import Int32, as_int
from packing.column_generation import round_patterns
from packing.errors import InvalidParameter
from packing.kernels import first_fit
from packing.pattern_lp import LARGEST_CAPACITY

from .base import Balancer
from .cells import cells_of, spread
from .grid import Barrier
from .lpt import LPT
from .plan import Assignment, Status
from .problem import Problem
from .refine import Refine

__all__ = ["Prove"]


@dataclass(frozen=True)
class Prove(Balancer):
    """Show that no plan costs less than that of ``inner``, or find one that does. Also: the dual of P||Cmax.

    A cost is possible exactly if the packs fit into one bin per rank of that capacity. The next lower cost than that of
    ``inner`` is asked first, then by bisection: the linear program over patterns may need more bins than there are
    ranks, which refutes the capacity in integers, or be rounded to bins that suffice (`packing.ColumnGeneration`).

    Guarantee: never worse than ``inner``; the bound is proven. The status is OPTIMAL, FEASIBLE (better than ``inner``,
    no proof) or FALLBACK (the plan of ``inner``, no proof). Time: at most about ``steps`` nanoseconds, counted; a few
    milliseconds up to some hundred packs, more with large capacities. `ILP` is the other exact route. Free counts only.
    Ties: those of ``inner``, then falling load, then index.
    """

    inner: Balancer = Refine(LPT())
    steps: int = 1_000_000_000

    barriers = frozenset({Barrier.STEP})
    free_counts_only = True

    def __post_init__(self) -> None:
        super().__post_init__()
        as_int("Prove.steps", self.steps, InvalidParameter, least=0)

    def refusal(self, problem: Problem) -> str | None:
        return super().refusal(problem) or self.inner.refusal(problem)

    def assign(self, problem: Problem) -> Assignment:
        plan = self.inner.plan(problem)
        order, n_ranks = problem.heaviest_first, problem.grid.n_ranks
        falling = problem.total[order]
        falling = falling[falling > 0]
        common = int(np.gcd.reduce(falling)) or 1  # costs are multiples of it
        falling = falling // common
        proven, high = -(-plan.lower_bound // common), plan.cost // common
        if proven >= high or high > LARGEST_CAPACITY:
            return Assignment(plan.cell, plan.lower_bound, Status.FALLBACK)
        best: Int32 | None = None
        low, steps, capacity = max(proven, int(falling[0])), self.steps, high - 1  # below low: refuted, or not found
        while low < high and steps > 0:
            fitted = first_fit(falling, capacity)
            if fitted.max() >= n_ranks:
                found = round_patterns(falling, capacity, fitted, steps, n_ranks)
                steps = found.steps_left
                if found.bound > n_ranks:
                    proven = max(proven, capacity + 1)
                if found.pack_of is not None:
                    fitted = found.pack_of
            if fitted.max() < n_ranks:
                best, high = fitted, int(np.bincount(fitted, falling).max())
            else:
                low = capacity + 1
            capacity = (low + high) // 2
        if best is None:
            return Assignment(plan.cell, common * proven, Status.FALLBACK)
        bin_of = np.empty(problem.n_packs, dtype=np.int32)
        bin_of[order[: len(falling)]] = best
        spread(bin_of, order, len(falling), n_ranks)
        return Assignment(cells_of(problem, bin_of), common * proven, Status.FEASIBLE)
