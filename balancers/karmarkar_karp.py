"""The k-way largest differencing method of Karmarkar and Karp."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import Int32, Int64
from packing.jit import kernel

from .base import Balancer
from .cells import bins_of, cells_of, fill_fewest, fullest
from .grid import Barrier, Counts
from .lpt import lpt
from .ordering import falling_order, sift_down
from .plan import Assignment
from .problem import Problem

__all__ = ["KarmarkarKarp", "differencing"]


@dataclass(frozen=True)
class KarmarkarKarp(Balancer):
    """Merge the two partial solutions of largest difference, heavy parts with light ones, until one is left. Also: LDM.

    A partial solution is n_bins parts; its difference is its largest part minus its smallest. With free counts every
    pack starts alone (Karmarkar & Karp 1982; k-way: Michiels, Korst, Aarts & van Leeuwen 2003). With any other counts
    the sorted packs start in groups of n_bins, one per bin, so that the bins' counts differ by at most one (balanced
    LDM, Yakir 1996; Michiels, Aarts, Korst, van Leeuwen & Spieksma 2012).

    Balanced, each bin takes one pack of every group, which evens out smooth loads but not heavy tails (a lognormal at
    256 x 16 costs 1.5 x the bound): where `LPT` costs less, its plan is the answer.

    Guarantee: cost <= (4/3 - 1/(3 n_bins)) x optimum with free counts. Time O(n log n) where parts are even, at worst
    O(n n_bins) (free counts, one giant); O(n) memory. Ties: a pack before a partial solution, the older one of two.
    """

    barriers = frozenset({Barrier.STEP, Barrier.MICRO_STEP})
    order_free = scale_free = True

    def assign(self, problem: Problem) -> Assignment:
        bins, free = bins_of(problem), problem.grid.counts is Counts.FREE
        bin_of = differencing(problem.total, problem.heaviest_first, bins.n_bins, not free)
        if not free:
            greedy = lpt(problem.total, problem.heaviest_first, *bins)
            if fullest(problem, greedy, bins.n_bins) < fullest(problem, bin_of, bins.n_bins):
                bin_of = greedy
        return Assignment(cells_of(problem, bin_of))


@kernel
def differencing(loads: Int64, order: Int64, n_bins: int, balanced: bool) -> Int32:
    """Return the bin of each pack, (n,). ``order``: heaviest first. ``balanced``: counts differ by at most one.

    A full partial solution is a row of ``value``, descending, with the packs of part i in a linked list from
    ``head[row, i]`` to ``tail[row, i]``. Single packs wait in ``order``. At most one partial solution has fewer than
    n_bins parts: its difference is its largest part, the largest of all, so it is merged again at once. It only ever
    takes up the next single pack as a further part, so it is a range of ``order`` and needs no room of its own.
    """
    n = len(order)
    if balanced:
        single = n_single = n  # no pack starts alone
        n_rows = -(-n // n_bins)
    else:
        single, n_single = 0, n  # packs without load are spread at the end
        while n_single > 0 and loads[order[n_single - 1]] == 0:
            n_single -= 1
        n_rows = n_single // n_bins + 1
    value = np.zeros((n_rows, n_bins), dtype=np.int64)
    head = np.full((n_rows, n_bins), -1, dtype=np.int32)
    tail = np.full((n_rows, n_bins), -1, dtype=np.int32)
    follower = np.full(n, -1, dtype=np.int32)
    key = np.zeros(n_rows, dtype=np.int64)  # minus the difference: the heap has its smallest on top
    heap = np.zeros(n_rows + 1, dtype=np.int64)
    size = n_used = 0
    if balanced:
        for row in range(n_rows):
            _start(value[row], head[row], tail[row], loads, order[row * n_bins : (row + 1) * n_bins])
            key[row] = value[row, -1] - value[row, 0]
            size = _push(heap, size, key, row)
        n_used = n_rows
    while True:
        first = single
        while single < n_single and single - first < n_bins and (size == 0 or loads[order[single]] >= -key[heap[0]]):
            single += 1
        parts = single - first
        if parts == n_bins or (parts > 0 and size == 0):  # a full row, or all there is
            row = n_used
            n_used += 1
            _start(value[row], head[row], tail[row], loads, order[first:single])
        elif parts > 0:  # the next largest difference is that of a row: it takes the parts up
            row = heap[0]
            size = _pop(heap, size, key)
            _absorb(value[row], head[row], tail[row], loads, order[first:single], follower)
        else:
            if size == 0:
                break
            row = heap[0]
            size = _pop(heap, size, key)
            if single < n_single and (size == 0 or loads[order[single]] >= -key[heap[0]]):
                _absorb(value[row], head[row], tail[row], loads, order[single : single + 1], follower)
                single += 1
            elif size > 0:
                other = heap[0]
                size = _pop(heap, size, key)
                _merge(value[row], head[row], tail[row], value[other], head[other], tail[other], follower)
            else:
                break
        key[row] = value[row, -1] - value[row, 0]
        size = _push(heap, size, key, row)
    bin_of = np.empty(n, dtype=np.int32)
    used = np.zeros(n_bins, dtype=np.int64)
    if n_used > 0:
        for part in range(n_bins):
            pack = head[row, part]
            while pack >= 0:
                bin_of[pack] = part
                used[part] += 1
                pack = follower[pack]
    if not balanced:
        fill_fewest(bin_of, order[n_single:], used)
    return bin_of


@kernel
def _start(value: Int64, head: Int32, tail: Int32, loads: Int64, packs: Int64) -> None:
    """Make a row of single packs, which are in falling order; places behind them stay empty."""
    for i in range(len(packs)):
        value[i] = loads[packs[i]]
        head[i] = tail[i] = packs[i]


@kernel
def _absorb(value: Int64, head: Int32, tail: Int32, loads: Int64, packs: Int64, follower: Int32) -> None:
    """Add single packs to a row: the heaviest to its smallest part, and so on; then put the row in order again."""
    last = len(value) - 1
    for i in range(len(packs)):
        value[last - i] += loads[packs[i]]
        head[last - i], tail[last - i] = _join(head[last - i], tail[last - i], packs[i], packs[i], follower)
    if len(packs) > 1:
        _sort(value, head, tail)
        return
    grown, its_head, its_tail = value[last], head[last], tail[last]
    place = last
    while place > 0 and value[place - 1] < grown:
        value[place], head[place], tail[place] = value[place - 1], head[place - 1], tail[place - 1]
        place -= 1
    value[place], head[place], tail[place] = grown, its_head, its_tail


@kernel
def _merge(value: Int64, head: Int32, tail: Int32, value2: Int64, head2: Int32, tail2: Int32, follower: Int32) -> None:
    """Merge the second row into the first: the largest part with the smallest, and so on."""
    n_bins = len(value)
    for i in range(n_bins):
        j = n_bins - 1 - i
        value[i] += value2[j]
        head[i], tail[i] = _join(head[i], tail[i], head2[j], tail2[j], follower)
    _sort(value, head, tail)


@kernel
def _join(head: int, tail: int, head2: int, tail2: int, follower: Int32) -> tuple[int, int]:
    """Append one linked list to another; -1 is the empty list."""
    if head < 0:
        return head2, tail2
    if head2 < 0:
        return head, tail
    follower[tail] = head2
    return head, tail2


@kernel
def _sort(value: Int64, head: Int32, tail: Int32) -> None:
    """Sort the parts of a row by falling value, stably."""
    order = falling_order(value)
    value[:], head[:], tail[:] = value[order], head[order], tail[order]


@kernel
def _push(heap: Int64, size: int, key: Int64, row: int) -> int:
    """Add a row to the heap of rows by key, of equal keys the lowest row first; return the new size."""
    node = size
    while node > 0:
        parent = (node - 1) // 2
        above = heap[parent]
        if key[above] < key[row] or (key[above] == key[row] and above < row):
            break
        heap[node] = above
        node = parent
    heap[node] = row
    return size + 1


@kernel
def _pop(heap: Int64, size: int, key: Int64) -> int:
    """Remove the top row; return the new size."""
    size -= 1
    heap[0] = heap[size]
    if size > 0:
        sift_down(heap, size, key, 0)
    return size
