"""Filling pack by pack: the subset of the pieces left that leaves the least room."""

from __future__ import annotations

import numpy as np

from .arrays import Int32, Int64
from .jit import kernel

__all__ = ["fill_packs", "least_slack"]


@kernel
def fill_packs(falling: Int64, capacity: int, nodes: int) -> Int32:
    """Pack of each piece, (n,): the longest piece left opens a pack, and the subset that fills it best joins.

    Also: minimum bin slack (Gupta & Ho 1999; Fleszar & Hindi 2002). At most ``nodes`` of the search per pack.
    """
    n = n_left = len(falling)
    left, values = np.arange(n), falling.copy()
    suffix = np.empty(n + 1, dtype=np.int64)
    chosen, best_chosen = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    pack_of = np.empty(n, dtype=np.int32)
    pack = 0
    while n_left > 0:
        suffix[n_left] = 0
        for i in range(n_left - 1, -1, -1):
            suffix[i] = suffix[i + 1] + values[i]
        n_chosen = least_slack(values, suffix, n_left, capacity - values[0], nodes, chosen, best_chosen)
        best_chosen[n_chosen] = n_left  # a sentinel, behind the last
        pack_of[left[0]] = pack
        kept, taken = 0, 0
        for i in range(1, n_left):
            if best_chosen[taken] == i:
                taken += 1
                pack_of[left[i]] = pack
            else:
                left[kept], values[kept] = left[i], values[i]
                kept += 1
        n_left = kept
        pack += 1
    return pack_of


@kernel
def least_slack(values: Int64, suffix: Int64, n: int, room: int, nodes: int, chosen: Int64, best_chosen: Int64) -> int:
    """Choose from ``values[1:n]``, falling, the subset that leaves the least of ``room``.

    Writes its places into ``best_chosen`` and returns their number. Depth first, heaviest first; a branch ends where
    taking all that is left, ``suffix``, could not improve on the best.
    """
    slack = best = room
    depth, n_best, i = 0, 0, 1
    while best > 0 and nodes > 0:
        nodes -= 1
        low, high = i, n  # the first value that fits
        while low < high:
            middle = (low + high) // 2
            if values[middle] > slack:
                low = middle + 1
            else:
                high = middle
        i = low
        if i >= n or slack - suffix[i] >= best:
            if depth == 0:
                break
            depth -= 1
            i = chosen[depth]
            slack += values[i]
            value = values[i]
            while i < n and values[i] == value:  # another of the same load leads to the same
                i += 1
            continue
        chosen[depth] = i
        depth += 1
        slack -= values[i]
        i += 1
        if slack < best:
            best, n_best = slack, depth
            best_chosen[:depth] = chosen[:depth]
    return n_best
