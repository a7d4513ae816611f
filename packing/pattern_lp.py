"""The linear program over patterns: how many packs, fractions allowed, and an exact bound from its prices.

A pattern says how many pieces of each size stand in a pack. The revised simplex method starts from packs of one size,
and brings in patterns that are worth more than one pack at the current prices of the pieces (Gilmore & Gomory 1961).
Floats guide the search; every bound is proven in integers, so their rounding costs strength at most, never truth.
Plain loops, no BLAS: the same on every machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrays import Int32, Int64
from .jit import kernel
from .knapsack import branch, table, table_cells

__all__ = ["LARGEST_CAPACITY", "Solution", "solve"]

LARGEST_CAPACITY = 2**30
SCALE = 2**30  # of prices: a pack is worth so much; twice that times the capacity stays in int64
SMOOTHING = 0.5  # weight of the best prices so far
NODES = 20_000  # of one search for a pattern, before the table
LARGEST_TABLE = 2**27  # cells, one byte each
NODE_STEPS, CELL_STEPS, ENTRIES_PER_STEP = 8, 2, 2  # what a node, a cell, and an entry of the inverse cost
EPSILON = 1e-9

Float64 = NDArray[np.float64]


class Solution(NamedTuple):
    """``bound``: packs that are needed, proven. ``patterns`` (n, n) and ``amounts`` (n,): the packs of the program."""

    bound: int
    patterns: Int32
    amounts: Float64
    steps_left: int


@kernel
def solve(sizes: Int64, counts: Int64, capacity: int, pool: Int32, low: int, high: int, steps: int) -> Solution:
    """Minimise the packs over all patterns of ``sizes`` (n,), of which there are ``counts`` (n,), both >= 1.

    ``pool`` (m, n): patterns to begin with. The search ends at the optimum rounded up; where the value has come down to
    ``low`` packs or the bound up to ``high``; or when ``steps`` (about nanoseconds, counted) are used up.

    The bound is Farley's (1990): prices, rounded down to integers, at which no pattern is worth more than z, need
    ceil(price of all pieces / z) packs. Patterns are sought at the mean of the current prices and those that gave the
    best bound (Wentges 1997), which start in proportion to the sizes.
    """
    n = len(sizes)
    patterns = np.zeros((n, n), dtype=np.int32)
    inverse = np.zeros((n, n))  # transposed: a row per size, a column per pattern of the basis
    amounts, prices = np.empty(n), np.empty(n)
    for i in range(n):
        most = min(counts[i], capacity // sizes[i])
        patterns[i, i] = most
        inverse[i, i] = prices[i] = 1 / most
        amounts[i] = counts[i] / most
    pattern, whole_prices = np.zeros(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    best_prices = sizes / capacity
    best_value = (sizes * counts).sum() / capacity
    bound = int(np.ceil(best_value - EPSILON))
    smoothing = SMOOTHING
    while steps > 0 and amounts.sum() > low + EPSILON and bound < high:
        worth, place = 1 + EPSILON, -1
        for row in range(len(pool)):
            value = _worth(pool[row], prices)
            if value > worth:
                worth, place = value, row
        steps -= pool.size
        if place >= 0:
            pattern[:] = pool[place]
        else:
            pool = pool[:0]
            for i in range(n):
                price = (1 - smoothing) * prices[i] + smoothing * best_prices[i]
                whole_prices[i] = int(min(max(price, 0.0), 2.0) * SCALE)
            highest, exact, left = branch(sizes, counts, whole_prices, capacity, NODES, pattern)
            steps -= NODE_STEPS * (NODES - left)
            worth = _worth(pattern, prices)
            if not exact and worth <= 1 + EPSILON:
                cells = table_cells(sizes, counts, capacity)
                steps -= CELL_STEPS * cells
                if cells > LARGEST_TABLE or steps < 0:
                    break
                highest, exact = table(sizes, counts, whole_prices, capacity, pattern), True
                worth = _worth(pattern, prices)
            if exact:
                total = (whole_prices * counts).sum()
                bound = max(bound, -(-total // highest))
                if total / highest > best_value:
                    best_value = total / highest
                    best_prices[:] = whole_prices / highest
                if bound >= amounts.sum() - EPSILON * n or bound >= high:
                    break
            if worth <= 1 + EPSILON:  # the best at other prices than the current ones
                if smoothing == 0:
                    break
                smoothing = smoothing / 2 if smoothing > SMOOTHING / 4 else 0.0
                continue
        smoothing = SMOOTHING
        if not _enter(pattern, worth, patterns, inverse, amounts, prices):
            break
        steps -= n * n // ENTRIES_PER_STEP
    return Solution(bound, patterns, amounts, max(steps, 0))


@kernel
def _worth(pattern: Int64, prices: Float64) -> float:
    worth = 0.0
    for i in range(len(prices)):
        worth += pattern[i] * prices[i]
    return worth


@kernel
def _enter(pattern: Int64, worth: float, patterns: Int32, inverse: Float64, amounts: Float64, prices: Float64) -> bool:
    """Exchange a pattern of the basis for ``pattern``; of those that could go, the one with the largest pivot."""
    n = len(amounts)
    column = np.zeros(n)
    for i in range(n):
        if pattern[i] > 0:
            for j in range(n):
                column[j] += pattern[i] * inverse[i, j]
    gone, amount = -1, np.inf
    for j in range(n):
        if column[j] > EPSILON:
            least = max(amounts[j], 0.0) / column[j]
            if least < amount - EPSILON or (least <= amount + EPSILON and (gone < 0 or column[j] > column[gone])):
                gone, amount = j, least
    if gone < 0:
        return False  # lost to rounding: there is no such pattern
    pivot = column[gone]
    for j in range(n):
        amounts[j] -= amount * column[j]
    amounts[gone] = amount
    patterns[gone] = pattern
    for i in range(n):
        share = inverse[i, gone] / pivot
        if share != 0:
            for j in range(n):
                inverse[i, j] -= share * column[j]
            inverse[i, gone] = share
            prices[i] += (1 - worth) * share
    return True
