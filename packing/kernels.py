"""The compiled loops of packing: the bin-packing rules that packers and balancers share."""

from __future__ import annotations

import numpy as np

from .arrays import Int32, Int64
from .bitset import add, empty_set, remove, smallest_from
from .jit import kernel

__all__ = [
    "best_fit",
    "best_fit_into",
    "first_fit",
    "next_fit",
    "padded",
]


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
def first_fit(sizes: Int32 | Int64, capacity: int) -> Int32:
    """Pack of each piece in turn: the lowest-numbered pack with room. O(n log n).

    A binary tree over packs holds the largest room below each node; packs that are not open yet have full room, so a
    descent to the left wherever the room suffices ends at the first fit. A piece no shorter than the one before fits
    in no pack left of that one's, so its search starts there. At most one pack is half empty: that bounds their number.
    """
    n = len(sizes)
    leaves = 1
    while leaves < min(n, sizes.sum() // (capacity // 2 + 1) + 1):
        leaves *= 2
    room = np.full(2 * leaves, capacity, dtype=np.int64)
    pack_of = np.empty(n, dtype=np.int32)
    node, before = 1, capacity + 1
    for i in range(n):
        size = int(sizes[i])
        if size < before:
            node = 1
        while room[node] < size:  # climb until a subtree to the right has room
            while node % 2 == 1:
                node //= 2
            node += 1
        while node < leaves:
            node *= 2
            if room[node] < size:
                node += 1
        before = size
        pack_of[i] = node - leaves
        room[node] -= size
        above = node // 2
        while above > 0:
            largest = max(room[2 * above], room[2 * above + 1])
            if room[above] == largest:
                break
            room[above] = largest
            above //= 2
    return pack_of


@kernel
def best_fit(sizes: Int32 | Int64, capacity: int) -> Int32:
    """Pack of each piece in turn: the fullest pack with room, the last touched of equally full ones. O(n), see
    `best_fit_into`."""
    return best_fit_into(sizes, capacity, np.empty(0, dtype=np.int64), 0)


@kernel
def best_fit_into(sizes: Int32 | Int64, capacity: int, rooms: Int64, spare: int) -> Int32:
    """As `best_fit`, where packs 0 to len(rooms) - 1 are open already, with these ``rooms`` left.

    A piece goes where at least ``spare`` tokens stay free, if it can: else into a pack that it fills closer, else into
    a new one. Packs of equal room form a stack; a `bitset` over rooms finds the smallest that suffices. O(n) for
    capacities up to 2**18, memory O(n + capacity).
    """
    n, n_packs = len(sizes), len(rooms)
    top = np.full(capacity + 1, -1, dtype=np.int32)  # room -> last touched pack with that room
    below = np.empty(n_packs + n, dtype=np.int32)  # pack -> next pack of the same room
    words, summary = empty_set(capacity)  # rooms that some pack has
    for pack in range(n_packs - 1, -1, -1):
        below[pack] = top[rooms[pack]]
        top[rooms[pack]] = pack
        add(words, summary, rooms[pack])
    pack_of = np.empty(n, dtype=np.int32)
    for i in range(n):
        size = int(sizes[i])
        room = smallest_from(words, summary, min(size + spare, capacity))
        if room < 0 and spare > 0:
            room = smallest_from(words, summary, size)
        if room >= 0:
            pack = top[room]
            top[room] = below[pack]
            if top[room] < 0:
                remove(words, summary, room)
        else:
            room, pack = capacity, n_packs
            n_packs += 1
        pack_of[i] = pack
        room -= size
        below[pack] = top[room]
        top[room] = pack
        add(words, summary, room)
    return pack_of
