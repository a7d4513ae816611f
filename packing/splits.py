"""All ways to split a few items in two, as two small tables: a split is a row of one with a row of the other.

Item 0 is in the first half. Bit k of row b has the (k + 1)-th item there, the bits of row a those behind. Of each row:
``room``: (limits, rows) what it adds to the first half; row a counts from the least that this half must hold, so that a
split fits if its sums are in [0, spare]. ``lead``: (targets, rows) how far the first half is ahead of the other, in
excess of what is wanted, as float32. Loops over b have no branch and no slice, so that they run on vectors: 0.2 ns a
split.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import Int32, Int64
from .jit import kernel
from .random import Random, below

__all__ = ["Float32", "double", "find_split", "least_cost", "squared_lead"]

Float32 = NDArray[np.float32]
NONE = np.int32(2**31 - 1)


@kernel
def double(sums: Int32 | Float32, row: int, size: int, value: np.int32 | np.float32) -> None:
    """Write the first ``size`` of ``sums[row]``, each plus ``value``, behind them."""
    behind = np.uint64(size)  # unsigned: numba need not care for negative places
    for k in range(behind):
        sums[row, behind + k] = sums[row, k] + value


@kernel
def least_cost(
    room_a: Int32,
    lead_a: Float32,
    size_a: int,
    room_b: Int32,
    lead_b: Float32,
    size_b: int,
    spare: Int64,
    cost: Float32,
    cost_bits: Int32,
    best: Int32,
) -> np.int32:
    """Return the least sum of squared leads among splits that fit, and leave the least of each row b in ``best``.

    ``cost_bits`` is ``cost`` seen as integers, in which floats >= 0 have the same order: a minimum of integers runs on
    vectors. No split fits: NONE.
    """
    most = np.uint32(spare[0])
    for b in range(size_b):
        best[b] = NONE
    for a in range(size_a):
        ahead = lead_a[0, a]
        for b in range(size_b):
            lead = ahead + lead_b[0, b]
            cost[b] = lead * lead
        for c in range(1, len(lead_a)):
            ahead = lead_a[c, a]
            for b in range(size_b):
                lead = ahead + lead_b[c, b]
                cost[b] += lead * lead
        for k in range(1, len(room_a)):
            room = room_a[k, a]
            for b in range(size_b):
                fits = np.uint32(room + room_b[k, b]) <= np.uint32(spare[k])
                cost_bits[b] = cost_bits[b] if fits else NONE
        room = room_a[0, a]
        for b in range(size_b):
            fits = np.uint32(room + room_b[0, b]) <= most  # below 0 is a large number
            best[b] = min(best[b], cost_bits[b] if fits else NONE)
    least = NONE
    for b in range(size_b):
        least = min(least, best[b])
    return least


@kernel
def find_split(
    room_a: Int32,
    lead_a: Float32,
    size_a: int,
    room_b: Int32,
    lead_b: Float32,
    size_b: int,
    spare: Int64,
    cost: Float32,
    cost_bits: Int32,
    best: Int32,
    least: np.int32,
    random: Random,
) -> tuple[int, int]:
    """Return the rows (a, b) of a split that `least_cost` means: the first from a random place on."""
    b = below(random, size_b)
    while best[b] != least:
        b = (b + 1) & (size_b - 1)
    a = below(random, size_a)
    while True:
        cost[0] = squared_lead(lead_a, a, lead_b, b)
        found = cost_bits[0] == least
        for k in range(len(room_a)):
            found &= 0 <= room_a[k, a] + room_b[k, b] <= spare[k]
        if found:
            return a, b
        a = (a + 1) & (size_a - 1)


@kernel
def squared_lead(lead_a: Float32, a: int, lead_b: Float32, b: int) -> np.float32:
    """Return the cost of one split, with the same roundings as `least_cost`."""
    total = np.float32(0)
    for c in range(len(lead_a)):
        lead = lead_a[c, a] + lead_b[c, b]
        total = np.float32(total + lead * lead)
    return total
