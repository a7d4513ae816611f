"""Shortest pack first: worst fit decreasing over a histogram of lengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import Int32, Int64, descending_order
from .base import Packer
from .heaps import sift_down, sift_up
from .jit import kernel
from .policies import Pieces
from .samples import Limits, Samples

__all__ = ["ShortestPackFirst"]


@dataclass(frozen=True)
class ShortestPackFirst(Packer):
    """Lengths from longest to shortest; all samples of a length at once, one into each of the shortest packs.

    Also: SPFHP, shortest-pack-first histogram packing (Krell et al. 2021); ``Limits.max_samples`` is its depth. Packs
    alike are one entry with a count. A pack that is opened takes all it can at once, where the paper gives it one
    sample: so it is `WorstFitDecreasing` over a histogram, with as many packs. O(different lengths x samples per pack),
    and O(n) for the answer. Two limits: tokens and samples. Ties: the packs opened first; equal lengths by index.
    """

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        if limits.budgets:
            return "it knows two limits, tokens and samples. Use NextFit for budgets, or VectorBestFitDecreasing."
        return None

    def group(self, pieces: Pieces) -> Int32:
        lengths = pieces.sizes[:, 0]
        most_samples = int(pieces.caps[1]) if len(pieces.caps) > 1 else len(lengths)
        order = descending_order(lengths)
        first = np.flatnonzero(np.diff(lengths[order], prepend=-1, append=-2))
        return shortest_pack_first(lengths[order], order, first, int(pieces.caps[0]), most_samples)


@kernel
def shortest_pack_first(falling: Int64, order: Int64, first: Int64, capacity: int, most_samples: int) -> Int32:
    """Pack of each piece. Piece ``order[i]`` has length ``falling[i]``; length l is ``first[l] : first[l + 1]``.

    A kind of pack is a count and a chain of lengths, the one added last first; chains share what they begin with.
    """
    n_lengths, n = len(first) - 1, len(order)
    added, before = np.empty((2, n), dtype=np.int64)  # links: a length, and the link before
    last, count, held = np.empty((3, 2 * n_lengths), dtype=np.int64)  # of each kind of pack: last link, packs, samples
    heap = np.empty(2 * n_lengths, dtype=np.int64)  # kinds that may take a sample: tokens used above the number
    n_links, n_kinds, n_open, bits = 0, 0, 0, 1
    while 1 << bits < 2 * n_lengths:
        bits += 1
    for length in range(n_lengths):
        size, left = falling[first[length]], first[length + 1] - first[length]
        while left > 0:
            fits = n_open > 0 and (heap[0] >> bits) + size <= capacity
            kind = heap[0] & ((1 << bits) - 1) if fits else n_kinds
            if fits and count[kind] <= left:  # all packs of the kind take one
                added[n_links], before[n_links] = length, last[kind]
                last[kind] = n_links
                n_links += 1
                left -= count[kind]
                held[kind] += 1
                heap[0] += size << bits
                if held[kind] == most_samples:
                    n_open -= 1
                    heap[0] = heap[n_open]
                sift_down(heap, n_open)
                continue
            if fits:  # so many packs of the kind take one, and are a new kind
                link, used, n_held, n_each, n_packs = last[kind], heap[0] >> bits, held[kind], 1, left
                count[kind] -= left
            else:  # new packs, each with as many as it can take
                n_each = min(capacity // size, most_samples, left)
                link, used, n_held, n_packs = -1, 0, 0, left // n_each
            for _ in range(n_each):
                added[n_links], before[n_links] = length, link
                link = n_links
                n_links += 1
            last[n_kinds], count[n_kinds], held[n_kinds] = link, n_packs, n_held + n_each
            left -= n_packs * n_each
            if held[n_kinds] < most_samples:
                heap[n_open] = ((used + n_each * size) << bits) | n_kinds
                sift_up(heap, n_open)
                n_open += 1
            n_kinds += 1
    pack_of = np.empty(n, dtype=np.int32)
    place = first.copy()
    pack = 0
    for kind in range(n_kinds):
        link = last[kind]
        while link >= 0:
            length = added[link]
            for k in range(count[kind]):
                pack_of[order[place[length] + k]] = pack + k
            place[length] += count[kind]
            link = before[link]
        pack += count[kind]
    return pack_of
