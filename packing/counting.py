"""Counting instead of sorting: pieces by size, and the members of each group, in passes over arrays."""

from __future__ import annotations

import numpy as np

from .arrays import Int32, Int64
from .jit import kernel

__all__ = [
    "counts_by_size",
    "falling_by_counting",
    "heaviest_first",
    "in_input_order",
    "index",
    "members_and_sums",
    "members_by_group",
    "sums_by_group",
]

index = np.uint64  # of a signed index numba looks whether it is negative, a fifth of the time of these loops


@kernel
def members_by_group(group_of: Int32, n_groups: int, members: Int64) -> Int64:
    """Fill ``members``, (n,), with the indices of all members, those of each group together and ascending. O(n).

    Returns where each group begins in it, (n_groups + 1,). The caller makes the array: numpy asks for huge pages for
    it. Until the end its memory is scratch.
    """
    rank = members.view(np.int32)[: len(group_of)]
    offsets = np.zeros(n_groups + 1, dtype=np.int64)
    counts = offsets[:-1]
    for i in range(len(group_of)):
        group = index(group_of[i])
        rank[i] = counts[group]
        counts[group] += 1
    _by_rank(group_of, rank, offsets, members)
    return offsets


@kernel
def members_and_sums(group_of: Int32, n_groups: int, sizes: Int64, most: int, members: Int64) -> tuple[Int64, Int64]:
    """Return what `members_by_group` does, and the sums of ``sizes`` (n, k) over each group, (n_groups, k). O(n k).

    ``most``: no size of the first column is larger; below 2**31. Where both fit, a group's count and its sum of that
    column are one integer: one place in memory less to jump to, which is what takes the time.
    """
    n, bits = len(group_of), 0
    while (n * most) >> bits > 0:
        bits += 1
    if bits >= 62 or n >> (62 - bits) > 0:
        return members_by_group(group_of, n_groups, members), sums_by_group(sizes, group_of, n_groups)
    rank = members.view(np.int32)[:n]
    offsets = np.zeros(n_groups + 1, dtype=np.int64)
    counts = offsets[:-1]  # each count << bits, and the sum below
    first = sizes[:, 0]
    for i in range(n):
        group = index(group_of[i])
        both = counts[group]
        rank[i] = both >> bits
        counts[group] = both + (1 << bits) + first[i]
    sums = np.zeros((n_groups, sizes.shape[1]), dtype=np.int64)
    for each in range(n_groups):
        sums[each, 0] = counts[each] & ((1 << bits) - 1)
        counts[each] >>= bits
    for k in range(1, sizes.shape[1]):
        for i in range(n):
            sums[index(group_of[i]), k] += sizes[i, k]
    _by_rank(group_of, rank, offsets, members)
    return offsets, sums


@kernel
def _by_rank(group_of: Int32, rank: Int32, offsets: Int64, members: Int64) -> None:
    """Fill ``members``, and turn ``offsets``, which holds the count of each group, into offsets.

    ``rank``: (n,) of each member in its group, in the first half of the memory of ``members``.
    """
    start = offsets.view(np.int32)  # half the memory to jump about in; the last of ``offsets`` holds none
    place = 0
    for group in range(len(offsets)):  # rising: what is written over has been read
        count = offsets[group]
        start[group] = place
        place += count
    short = members.view(np.int32)[len(rank) :]  # half as well: members as int32, in the second half of their own place
    for i in range(len(rank)):
        short[index(start[index(group_of[i])] + rank[i])] = i
    for i in range(len(short)):  # rising again
        members[i] = short[i]
    for group in range(len(offsets) - 1, -1, -1):  # and falling
        offsets[group] = start[group]


@kernel
def sums_by_group(sizes: Int64, group_of: Int32, n_groups: int) -> Int64:
    """Return the sums of ``sizes`` (n, k) over each group, (n_groups, k). O(n k)."""
    sums = np.zeros((n_groups, sizes.shape[1]), dtype=np.int64)
    for k in range(sizes.shape[1]):
        for i in range(len(sizes)):
            sums[index(group_of[i]), k] += sizes[i, k]
    return sums


@kernel
def counts_by_size(sizes: Int64, largest: int) -> Int64:
    """Return how many pieces have each size, (largest + 1,). Every size is in [0, largest]."""
    counts = np.zeros(largest + 1, dtype=np.int64)
    for i in range(len(sizes)):
        counts[index(sizes[i])] += 1
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
        size = index(sizes[i])
        result[i] = values[index(place[size])]
        place[size] += 1
    return result


@kernel
def heaviest_first(values: Int64) -> Int64:
    """Return the indices from the largest value to the smallest, equal ones by index: radix sort, O(n) per 8 bits."""
    n = len(values)
    if n == 0:
        return np.empty(0, dtype=np.int64)
    keys, order = values.max() - values, np.arange(n)
    moved = np.empty(n, dtype=np.int64)
    shift, largest = 0, keys.max()
    while shift < 63 and largest >> shift > 0:  # a processor shifts by 64 as by 0
        start = np.zeros(257, dtype=np.int64)
        for i in order:
            start[((keys[i] >> shift) & 255) + 1] += 1
        for digit in range(256):
            start[digit + 1] += start[digit]
        for i in order:
            digit = (keys[i] >> shift) & 255
            moved[start[digit]] = i
            start[digit] += 1
        order, moved = moved, order
        shift += 8
    return order
