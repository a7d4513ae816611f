"""The compiled loops of packing under several budgets: sizes are (n, k), and a pack must keep all k limits."""

from __future__ import annotations

import numpy as np

from .arrays import Int32, Int64
from .jit import kernel

__all__ = ["bin_centric", "bounded_first_fit", "vector_fit"]

DOT_PRODUCT, SHORTEST_REST = 0, 1


@kernel
def vector_fit(sizes: Int64, caps: Int64, units: Int64, looked_at: int) -> Int32:
    """Pack of each piece in turn: of the first ``looked_at`` packs with room, the one with the least room left over.

    Room left over is the sum over limits of room x ``units``, (k,); ties go to the lower pack. A binary tree over packs
    holds the largest room of each limit below a node; a subtree that lacks any of them is passed by. Usually
    O(n (log n + looked_at)); at worst, where each limit has room but never both, O(n x packs).
    """
    n, k = sizes.shape
    leaves = 1
    while leaves < n:
        leaves *= 2
    room = np.zeros((2 * leaves, k), dtype=np.int64)
    pack_of = np.empty(n, dtype=np.int32)
    n_packs = 0
    for i in range(n):
        chosen, least, seen = -1, 0, 0
        node = 1
        while node > 0 and seen < looked_at:  # depth first, lower packs first
            fits = True
            for j in range(k):
                fits &= room[node, j] >= sizes[i, j]
            if node >= leaves:
                if fits and node - leaves < n_packs:
                    seen += 1
                    left = 0
                    for j in range(k):
                        left += (room[node, j] - sizes[i, j]) * units[j]
                    if chosen < 0 or left < least:
                        chosen, least = node - leaves, left
                fits = False
            if fits:
                node *= 2
            else:  # on to the next subtree to the right
                while node & 1:
                    node >>= 1
                node += node > 0
        if chosen < 0:
            chosen = n_packs
            n_packs += 1
            room[leaves + chosen] = caps
        pack_of[i] = chosen
        node = leaves + chosen
        room[node] -= sizes[i]
        node >>= 1
        while node > 0:
            for j in range(k):
                room[node, j] = max(room[2 * node, j], room[2 * node + 1, j])
            node >>= 1
    return pack_of


@kernel
def bounded_first_fit(sizes: Int64, caps: Int64, units: Int64, most_open: int) -> Int32:
    """Pack of each piece in turn: the first of at most ``most_open`` open packs with room.

    If none has, and all places are taken, the fullest pack (least sum of room x ``units``) is closed for a new one;
    ties close the oldest. O(n x most_open).
    """
    n, k = sizes.shape
    pack_of = np.empty(n, dtype=np.int32)
    room = np.empty((most_open, k), dtype=np.int64)
    number = np.empty(most_open, dtype=np.int32)  # packs in the order they were opened
    n_open, n_packs = 0, 0
    for i in range(n):
        place = -1
        for p in range(n_open):
            fits = True
            for j in range(k):
                fits &= room[p, j] >= sizes[i, j]
            if fits:
                place = p
                break
        if place < 0:
            if n_open == most_open:
                fullest, least = 0, 0
                for p in range(n_open):
                    left = 0
                    for j in range(k):
                        left += room[p, j] * units[j]
                    if p == 0 or left < least:
                        fullest, least = p, left
                for p in range(fullest, n_open - 1):
                    room[p] = room[p + 1]
                    number[p] = number[p + 1]
                n_open -= 1
            place = n_open
            room[place] = caps
            number[place] = n_packs
            n_open += 1
            n_packs += 1
        room[place] -= sizes[i]
        pack_of[i] = number[place]
    return pack_of


@kernel
def bin_centric(sizes: Int64, caps: Int64, units: Int64, first: Int64, rule: int) -> Int32:
    """Fill one pack after the other with the piece that suits its room best, until none fits.

    ``sizes`` come class by class, class c is ``first[c] : first[c + 1]`` with falling sizes; of each class the first
    piece that is left is a candidate, or the last where the first does not fit. Rule 0: the largest dot product of
    size and room, rule 1: the shortest vector of room that remains, both in ``units``. O(n x classes).
    """
    n, k = sizes.shape
    n_classes = len(first) - 1
    scale = units.astype(np.float64)
    head, tail = first[:-1].copy(), first[1:].copy()
    live = np.arange(n_classes)
    pack_of = np.empty(n, dtype=np.int32)
    placed, pack = 0, 0
    room = caps.copy()
    while placed < n:
        chosen, at, best = -1, -1, 0.0
        kept = 0
        for c in live:
            if head[c] == tail[c]:
                continue
            live[kept] = c
            kept += 1
            for i in (head[c], tail[c] - 1):
                fits = True
                value = 0.0
                for j in range(k):
                    fits &= sizes[i, j] <= room[j]
                    if rule == DOT_PRODUCT:
                        value += (sizes[i, j] * scale[j]) * (room[j] * scale[j])
                    else:
                        value -= ((room[j] - sizes[i, j]) * scale[j]) ** 2
                if fits:
                    if chosen < 0 or value > best:
                        chosen, at, best = int(c), int(i), value
                    break
        live = live[:kept]
        if chosen < 0:
            pack += 1
            room[:] = caps
            continue
        pack_of[at] = pack
        room -= sizes[at]
        placed += 1
        if at == head[chosen]:
            head[chosen] += 1
        else:
            tail[chosen] -= 1
    return pack_of
