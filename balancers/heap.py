"""A binary heap over bins, for compiled loops: the bin of smallest key is on top, of equal keys the lowest bin."""

from __future__ import annotations

from packing.arrays import Int64
from packing.jit import kernel

__all__ = ["heapify", "sift_down"]


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
