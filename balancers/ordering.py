"""Heaps and sorts over bins, for compiled loops; ties go to the lower bin.

In a heap the bin of smallest key is on top.
"""

from __future__ import annotations

import numpy as np

from packing.arrays import Int64
from packing.jit import kernel

__all__ = ["falling_order", "heapify", "sift_down"]


@kernel
def sift_down(heap: Int64, size: int, key: Int64, node: int) -> None:
    """Restore the heap order of ``heap[:size]`` (bins, by ``key[bin]``) below ``node``, whose key has grown."""
    moving = heap[node]
    while True:
        child = 2 * node + 1
        if child >= size:
            break
        bin_ = heap[child]
        if child + 1 < size:
            right = heap[child + 1]
            if key[right] < key[bin_] or (key[right] == key[bin_] and right < bin_):
                child, bin_ = child + 1, right
        if key[moving] < key[bin_] or (key[moving] == key[bin_] and moving < bin_):
            break
        heap[node] = bin_
        node = child
    heap[node] = moving


@kernel
def heapify(heap: Int64, size: int, key: Int64) -> None:
    """Make ``heap[:size]`` a heap. O(size)."""
    for node in range(size // 2 - 1, -1, -1):
        sift_down(heap, size, key, node)


@kernel
def falling_order(key: Int64) -> Int64:
    """Return the bins from largest to smallest key, (n_bins,): bottom-up merge sort."""
    n = len(key)
    here, there = np.arange(n), np.empty(n, dtype=np.int64)
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            i, middle = start, min(start + width, n)
            j, stop = middle, min(start + 2 * width, n)
            for place in range(start, stop):
                if j >= stop or (i < middle and key[here[i]] >= key[here[j]]):
                    there[place] = here[i]
                    i += 1
                else:
                    there[place] = here[j]
                    j += 1
        here, there = there, here
        width *= 2
    return here
