"""Bins whose groups of packs can be exchanged: sorted sums of groups, and the best exchange between two bins."""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np

from packing.arrays import Int32, Int64
from packing.jit import kernel

__all__ = [
    "EQUAL_EXCHANGES",
    "EXCHANGES",
    "FIRST_EQUAL",
    "FIRST_EXCHANGE",
    "LARGEST",
    "LARGEST_GROUP",
    "N_GROUPS",
    "Bins",
    "allowed",
    "closest_exchange",
    "equal_exchange",
    "exchange",
    "fill_bins",
    "make_groups",
]

MOST_ACTIVE = 64  # packs of a bin that take part; of fuller bins an even choice over their sizes
LARGEST_GROUP = 4  # packs of one bin that can be exchanged at once
MOST_GROUPS = 600  # of one size in one bin: bins with more do without groups of that size

# for n packs in a bin: number of groups of k, and where they begin in the bin's list (groups of 0, 1, 2, ... in turn)
CHOOSE = np.array([[comb(n, k) for k in range(LARGEST_GROUP + 1)] for n in range(MOST_ACTIVE + 1)])
N_GROUPS = np.where(CHOOSE <= MOST_GROUPS, CHOOSE, 0)
FIRST_GROUP = np.cumsum(N_GROUPS, axis=1) - N_GROUPS
LARGEST = np.count_nonzero(N_GROUPS, axis=1) - 1  # size of the largest groups that n packs are listed in

# (packs given, packs taken): all exchanges, by the size of the larger group; of equal groups only, for fixed counts
EXCHANGES = np.array(
    [
        pair
        for k in range(1, LARGEST_GROUP + 1)
        for pair in [(k, k), *((a, b) for less in range(1, k) for a, b in ((k, k - less), (k - less, k))), (k, 0)]
    ]
)
EQUAL_EXCHANGES = np.array([(k, k) for k in range(1, LARGEST_GROUP + 1)])
FIRST_EXCHANGE = np.searchsorted(EXCHANGES.max(axis=1), np.arange(LARGEST_GROUP + 2))  # by larger group
FIRST_EQUAL = np.searchsorted(EQUAL_EXCHANGES.max(axis=1), np.arange(LARGEST_GROUP + 2))


class Bins(NamedTuple):
    """Bins during the search; b is a bin.

    ``packs[b, :size[b]]``, lightest first, are those that take part, ``value`` their loads; ``load`` and ``used`` count
    all packs of the bin. ``sums[b]`` holds the sums of its groups, ascending within each size of group, ``codes[b]``
    the places of their packs, 6 bits each; both are made when first needed, for groups of up to ``made[b]`` packs.
    """

    packs: Int32
    value: Int64
    size: Int64
    load: Int64
    used: Int64
    sums: Int64
    codes: Int32
    made: Int64


@kernel
def fill_bins(loads: Int64, order: Int64, bin_of: Int32, n_bins: int, fewest: int, most: int, largest: int) -> Bins:
    """Fill the bins, with places for more packs unless counts are fixed.

    Packs without load take part only where a bin may hold too few or too many packs: there they make room for others.
    """
    n = len(order)
    least = 1 if fewest == 0 and most >= n else 0  # load of what takes part
    load = np.zeros(n_bins, dtype=np.int64)
    used = np.zeros(n_bins, dtype=np.int64)
    willing = np.zeros(n_bins, dtype=np.int64)
    for pack in range(n):
        load[bin_of[pack]] += loads[pack]
        used[bin_of[pack]] += 1
        willing[bin_of[pack]] += loads[pack] >= least
    width = min(willing.max() + (4 if fewest < most else 0), MOST_ACTIVE)
    packs = np.empty((n_bins, width), dtype=np.int32)
    value = np.empty((n_bins, width), dtype=np.int64)
    size = np.zeros(n_bins, dtype=np.int64)
    seen = np.zeros(n_bins, dtype=np.int64)
    for at in range(n - 1, -1, -1):
        pack = order[at]
        if loads[pack] >= least:
            bin_ = bin_of[pack]
            part = min(willing[bin_], width)
            if seen[bin_] * part // willing[bin_] == size[bin_] and size[bin_] < part:
                packs[bin_, size[bin_]] = pack
                value[bin_, size[bin_]] = loads[pack]
                size[bin_] += 1
            seen[bin_] += 1
    length = 0
    for n_active in range(width + 1):
        length = max(length, FIRST_GROUP[n_active, largest] + N_GROUPS[n_active, largest])
    sums = np.empty((n_bins, length), dtype=np.int64)
    codes = np.empty((n_bins, length), dtype=np.int32)
    sums[:, 0] = 0  # the empty group
    codes[:, 0] = 0
    return Bins(packs, value, size, load, used, sums, codes, np.zeros(n_bins, dtype=np.int64))


@kernel
def allowed(bins: Bins, bin_: int, other: int, give: int, take: int, fewest: int, most: int) -> bool:
    """Whether both bins have groups of these sizes, and hold neither too few nor too many packs afterwards."""
    if N_GROUPS[bins.size[bin_], give] == 0 or N_GROUPS[bins.size[other], take] == 0:
        return False
    grows = take - give  # bin_ by so many, other by minus that
    width = bins.packs.shape[1]
    return bool(
        fewest <= bins.used[bin_] + grows <= most
        and fewest <= bins.used[other] - grows <= most
        and bins.size[bin_] + grows <= width
        and bins.size[other] - grows <= width
    )


