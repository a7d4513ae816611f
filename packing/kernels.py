"""The compiled loops of packing: grouping by counting, and the bin-packing rules that packers and balancers share."""

from __future__ import annotations

import numpy as np

from .arrays import Int32, Int64
from .jit import kernel, trailing_zeros

__all__ = ["best_fit", "descending_by_counting", "first_fit", "members_by_group", "next_fit", "padded"]


@kernel
def members_by_group(group_of: Int32, n_groups: int) -> tuple[Int64, Int64]:
    """Return ``offsets`` (n_groups + 1,) and ``members`` (n,): the indices of each group, ascending. O(n)."""
    offsets = np.zeros(n_groups + 1, dtype=np.int64)
    for group in group_of:
        offsets[group + 1] += 1
    for group in range(n_groups):
        offsets[group + 1] += offsets[group]
    free = offsets[:-1].copy()
    members = np.empty(len(group_of), dtype=np.int64)
    for i in range(len(group_of)):
        group = group_of[i]
        members[free[group]] = i
        free[group] += 1
    return offsets, members


@kernel
def descending_by_counting(sizes: Int64, largest: int) -> Int64:
    """Return the indices of ``sizes`` (each in [0, largest]) from largest to smallest, equal ones by index."""
    place = np.zeros(largest + 2, dtype=np.int64)
    for size in sizes:
        place[size] += 1
    start = 0
    for size in range(largest, -1, -1):
        count = place[size]
        place[size] = start
        start += count
    order = np.empty(len(sizes), dtype=np.int64)
    for i in range(len(sizes)):
        size = sizes[i]
        order[place[size]] = i
        place[size] += 1
    return order


@kernel
def next_fit(sizes: Int64, caps: Int64) -> Int32:
    """Pack of each piece; ``sizes`` is (n, k) and ``caps`` (k,). One pack is open at a time. O(n k)."""
    n, k = sizes.shape
    pack_of = np.empty(n, dtype=np.int32)
    used = np.zeros(k, dtype=np.int64)
    pack = 0
    for i in range(n):
        fits = True
        for j in range(k):
            fits &= used[j] + sizes[i, j] <= caps[j]
        if not fits:
            pack += 1
            used[:] = 0
        for j in range(k):
            used[j] += sizes[i, j]
        pack_of[i] = pack
    return pack_of


@kernel
def padded(sizes: Int64, caps: Int64) -> Int32:
    """As `next_fit`, but a pack of c pieces takes up c x its longest piece of the first limit."""
    n, k = sizes.shape
    pack_of = np.empty(n, dtype=np.int32)
    used = np.zeros(k, dtype=np.int64)
    pack, count, longest = 0, 0, 0
    for i in range(n):
        fits = (count + 1) * max(longest, sizes[i, 0]) <= caps[0]
        for j in range(1, k):
            fits &= used[j] + sizes[i, j] <= caps[j]
        if not fits:
            pack += 1
            count, longest = 0, 0
            used[:] = 0
        for j in range(1, k):
            used[j] += sizes[i, j]
        count += 1
        longest = max(longest, sizes[i, 0])
        pack_of[i] = pack
    return pack_of


@kernel
def first_fit(sizes: Int64, order: Int64, capacity: int) -> Int32:
    """Pack of each piece, taken in ``order``: the lowest-numbered pack with room. O(n log n).

    A binary tree over packs holds the largest room below each node; packs that are not open yet have full room, so a
    descent to the left wherever the room suffices ends at the first fit.
    """
    n = len(order)
    leaves = 1
    while leaves < n:
        leaves *= 2
    room = np.full(2 * leaves, capacity, dtype=np.int64)
    pack_of = np.empty(n, dtype=np.int32)
    for i in order:
        size = sizes[i]
        node = 1
        while node < leaves:
            node *= 2
            if room[node] < size:
                node += 1
        pack_of[i] = node - leaves
        room[node] -= size
        while node > 1:
            node //= 2
            largest = max(room[2 * node], room[2 * node + 1])
            if room[node] == largest:
                break
            room[node] = largest
    return pack_of


@kernel
def best_fit(sizes: Int64, order: Int64, capacity: int) -> Int32:
    """Pack of each piece, taken in ``order``: the fullest pack with room, the last touched of equally full ones.

    Packs of equal room form a stack; a bitset over rooms, with a second one over its words, finds the smallest room
    that suffices. O(n) for capacities up to 2**18, memory O(n + capacity).
    """
    n = len(order)
    top = np.full(capacity + 1, -1, dtype=np.int32)  # room -> last touched pack with that room
    below = np.empty(n, dtype=np.int32)  # pack -> next pack of the same room
    words = np.zeros((capacity >> 6) + 1, dtype=np.uint64)  # bit per room that some pack has
    summary = np.zeros((capacity >> 12) + 1, dtype=np.uint64)  # bit per word that is not zero
    one, full, low = np.uint64(1), ~np.uint64(0), np.uint64(63)
    pack_of = np.empty(n, dtype=np.int32)
    n_packs = 0
    for i in order:
        size = sizes[i]
        word = size >> 6
        bits = words[word] & (full << (np.uint64(size) & low))
        if bits == 0 and word + 1 < len(words):
            word += 1
            block = word >> 6
            blocks = summary[block] & (full << (np.uint64(word) & low))
            while blocks == 0 and block + 1 < len(summary):
                block += 1
                blocks = summary[block]
            if blocks != 0:
                word = (block << 6) + trailing_zeros(blocks)
                bits = words[word]
        if bits != 0:
            room = (word << 6) + trailing_zeros(bits)
            pack = top[room]
            top[room] = below[pack]
            if top[room] < 0:
                words[word] &= ~(one << (np.uint64(room) & low))
                if words[word] == 0:
                    summary[word >> 6] &= ~(one << (np.uint64(word) & low))
        else:
            room, pack = capacity, n_packs
            n_packs += 1
        pack_of[i] = pack
        room -= size
        below[pack] = top[room]
        top[room] = pack
        words[room >> 6] |= one << (np.uint64(room) & low)
        summary[room >> 12] |= one << (np.uint64(room >> 6) & low)
    return pack_of
