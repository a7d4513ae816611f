"""Histogram packing by non-negative least squares: how often each full pattern of a few lengths is used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Int32, Int64, as_int, descending_order
from .base import Packer
from .best_fit import best_fit_refusal
from .errors import InvalidParameter
from .jit import kernel
from .kernels import best_fit_into
from .policies import Pieces
from .samples import Limits, Samples

__all__ = ["NonNegativeLeastSquares", "least_squares", "patterns"]

MOST_UNITS = 1024
PARTS = 3  # of a pattern at most
SHORT, LIGHT = 64, 0.09  # pieces below 1/64 of a pack fit anywhere: what is missing of them weighs little
SWEEPS, CLOSE = 500, 1e-3  # sweeps at most, and the change in packs at which they end


@dataclass(frozen=True)
class NonNegativeLeastSquares(Packer):
    """Count how many packs of each pattern of up to three lengths reproduce the histogram, round, and fill them.

    Also: NNLSHP, non-negative least squares histogram packing (Krell et al. 2021). Lengths are rounded up to ``units``
    of a pack, patterns fill a pack exactly, and the number of each minimises the squared distance between the pieces
    they take and those that there are. A pattern is used while there are pieces for all of it. What is left goes, from
    longest to shortest, by best fit into the room that rounding up has left, then into new packs.

    Guarantee: none. The least squares are solved by coordinate descent in plain loops, the same on every machine.
    O(sweeps x units**2 / 12) beside sorting. Ties: longer, then lower index. One limit: the tokens. Made for samples of
    about half a pack; where more than three fill one, what is left is most, and `BestFitDecreasing` is fuller.
    """

    units: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        as_int("NonNegativeLeastSquares.units", self.units, InvalidParameter, least=1, most=MOST_UNITS)

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return best_fit_refusal(limits)

    def group(self, pieces: Pieces) -> Int32:
        lengths, capacity = pieces.sizes[:, 0], int(pieces.caps[0])
        units = min(self.units, capacity)
        order = descending_order(lengths)
        bucket = -(-lengths[order] * units // capacity)  # falling, 1 to units
        histogram = np.bincount(bucket, minlength=units + 1)
        each = patterns(units)
        used = np.rint(least_squares(each, histogram, _weights(units))).astype(np.int64)
        filled = fill_patterns(each, used, bucket, histogram)
        return _with_the_rest(filled, lengths[order], order, capacity)


@kernel
def patterns(units: int) -> Int64:
    """Return all falling rows of up to three lengths that sum to ``units``, 0 for none, (n, 3)."""
    rows = np.empty((units * (units + 6) // 12 + 2, PARTS), dtype=np.int64)
    n = 0
    for longest in range(units, 0, -1):
        for middle in range(min(longest, units - longest), -1, -1):
            shortest = units - longest - middle
            if shortest > middle:
                break
            rows[n, 0], rows[n, 1], rows[n, 2] = longest, middle, shortest
            n += 1
    return rows[:n].copy()


@kernel
def least_squares(patterns: Int64, histogram: Int64, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x >= 0 that minimises the sum over lengths of weight x (what there is - what x patterns take)**2.

    Coordinate descent: each x in turn to its own best value, until no sweep changes one by a thousandth.
    """
    n = len(patterns)
    x = np.zeros(n)
    missing = histogram.astype(np.float64)
    curvature = np.zeros(n)
    for j in range(n):
        for part in patterns[j]:
            for other in patterns[j]:
                if part > 0 and part == other:
                    curvature[j] += weights[part]
    for _ in range(SWEEPS):
        largest = 0.0
        for j in range(n):
            slope = 0.0
            for part in patterns[j]:
                if part > 0:
                    slope += weights[part] * missing[part]
            step = max(slope / curvature[j], -x[j])
            if step != 0.0:
                x[j] += step
                for part in patterns[j]:
                    if part > 0:
                        missing[part] -= step
                largest = max(largest, abs(step))
        if largest < CLOSE:
            break
    return x


@kernel
def fill_patterns(patterns: Int64, used: Int64, bucket: Int64, histogram: Int64) -> Int32:
    """Pack of each piece, (n,): pattern j up to ``used[j]`` times while there are pieces for it; -1 for the others.

    ``bucket`` is the falling length of each piece in units, ``histogram`` the number of pieces of each.
    """
    left = histogram.copy()
    place = np.zeros(len(histogram), dtype=np.int64)
    for length in range(len(histogram) - 2, -1, -1):
        place[length] = place[length + 1] + histogram[length + 1]
    pack_of = np.full(len(bucket), -1, dtype=np.int32)
    pack = 0
    for j in range(len(patterns)):
        for _ in range(used[j]):
            for part in patterns[j]:
                if part > 0:
                    left[part] -= 1
            short = False
            for part in patterns[j]:
                short |= part > 0 and left[part] < 0
            if short:
                for part in patterns[j]:
                    if part > 0:
                        left[part] += 1
                break
            for part in patterns[j]:
                if part > 0:
                    pack_of[place[part]] = pack
                    place[part] += 1
            pack += 1
    return pack_of


def _weights(units: int) -> NDArray[np.float64]:
    """Return the weight of each length, (units + 1,)."""
    return np.where(np.arange(units + 1) * SHORT <= units, LIGHT**2, 1.0)


def _with_the_rest(pack_of: Int32, falling: Int64, order: Int64, capacity: int) -> Int32:
    """Return the pack of each piece by index, (n,): those with -1 go by best fit beside the others, or are new."""
    placed = pack_of >= 0
    n_packs = int(pack_of.max(initial=-1)) + 1
    rooms = capacity - np.bincount(pack_of[placed], falling[placed], minlength=n_packs).astype(np.int64)
    pack_of[~placed] = best_fit_into(falling[~placed], capacity, rooms, 0)
    result = np.empty_like(pack_of)
    result[order] = pack_of
    return result
