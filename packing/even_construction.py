"""Full packs of about equal amounts, built in three phases at the cost of best fit decreasing."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from .arrays import Int32, Int64, descending_order
from .decreasing import best_fit_decreasing
from .heaps import sift_down
from .jit import kernel
from .kernels import best_fit_into

__all__ = ["Recipe", "best_recipe", "construct"]

PORTION = 10_000  # samples on which recipes are compared
FILL_WEIGHT = 60  # a point of fill missing counts as much as 0.6 in the variation of amounts: exchanges mend only that


class Recipe(NamedTuple):
    """How samples are shared out to the phases of `construct`; the default of None: plain best fit decreasing.

    ``density``: a sample is text-like if its amount per token is at most so many times the mean of all.
    ``length``: text-like samples longer than this share of the capacity are placed first.
    """

    density: float
    length: float


RECIPES = (None, Recipe(0.0, 0.5), Recipe(0.0, 0.12), Recipe(1.0, 0.5), Recipe(1.0, 0.25))


def best_recipe(tokens: Int64, amounts: Int64, capacity: int, fill: float) -> Recipe | None:
    """Return the recipe with the fullest and most even packs on every n-th of the samples; the first of equals.

    What is missing to ``fill`` weighs heavily, a fill above it does not count.
    """
    n = len(tokens)
    portion = np.arange(min(n, PORTION)) * n // max(min(n, PORTION), 1)
    tokens, amounts = tokens[portion], amounts[portion]
    least, chosen = 0.0, None
    for recipe in RECIPES:
        pack_of = construct(tokens, amounts, capacity, fill, recipe)
        n_packs = int(pack_of.max(initial=-1)) + 1
        missing = fill - int(tokens.sum()) / max(n_packs * capacity, 1)
        badness = FILL_WEIGHT * max(missing, 0.0) + variation(amounts, pack_of, n_packs)
        if recipe is None or badness < least:
            least, chosen = badness, recipe
    return chosen


def construct(tokens: Int64, amounts: Int64, capacity: int, fill: float, recipe: Recipe | None) -> Int32:
    """Return the pack of each sample, (n,), numbered without gaps; every sample fits a pack of its own.

    1. The packs needed at ``fill`` are opened, one for each sample above half of the capacity. Long text-like samples
       go, longest first, each into the least full pack: what is hard to place, without amount, spreads.
    2. The others go, largest amount first, each to the pack with the least amount. A pack whose turn it is and that
       lacks the tokens is out: its level is final.
    3. What is left goes, longest first, by best fit, where it can without filling a pack to the brim: a few free
       tokens in every pack are what later exchanges live on.

    O(n log n). Ties: lower sample, then lower pack.
    """
    if recipe is None:
        return best_fit_decreasing(tokens, capacity)
    longest = descending_order(tokens)
    n_long = int(np.count_nonzero(2 * tokens > capacity))
    total, total_amount = int(tokens.sum()), int(amounts.sum())
    n_packs = max(int(total / (fill * capacity)), -(-total // capacity), n_long)  # not emptier than asked for
    textlike = amounts <= recipe.density * (total_amount / max(total, 1)) * tokens
    pack_of = np.full(len(tokens), -1, dtype=np.int32)
    pack_of[longest[:n_long]] = np.arange(n_long)
    used, level = np.zeros(n_packs, dtype=np.int64), np.zeros(n_packs, dtype=np.int64)
    used[:n_long], level[:n_long] = tokens[longest[:n_long]], amounts[longest[:n_long]]
    bits = n_packs.bit_length()
    first = textlike & (tokens > recipe.length * capacity)
    _least_full(tokens, amounts, longest[first[longest]], capacity, pack_of, used, level, bits)
    most = descending_order(amounts)
    _least_amount(tokens, amounts, most[~textlike[most]], capacity, pack_of, used, level, bits)
    rest = longest[pack_of[longest] < 0]
    spare = int((1 - fill) * capacity / 2)
    pack_of[rest] = best_fit_into(tokens[rest], capacity, capacity - used, spare)
    return _without_gaps(pack_of, n_packs + len(rest))


def variation(amounts: Int64, pack_of: Int32, n_packs: int) -> float:
    """Return the standard deviation of the packs' sums divided by their mean; 0.0 where nothing varies."""
    mean = int(amounts.sum()) / max(n_packs, 1)
    return sqrt(squared_deviations(amounts, pack_of, n_packs) / n_packs) / mean if mean else 0.0


@kernel
def squared_deviations(amounts: Int64, pack_of: Int32, n_packs: int) -> float:
    """Return the sum of squared distances of the packs' sums from their mean, added in order: the same everywhere."""
    sums = np.zeros(n_packs, dtype=np.int64)
    for i in range(len(amounts)):
        sums[pack_of[i]] += amounts[i]
    mean = sums.sum() / n_packs
    squares = 0.0
    for total in sums:
        squares += (total - mean) ** 2
    return squares


@kernel
def _least_full(
    tokens: Int64, amounts: Int64, turn: Int64, capacity: int, pack_of: Int32, used: Int64, level: Int64, bits: int
) -> None:
    """Put each sample in ``turn`` into the pack with the fewest tokens; stop where the emptiest lacks the room."""
    n_packs = len(used)
    heap = np.sort((used << bits) | np.arange(n_packs))
    for i in turn:
        pack = heap[0] & ((1 << bits) - 1)
        if pack_of[i] >= 0:
            continue
        if used[pack] + tokens[i] > capacity:
            break
        pack_of[i] = pack
        used[pack] += tokens[i]
        level[pack] += amounts[i]
        heap[0] = (used[pack] << bits) | pack
        sift_down(heap, n_packs)


@kernel
def _least_amount(
    tokens: Int64, amounts: Int64, turn: Int64, capacity: int, pack_of: Int32, used: Int64, level: Int64, bits: int
) -> None:
    """Put each sample in ``turn`` into the pack with the least amount; a pack that lacks the room leaves for good."""
    size = len(used)
    heap = np.sort((level << bits) | np.arange(size))
    for i in turn:
        if pack_of[i] >= 0:
            continue
        while size > 0:
            pack = heap[0] & ((1 << bits) - 1)
            if used[pack] + tokens[i] <= capacity:
                break
            size -= 1
            heap[0] = heap[size]
            sift_down(heap, size)
        if size == 0:
            break
        pack_of[i] = pack
        used[pack] += tokens[i]
        level[pack] += amounts[i]
        heap[0] = (level[pack] << bits) | pack
        sift_down(heap, size)


@kernel
def _without_gaps(pack_of: Int32, n_packs: int) -> Int32:
    """Renumber the packs that hold something 0, 1, 2, ... in their order."""
    filled = np.zeros(n_packs, dtype=np.int32)
    for pack in pack_of:
        filled[pack] = 1
    number = np.cumsum(filled) - 1
    result = np.empty(len(pack_of), dtype=np.int32)
    for i in range(len(pack_of)):
        result[i] = number[pack_of[i]]
    return result
