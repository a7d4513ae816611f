"""Full packs of about equal amounts, built in three phases at the cost of best fit decreasing."""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from .arrays import Int32, Int64, descending_order
from .counting import heaviest_first
from .heaps import sift_down
from .jit import kernel
from .kernels import best_fit, best_fit_into

__all__ = ["Ordered", "Recipe", "by_recipe", "construct"]

PORTION = 10_000  # samples on which recipes are compared
FILL_WEIGHT = 60  # a point of fill missing counts as much as 0.6 in the variation of amounts: exchanges mend only that


class Recipe(NamedTuple):
    """How samples are shared out to the phases; None in its place: plain best fit decreasing.

    ``density``: a sample is text-like if its amount per token is at most so many times the mean of all.
    ``length``: text-like samples longer than this share of the capacity are placed first.
    """

    density: float
    length: float


class Ordered(NamedTuple):
    """Samples, and their numbers by falling tokens and by falling amount; four (n,) arrays."""

    tokens: Int64
    amounts: Int64
    longest: Int64
    most: Int64

    @classmethod
    def of(cls, tokens: Int64, amounts: Int64) -> Ordered:
        """Put samples in both orders."""
        return cls(tokens, amounts, descending_order(tokens), descending_order(amounts))


RECIPES = (None, Recipe(0.0, 0.5), Recipe(0.0, 0.12), Recipe(1.0, 0.5), Recipe(1.0, 0.25))


def construct(tokens: Int64, amounts: Int64, capacity: int, fill: float) -> Int32:
    """Return the pack of each sample, (n,), by the recipe with the fullest and most even packs; the first of equals.

    Recipes are compared on every n-th sample of many. What is missing to ``fill`` weighs heavily, a fill above it does
    not count. Every sample fits a pack of its own.
    """
    n, some = len(tokens), min(len(tokens), PORTION)
    portion = np.arange(some) * n // max(some, 1)
    ordered = Ordered.of(tokens[portion], amounts[portion])
    total = int(ordered.tokens.sum())
    least, chosen, packs = inf, None, np.empty(0, dtype=np.int32)
    for recipe in RECIPES:
        pack_of = by_recipe(ordered, capacity, fill, recipe)
        n_packs, variation = _spread(ordered.amounts, pack_of)
        badness = FILL_WEIGHT * max(fill - total / max(n_packs * capacity, 1), 0.0) + variation
        if badness < least:
            least, chosen, packs = badness, recipe, pack_of
    return packs if some == n else by_recipe(Ordered.of(tokens, amounts), capacity, fill, chosen)


def by_recipe(samples: Ordered, capacity: int, fill: float, recipe: Recipe | None) -> Int32:
    """Return the pack of each of ``samples``, (n,), numbered without gaps, as ``recipe`` has it: see `_phases`."""
    if recipe is not None:
        return _phases(*samples, capacity, fill, *recipe)
    pack_of = np.empty(len(samples.tokens), dtype=np.int32)
    pack_of[samples.longest] = best_fit(samples.tokens[samples.longest], capacity)
    return pack_of


@kernel
def _spread(amounts: Int64, pack_of: Int32) -> tuple[int, float]:
    """Return the number of packs, and the standard deviation of their sums divided by the mean; 0.0 where nothing
    varies. Added in order: the same everywhere."""
    sums = np.zeros(len(amounts), dtype=np.int64)
    n_packs = 0
    for i in range(len(amounts)):
        sums[pack_of[i]] += amounts[i]
        n_packs = max(n_packs, pack_of[i] + 1)
    mean = sums.sum() / max(n_packs, 1)
    squares = 0.0
    for pack in range(n_packs):
        squares += (sums[pack] - mean) ** 2
    return n_packs, sqrt(squares / n_packs) / mean if mean > 0 else 0.0


@kernel
def _phases(
    tokens: Int64,
    amounts: Int64,
    longest: Int64,
    most: Int64,
    capacity: int,
    fill: float,
    density: float,
    length: float,
) -> Int32:
    """Build packs in three phases.

    1. The packs needed at ``fill`` are opened, one for each sample above half of the capacity. Long text-like samples
       go, longest first, each into the least full pack: what is hard to place, without amount, spreads.
    2. The others go, largest amount first, each to the pack with the least amount. A pack whose turn it is and that
       lacks the tokens is out: its level is final.
    3. What is left goes, longest first, by best fit, where it can without filling a pack to the brim: a few free
       tokens in every pack are what later exchanges live on.

    O(n log n). Ties: lower sample, then lower pack.
    """
    total = tokens.sum()
    n_long = 0
    while n_long < len(tokens) and 2 * tokens[longest[n_long]] > capacity:
        n_long += 1
    asked = int(min(total / (fill * capacity), len(tokens)))  # not emptier than asked for, and no pack without samples
    n_packs = max(asked, -(-total // capacity), n_long)
    text_at_most = density * (amounts.sum() / max(total, 1))
    textlike = amounts <= text_at_most * tokens
    pack_of = np.full(len(tokens), -1, dtype=np.int32)
    used, level = np.zeros(n_packs, dtype=np.int64), np.zeros(n_packs, dtype=np.int64)
    for pack in range(n_long):
        i = longest[pack]
        pack_of[i], used[pack], level[pack] = pack, tokens[i], amounts[i]
    first = textlike & (tokens > length * capacity)
    _least_full(tokens, amounts, longest[first[longest]], capacity, pack_of, used, level)
    _least_amount(tokens, amounts, most[~textlike[most]], capacity, pack_of, used, level)
    rest = longest[pack_of[longest] < 0]
    spare = int((1 - fill) * capacity / 2)
    into = best_fit_into(tokens[rest], capacity, capacity - used, spare)
    for k in range(len(rest)):
        pack_of[rest[k]] = into[k]
    return _without_gaps(pack_of, n_packs + len(rest))


@kernel
def _least_full(
    tokens: Int64, amounts: Int64, turn: Int64, capacity: int, pack_of: Int32, used: Int64, level: Int64
) -> None:
    """Put each sample in ``turn`` into the pack with the fewest tokens; stop where the emptiest lacks the room."""
    n_packs = len(used)
    bits = _bit_length(n_packs)
    emptiest = heaviest_first(-used)
    heap = (used[emptiest] << bits) | emptiest
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
    tokens: Int64, amounts: Int64, turn: Int64, capacity: int, pack_of: Int32, used: Int64, level: Int64
) -> None:
    """Put each sample in ``turn`` into the pack with the least amount; a pack that lacks the room leaves for good."""
    size = len(used)
    bits = _bit_length(size)
    lowest = heaviest_first(-level)
    heap = (level[lowest] << bits) | lowest
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
def _bit_length(number: int) -> int:
    bits = 0
    while number >> bits > 0:
        bits += 1
    return bits


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
