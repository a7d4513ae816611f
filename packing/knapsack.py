"""The best pattern at given prices: a bounded knapsack, exact in integers."""

from __future__ import annotations

import numpy as np

from .arrays import Int64
from .jit import kernel

__all__ = ["branch", "table", "table_cells"]


@kernel
def branch(
    sizes: Int64, counts: Int64, prices: Int64, capacity: int, nodes: int, pattern: Int64
) -> tuple[int, bool, int]:
    """Write into ``pattern`` (n,) how many pieces of each size make up the pack of highest price that was found.

    Returns its price, whether no pack is worth more, and the nodes left. Depth first from the piece of highest price
    per size down; a branch ends where the room, filled at the price of the next piece, could not beat the best
    (Dantzig's bound; Martello & Toth 1990, chapter 3). Products of a price and the capacity must stay in int64.
    """
    n = len(sizes)
    order = np.argsort(-prices / sizes, kind="mergesort")
    while n > 0 and prices[order[n - 1]] <= 0:
        n -= 1
    size, price = sizes[order], prices[order]
    least = np.full(n + 1, capacity + 1)  # the smallest size from here on
    for i in range(n - 1, -1, -1):
        least[i] = min(least[i + 1], size[i])
    taken = np.zeros(n, dtype=np.int64)
    pattern[:] = 0
    best = value = i = 0
    room = capacity
    while True:
        while i < n and room >= least[i] and value + room * price[i] // size[i] > best:
            k = min(counts[order[i]], room // size[i])
            taken[i] = k
            room -= k * size[i]
            value += k * price[i]
            i += 1
            nodes -= 1
        if value > best:
            best = value
            pattern[:] = 0
            pattern[order[:i]] = taken[:i]
        if nodes < 0:
            return best, False, 0
        i -= 1
        while i >= 0 and taken[i] == 0:
            i -= 1
        if i < 0:
            return best, True, nodes
        taken[i] -= 1
        room += size[i]
        value -= price[i]
        i += 1


@kernel
def table_cells(sizes: Int64, counts: Int64, capacity: int) -> int:
    """Return how many cells `table` fills."""
    n_rows = 0
    for i in range(len(sizes)):
        most = min(counts[i], capacity // sizes[i])
        while most > 0:
            n_rows += 1
            most //= 2
    return n_rows * (capacity + 1)


@kernel
def table(sizes: Int64, counts: Int64, prices: Int64, capacity: int, pattern: Int64) -> int:
    """As `branch`, by dynamic programming over the capacity: for prices that leave `branch` too many nodes.

    c pieces of a size are bundles of 1, 2, 4, ... and the rest, so they take about log2(c) rows. One byte per cell.
    """
    n_rows = table_cells(sizes, counts, capacity) // (capacity + 1)
    kind, bundle = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    row = 0
    for i in range(len(sizes)):
        most, k = min(counts[i], capacity // sizes[i]), 1
        while most > 0:
            kind[row], bundle[row] = i, min(k, most)
            most -= bundle[row]
            k *= 2
            row += 1
    before, best = np.zeros(capacity + 1, dtype=np.int64), np.zeros(capacity + 1, dtype=np.int64)
    taken = np.zeros((n_rows, capacity + 1), dtype=np.bool_)
    for row in range(n_rows):
        size, price = bundle[row] * sizes[kind[row]], bundle[row] * prices[kind[row]]
        best[:size] = before[:size]
        takes = taken[row]
        for room in range(size, capacity + 1):
            value = before[room - size] + price
            takes[room] = value > before[room]
            best[room] = max(value, before[room])
        before, best = best, before
    pattern[:] = 0
    room = capacity
    for row in range(n_rows - 1, -1, -1):
        if taken[row, room]:
            pattern[kind[row]] += bundle[row]
            room -= bundle[row] * sizes[kind[row]]
    return int(before[capacity])
