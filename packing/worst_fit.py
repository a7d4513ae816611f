"""Worst fit: the emptiest pack, if it has room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import Int32, Int64
from .base import Packer
from .decreasing import decreasing
from .first_fit import only_tokens
from .heaps import sift_down, sift_up
from .jit import kernel
from .policies import Pieces
from .samples import Limits, Samples

__all__ = ["WorstFit", "WorstFitDecreasing"]


@dataclass(frozen=True)
class WorstFit(Packer):
    """Each piece, in input order, into the emptiest pack; into a new one if it does not fit there. On-line.

    Packs end alike in tokens, and none full: a baseline, and for few packs a balancer. Guarantee: at most 2 OPT - 1
    packs (Johnson 1974), no better than `NextFit`. O(n log n) time, O(n) memory. One limit: the tokens. Ties: the pack
    opened first.
    """

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return only_tokens(limits)

    def group(self, pieces: Pieces) -> Int32:
        return worst_fit(pieces.sizes[:, 0], int(pieces.caps[0]))


@dataclass(frozen=True)
class WorstFitDecreasing(Packer):
    """Worst fit over the pieces from longest to shortest, equal ones by index. Also: WFD.

    Guarantee: as `WorstFit`; in the limit 5/4 OPT packs (Johnson 1974). O(n log n) time, O(n) memory. One limit: the
    tokens.
    """

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return only_tokens(limits)

    def group(self, pieces: Pieces) -> Int32:
        return decreasing(worst_fit, pieces.sizes[:, 0], int(pieces.caps[0]))


@kernel
def worst_fit(sizes: Int32 | Int64, capacity: int) -> Int32:
    """Pack of each piece in turn: the emptiest, the lower of equals; a new one if there is no room. O(n log n)."""
    n, n_packs, bits = len(sizes), 0, 0
    while 1 << bits < n:
        bits += 1
    heap = np.empty(n, dtype=np.int64)  # tokens used, above the number of the pack
    pack_of = np.empty(n, dtype=np.int32)
    for i in range(n):
        size = np.int64(sizes[i])
        if n_packs > 0 and (heap[0] >> bits) + size <= capacity:
            pack_of[i] = heap[0] & ((1 << bits) - 1)
            heap[0] += size << bits
            sift_down(heap, n_packs)
        else:
            pack_of[i] = n_packs
            heap[n_packs] = (size << bits) | n_packs
            sift_up(heap, n_packs)
            n_packs += 1
    return pack_of
