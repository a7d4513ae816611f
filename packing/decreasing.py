"""What all "decreasing" rules share: pieces from longest to shortest, equal ones by index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .arrays import Int32, Int64, descending_order
from .counting import counts_by_size, falling_by_counting, in_input_order
from .kernels import best_fit
from .runs import best_fit_in_runs

__all__ = ["best_fit_decreasing", "decreasing"]

LARGEST_COUNTED = 2**20  # sizes up to here are sorted by counting


def decreasing(rule: Callable[[Int32 | Int64, int], Int32], sizes: Int64, capacity: int) -> Int32:
    """Apply ``rule(sizes, capacity)``, which takes pieces in turn, to falling sizes; return packs by index, (n,)."""
    pack_of = np.empty(len(sizes), dtype=np.int32)
    if capacity <= LARGEST_COUNTED:
        falling, start = falling_by_counting(sizes, capacity)
        return in_input_order(rule(falling, capacity), sizes, start, pack_of)
    order = descending_order(sizes)
    pack_of[order] = rule(sizes[order], capacity)
    return pack_of


def best_fit_decreasing(sizes: Int64, capacity: int) -> Int32:
    """Return the packs of best fit over falling sizes, by index, (n,); of equally full packs the last touched."""
    if capacity > LARGEST_COUNTED:
        return decreasing(best_fit, sizes, capacity)
    pack_of = np.empty(len(sizes), dtype=np.int32)  # made first, so that the memory of ``packs`` is free at the end
    packs = np.empty(len(sizes), dtype=np.int32)
    start = best_fit_in_runs(counts_by_size(sizes, capacity), capacity, packs)
    return in_input_order(packs, sizes, start, pack_of)
