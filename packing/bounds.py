"""How few packs can do: lower bounds on their number, limit by limit."""

from __future__ import annotations

import numpy as np

from .arrays import Int64
from .errors import InvalidSamples

__all__ = ["fewest_packs"]

MOST_THRESHOLDS = 1_000


def fewest_packs(sizes: Int64, caps: Int64) -> int:
    """Return a lower bound on the number of packs for pieces ``sizes`` (n, k) under limits ``caps`` (k,).

    The largest over the limits of the bound L2 of one limit (Martello & Toth 1990), which is never below the area.
    O(k (n log n)).
    """
    sizes, caps = np.asarray(sizes), np.asarray(caps)
    if sizes.ndim != 2 or caps.shape != sizes.shape[1:]:
        raise InvalidSamples(
            f"sizes must be (n, k), a column per limit, and caps (k,); got shapes {sizes.shape} and {caps.shape}. "
            f"For lengths under one limit: fewest_packs(np.array(lengths)[:, None], np.array([capacity]))."
        )
    if not len(sizes):
        return 0
    return max(1, *(_martello_toth(np.sort(column)[::-1], int(cap)) for column, cap in zip(sizes.T, caps, strict=True)))


def _martello_toth(falling: Int64, cap: int) -> int:
    """L2: for a threshold a <= cap / 2, pieces above cap - a stand alone, those above cap / 2 have a pack each, and
    what lies in [a, cap / 2] fills the room of the latter before it needs more."""
    if not int(falling[0]):
        return 0
    sums = np.concatenate([[0], np.cumsum(falling)])
    n_above_half = _number_above(falling, cap // 2)  # as a float it would be rounded
    small = np.unique(falling[n_above_half:])
    thresholds = np.concatenate([[0], small[:: max(len(small) // MOST_THRESHOLDS, 1)]])
    n_alone = _number_above(falling, cap - thresholds)
    n_down_to = _number_above(falling, thresholds - 1)
    room = (n_above_half - n_alone) * cap - (sums[n_above_half] - sums[n_alone])
    more = np.maximum(-(-(sums[n_down_to] - sums[n_above_half] - room) // max(cap, 1)), 0)
    return int((n_above_half + more).max())


def _number_above(falling: Int64, limit: int | Int64) -> Int64:
    """Return how many of ``falling`` values are above each limit."""
    return np.searchsorted(-falling, -np.asarray(limit), side="left")