@kernel
def make_groups(bins: Bins, bin_: int, k: int) -> int:
    """Make the sums of groups of up to ``k`` packs of a bin; return the steps it took.

    Pack by pack: the groups of j among t + 1 packs are those among t packs, and those of j - 1 among t packs with the
    new pack added. Both are sorted, so a merge from the back, in place, keeps all sizes of groups sorted.
    """
    if bins.made[bin_] >= k:
        return 0
    bins.made[bin_] = k
    n, steps = bins.size[bin_], 0
    sums, codes = bins.sums[bin_], bins.codes[bin_]
    for t in range(n):
        added = bins.value[bin_, t]
        for j in range(min(k, t + 1), 0, -1):
            if N_GROUPS[n, j] == 0:
                continue
            first, smaller = FIRST_GROUP[n, j], FIRST_GROUP[n, j - 1]
            i = first + CHOOSE[t, j] - 1
            p = smaller + CHOOSE[t, j - 1] - 1
            out = first + CHOOSE[t + 1, j] - 1
            while p >= smaller:
                grown = sums[p] + added
                if i >= first and sums[i] > grown:
                    sums[out], codes[out] = sums[i], codes[i]
                    i -= 1
                else:
                    sums[out], codes[out] = grown, codes[p] << 6 | t
                    p -= 1
                out -= 1
                steps += 1
    return steps


@kernel
def closest_exchange(
    bins: Bins, bin_: int, other: int, give: int, take: int, best: int, target: int
) -> tuple[int, int, int, int]:
    """Find the groups to exchange so that the fuller of two bins becomes least full.

    Returns its load, at most ``best``, the groups' places in the lists of ``bin_`` (the heavier) and ``other``, and the
    steps taken. Two pointers: while the difference moved is too small the given group grows, else the taken one does.
    """
    heavy, light = bins.load[bin_], bins.load[other]
    given, taken = bins.sums[bin_], bins.sums[other]
    i = FIRST_GROUP[bins.size[bin_], give]
    j = FIRST_GROUP[bins.size[other], take]
    i_end = i + N_GROUPS[bins.size[bin_], give]
    j_end = j + N_GROUPS[bins.size[other], take]
    best_i, best_j, start = i, j, i + j
    while i < i_end and j < j_end:
        moved = given[i] - taken[j]
        left, right = heavy - moved, light + moved
        peak = max(left, right)
        if peak < best:
            best, best_i, best_j = peak, i, j
            if best <= target:
                break
        grow = int(left > right)  # without a branch, which would be a coin toss
        i += grow
        j += 1 - grow
    return best, best_i, best_j, i + j - start


@kernel
def equal_exchange(bins: Bins, bin_: int, other: int, k: int, moved: int) -> tuple[int, int, int]:
    """Find groups of ``k`` packs, one of each bin, whose sums differ by ``moved`` exactly.

    Returns their places in the lists of ``bin_`` and ``other``, -1 if there are none, and the steps taken.
    """
    given, taken = bins.sums[bin_], bins.sums[other]
    i, j = FIRST_GROUP[bins.size[bin_], k], FIRST_GROUP[bins.size[other], k]
    i_end, j_end, start = i + N_GROUPS[bins.size[bin_], k], j + N_GROUPS[bins.size[other], k], i + j
    while i < i_end and j < j_end:
        short = given[i] - taken[j] - moved
        if short == 0:
            return i, j, i + j - start
        grow = int(short < 0)
        i += grow
        j += 1 - grow
    return -1, -1, i + j - start


@kernel
def exchange(bins: Bins, bin_: int, other: int, give: int, take: int, given: int, taken: int) -> None:
    """Exchange two groups, by their codes; the packs of both bins stay sorted."""
    out = np.empty(give, dtype=np.int32)
    back = np.empty(take, dtype=np.int32)
    out_value = np.empty(give, dtype=np.int64)
    back_value = np.empty(take, dtype=np.int64)
    _remove(bins, bin_, given, out, out_value)
    _remove(bins, other, taken, back, back_value)
    _insert(bins, other, out, out_value)
    _insert(bins, bin_, back, back_value)


@kernel
def _remove(bins: Bins, bin_: int, code: int, out: Int32, out_value: Int64) -> None:
    """Take the packs of a group out of a bin. The code lists their places from the last to the first."""
    packs, value = bins.packs[bin_], bins.value[bin_]
    for k in range(len(out)):
        place = code & 63
        code >>= 6
        out[k], out_value[k] = packs[place], value[place]
        bins.size[bin_] -= 1
        for later in range(place, bins.size[bin_]):
            packs[later], value[later] = packs[later + 1], value[later + 1]
        bins.load[bin_] -= out_value[k]
        bins.used[bin_] -= 1
    bins.made[bin_] = 0


@kernel
def _insert(bins: Bins, bin_: int, new: Int32, new_value: Int64) -> None:
    """Put packs into a bin, each at its place."""
    packs, value = bins.packs[bin_], bins.value[bin_]
    for k in range(len(new)):
        place = bins.size[bin_]
        while place > 0 and value[place - 1] > new_value[k]:
            packs[place], value[place] = packs[place - 1], value[place - 1]
            place -= 1
        packs[place], value[place] = new[k], new_value[k]
        bins.size[bin_] += 1
        bins.load[bin_] += new_value[k]
        bins.used[bin_] += 1
    bins.made[bin_] = 0
