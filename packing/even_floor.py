"""How even packs can be at best: a proven lower bound on the variation of an amount per pack."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Int64, as_int, as_int64, exact_sum
from .errors import InvalidLimits, InvalidSamples
from .jit import kernel

__all__ = ["evenness_floor"]

LARGEST_ROOM = 2**16  # up to here the best contents of a room are worked out; for larger ones density bounds them
FEW = 64  # distinct amounts, and
SHORT = 2**12  # amounts of a full pack, in units of their common divisor, up to which patterns are looked at


class Places(NamedTuple):
    """What any packing offers to the samples: ``low`` and ``high`` (n_packs,) bound the amount of each pack, in units.

    The first ``n_long`` packs belong to one sample each that is longer than half of the capacity.
    """

    low: Int64
    high: Int64
    n_long: int


def evenness_floor(tokens: ArrayLike, amounts: ArrayLike, capacity: int, n_packs: int) -> float:
    """Return a lower bound on the coefficient of variation of ``amounts`` over ``n_packs`` packs of whole samples.

    Proven for every packing of these samples, (n,) each, that has so many packs; the better of two bounds:

    1. Water-filling. A pack with a sample longer than half of the capacity holds at least that sample's amount, and at
       most the best contents of the room beside it (an unbounded knapsack of the others). The other samples, largest
       first, are lower limits of one free pack each: moving one of two that share a pack to a pack without any makes
       the packs no less even. Within these limits whole multiples of the amounts' common divisor are dealt to the
       lowest packs, which is optimal for a separable convex cost (Gross 1956).
    2. Where few distinct amounts occur, the Lagrangian bound over the patterns that fill packs, ignoring tokens but for
       the limits of 1: see `even_patterns`.

    Exact but for float rounding of the result. Raises `InvalidSamples` for samples longer than the capacity,
    `InvalidLimits` for fewer packs than they need.
    O(n log n + room x distinct lengths). Where nothing varies: 0.0.
    """
    remedy = "Amounts are whole numbers >= 0."
    tokens = as_int64("tokens", tokens, InvalidSamples, remedy=remedy)
    amounts = as_int64("amounts", amounts, InvalidSamples, remedy=remedy)
    capacity = as_int("capacity", capacity, InvalidLimits, least=1)
    n_packs = as_int("n_packs", n_packs, InvalidLimits, least=0)
    if len(tokens) != len(amounts) or int(tokens.max(initial=0)) > capacity:
        raise InvalidSamples(
            f"each sample must have tokens, at most {capacity}, and an amount; got {len(tokens)} tokens up to "
            f"{tokens.max(initial=0)} and {len(amounts)} amounts."
        )
    needed = max(-(-int(tokens.sum()) // capacity), int(np.count_nonzero(2 * tokens > capacity)))
    if n_packs < needed:
        raise InvalidLimits(f"the samples need at least {needed} packs of {capacity} tokens; n_packs is {n_packs}.")
    total = int(amounts.sum())
    if n_packs < 2 or not total:
        return 0.0
    divisor = int(np.gcd.reduce(amounts))
    units = amounts // divisor
    places = _places(tokens, units, capacity, n_packs)
    squares = _water_filling(places, total // divisor)
    short = 2 * tokens <= capacity
    if len(np.unique(units[short])) <= FEW and int(places.high.max()) <= SHORT:
        from .even_patterns import pattern_bound

        squares = max(squares, pattern_bound(units[short], places))
    return sqrt(squares / n_packs) / (total // divisor / n_packs)


def _places(tokens: Int64, units: Int64, capacity: int, n_packs: int) -> Places:
    long = 2 * tokens > capacity
    n_long = int(np.count_nonzero(long))
    contents = _contents(tokens[~long], units[~long], capacity)
    low, high = np.zeros(n_packs, dtype=np.int64), np.full(n_packs, contents[-1])
    low[:n_long] = units[long]
    room = np.maximum(capacity - tokens[long], 0)
    scale = -(-capacity // LARGEST_ROOM)
    high[:n_long] = low[:n_long] + contents[-(-room // scale)]
    return Places(low, high, n_long)._replace(low=_with_heaviest(low, n_long, units[~long]))


def _with_heaviest(low: Int64, n_long: int, units: Int64) -> Int64:
    """Give each free pack one of the largest samples as its lower limit."""
    heaviest = np.sort(units)[::-1][: len(low) - n_long]
    low[n_long : n_long + len(heaviest)] = heaviest
    return low


def _contents(tokens: Int64, units: Int64, capacity: int) -> Int64:
    """Return the largest amount in each room, by room in steps of ceil(capacity / LARGEST_ROOM) tokens.

    Lengths are rounded down to steps and rooms up, so that the bound holds. Samples shorter than a step may all be in
    any room. No room holds more than all samples do.
    """
    scale, most_units = -(-capacity // LARGEST_ROOM), int(units.sum())
    steps = tokens // scale
    some = steps > 0
    best = _best_contents(steps[some], units[some], -(-capacity // scale), most_units)
    return np.minimum(best + int(units[~some].sum()), most_units)


def _water_filling(places: Places, total: int) -> float:
    """Return the least sum of squared distances from the mean, in squared units."""
    low, high, _ = places
    below, above = 0, max(total, 1)
    while above - below > 1:
        level = (below + above) // 2
        below, above = (level, above) if exact_sum(np.clip(level, low, high)) <= total else (below, level)
    filled = np.clip(below, low, high)
    left = total - int(filled.sum())
    filled[np.flatnonzero((low <= below) & (below < high))[:left]] += 1
    return float(((filled - total / len(low)) ** 2).sum())


@kernel
def _best_contents(tokens: Int64, units: Int64, largest: int, most_units: int) -> Int64:
    """Return the most units in every room 0 to ``largest``, each sample as often as one likes up to ``most_units``."""
    most_of = np.zeros(largest + 1, dtype=np.int64)
    for i in range(len(tokens)):
        most_of[tokens[i]] = max(most_of[tokens[i]], units[i])
    front = np.empty(largest, dtype=np.int64)  # lengths that hold more than every shorter one
    n_front, most = 0, 0
    for length in range(1, largest + 1):
        if most_of[length] > most:
            most = most_of[length]
            front[n_front] = length
            n_front += 1
    best = np.zeros(largest + 1, dtype=np.int64)
    for room in range(1, largest + 1):
        best[room] = best[room - 1]
        for k in range(n_front):
            if front[k] > room:
                break
            best[room] = max(best[room], min(best[room - front[k]] + most_of[front[k]], most_units))
    return best
