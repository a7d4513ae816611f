"""A binary heap of packs by what they hold, for kernels: one integer per pack, the amount above the number of the pack.

A sorted array is a heap, so none is ever built; the smallest is at 0, ties go to the lower pack.
"""

from __future__ import annotations

from .arrays import Int64
from .jit import kernel

__all__ = ["sift_down", "sift_up"]


@kernel
def sift_down(heap: Int64, size: int) -> None:
    """Restore the order of ``heap[:size]`` after its first entry was made larger. O(log size)."""
    moved = heap[0]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= moved:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moved


@kernel
def sift_up(heap: Int64, place: int) -> None:
    """Restore the order of ``heap[: place + 1]`` after an entry was put at ``place``. O(log place)."""
    moved = heap[place]
    while place > 0:
        above = (place - 1) // 2
        if heap[above] <= moved:
            break
        heap[place] = heap[above]
        place = above
    heap[place] = moved
