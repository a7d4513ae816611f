"""The compiled loops of packing: grouping by counting, and the bin-packing rules that packers and balancers share."""

from __future__ import annotations

import numpy as np

from .arrays import Int32, Int64
from .bitset import add, empty_set, remove, smallest_from
from .jit import kernel

__all__ = [
    "best_fit",
    "best_fit_into",
    "counts_by_size",
    "falling_by_counting",
    "first_fit",
    "in_input_order",
    "members_and_sums",
    "members_of",
    "next_fit",
    "offsets_of",
    "padded",
    "sums_by_group",
]


@kernel
def offsets_of(group_of: Int32, n_groups: int) -> Int64:
    """Return where each group begins once its members stand together, (n_groups + 1,). O(n)."""
    counts = np.zeros(n_groups, dtype=np.int32)  # half the memory to jump about in
    for group in group_of:
        counts[group] += 1
    offsets = np.zeros(n_groups + 1, dtype=np.int64)
    for group in range(n_groups):
        offsets[group + 1] = offsets[group] + counts[group]
    return offsets


@kernel
def members_of(group_of: Int32, offsets: Int64, members: Int64) -> Int64:
    """Fill and return ``members``, (n,): the indices of all members, those of each group together and ascending. O(n).

    The caller makes the array: numpy asks for huge pages for it, and without them this is twice as slow.
    """
    place = offsets.astype(np.int32)
    short = np.empty(len(group_of), dtype=np.int32)  # half the memory to jump about in
    for i in range(len(group_of)):
        group = group_of[i]
        short[place[group]] = i
        place[group] += 1
    for i in range(len(short)):
        members[i] = short[i]
    return members


@kernel
def sums_by_group(sizes: Int64, group_of: Int32, n_groups: int) -> Int64:
    """Return the sums of ``sizes`` (n, k) over each group, (n_groups, k). O(n k)."""
    sums = np.zeros((n_groups, sizes.shape[1]), dtype=np.int64)
    for k in range(sizes.shape[1]):
        for i in range(len(sizes)):
            sums[group_of[i], k] += sizes[i, k]
    return sums


@kernel
def members_and_sums(group_of: Int32, offsets: Int64, sizes: Int64, most: int, members: Int64) -> Int64:
    """Fill ``members`` as `members_of` does, and return the sums of ``sizes`` (n, k) over each group, (n_groups, k).

    ``most``: no size of the first column is larger; below 2**31. Where both fit, a group's next place and its sum of
    that column are one integer: one place in memory less to jump to, which is what takes the time. O(n k).
    """
    n, n_groups = len(group_of), len(offsets) - 1
    longest, bits = 0, 0
    for group in range(n_groups):
        longest = max(longest, offsets[group + 1] - offsets[group])
    while (longest * most) >> bits > 0:
        bits += 1
    if bits >= 62 or n >> (62 - bits) > 0:
        members_of(group_of, offsets, members)
        return sums_by_group(sizes, group_of, n_groups)
    sums = np.zeros((n_groups, sizes.shape[1]), dtype=np.int64)
    place_and_sum = offsets[:-1] << bits
    short = np.empty(n, dtype=np.int32)
    for i in range(n):
        group = group_of[i]
        both = place_and_sum[group]
        short[both >> bits] = i
        place_and_sum[group] = both + (1 << bits) + sizes[i, 0]
    for i in range(n):
        members[i] = short[i]
    for group in range(n_groups):
        sums[group, 0] = place_and_sum[group] & ((1 << bits) - 1)
    for k in range(1, sizes.shape[1]):
        for i in range(n):
            sums[group_of[i], k] += sizes[i, k]
    return sums


@kernel
def counts_by_size(sizes: Int64, largest: int) -> Int64:
    """Return how many pieces have each size, (largest + 1,). Every size is in [0, largest]."""
    counts = np.zeros(largest + 1, dtype=np.int64)
    for size in sizes:
        counts[size] += 1
    return counts


@kernel
def falling_by_counting(sizes: Int64, largest: int) -> tuple[Int32, Int64]:
    """Return ``falling``, the sizes from largest to smallest, and ``start`` (largest + 1,), where each begins in it.

    Every size is in [0, largest]. O(n + largest).
    """
    start = counts_by_size(sizes, largest)
    falling = np.empty(len(sizes), dtype=np.int32)
    place = 0
    for size in range(largest, -1, -1):
        count = start[size]
        start[size] = place
        falling[place : place + count] = size
        place += count
    return falling, start


@kernel
def in_input_order(values: Int32, sizes: Int64, start: Int64, result: Int32) -> Int32:
    """Undo `falling_by_counting`: ``values`` (n,) are in its order, equal sizes by index; fill ``result``, by index.

    Reads run along ``sizes`` and along each size's values, so no order array is needed, nor a jump per piece.
    """
    place = start.astype(np.int32)
    for i in range(len(sizes)):
        size = sizes[i]
        result[i] = values[place[size]]
        place[size] += 1
    return result


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
