"""Local search on a finished plan: exchange small groups of packs between a heavy and a light bin."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np

from packing.arrays import Int32, Int64
from packing.jit import kernel

from .base import Balancer
from .bounds import max_of_sums
from .cells import bins_of, cells_of
from .grid import Barrier
from .lpt import LPT
from .ordering import falling_order
from .plan import Assignment, Plan
from .problem import Problem

__all__ = ["Refine", "refine"]

MOST_ACTIVE = 64  # packs of a bin that take part; of fuller bins an even choice over their sizes
LARGEST_GROUP = 4  # packs of one bin that can be exchanged at once
MOST_GROUPS = 600  # of one size in one bin: bins with more do without groups of that size
PARTNERS = 8  # light bins that a heavy one looks at in a round; more where bins hold few packs
STEPS_PER_PACK = 600  # the budget, in comparisons of groups: counted, never timed
STEPS_PER_SORT, STEPS_PER_TRY = 20, 20  # what a round costs per bin, and an attempt beside its comparisons
CLOSE_ENOUGH, SMALL = 100_000, 2_048  # with more packs the search ends within one part in so many of the bound

# for n packs in a bin: number of groups of k, and where they begin in the bin's list (groups of 0, 1, 2, ... in turn)
CHOOSE = np.array([[comb(n, k) for k in range(LARGEST_GROUP + 1)] for n in range(MOST_ACTIVE + 1)])
N_GROUPS = np.where(CHOOSE <= MOST_GROUPS, CHOOSE, 0)
FIRST_GROUP = np.cumsum(N_GROUPS, axis=1) - N_GROUPS
LARGEST = np.count_nonzero(N_GROUPS, axis=1) - 1  # size of the largest groups that n packs are listed in

# (packs given, packs taken) of exchanges whose larger side is k packs: k for k first, the only one with fixed counts
EXCHANGES = np.zeros((LARGEST_GROUP + 1, 2 * LARGEST_GROUP, 2), dtype=np.int64)
for k in range(1, LARGEST_GROUP + 1):
    EXCHANGES[k, : 2 * k] = [
        (k, k),
        *((a, b) for less in range(1, k) for a, b in ((k, k - less), (k - less, k))),
        (k, 0),
    ]


@dataclass(frozen=True)
class Refine(Balancer):
    """Improve the plan of ``inner`` by exchanging groups of up to three packs between pairs of bins.

    In rounds: bins are sorted by load, and every bin above the target, heaviest first, looks for the best exchange with
    one of the lightest bins that no other has used in this round. Groups grow from one pack to three when a round no
    longer brings most heavy bins to the target. For each pair the sorted sums of both bins' groups are walked with two
    pointers, so the best of g x g exchanges costs 2 g steps (the idea is Horowitz & Sahni's, 1974). The search ends at
    the bound, at a local optimum, or at a budget of steps, never by the clock.

    Guarantee: never worse than ``inner``. O(n) steps, about 100 per pack on image loads; O(n) memory. Bins hold as many
    packs as the counts allow throughout. Ties: strict improvement only, the first found.
    """

    inner: Balancer = LPT()

    barriers = frozenset({Barrier.STEP, Barrier.MICRO_STEP})

    def refusal(self, problem: Problem) -> str | None:
        return super().refusal(problem) or self.inner.refusal(problem)

    def assign(self, problem: Problem) -> Assignment:
        plan = self.inner.plan(problem)
        if plan.cost <= plan.lower_bound:
            return Assignment(plan.cell, plan.lower_bound)
        if problem.grid.barrier is Barrier.STEP:
            return Assignment(cells_of(problem, refined(problem, plan.rank, plan.lower_bound)), plan.lower_bound)
        better = Plan(problem, cells_of(problem, refined(problem, plan.cell)))
        return Assignment(min(plan, better, key=lambda each: each.key).cell, plan.lower_bound)


def refined(problem: Problem, bin_of: Int32, limit: int = 0, largest: int = 3) -> Int32:
    """Return ``bin_of`` (n_packs,) after local search with groups of up to ``largest`` packs.

    It ends when no bin is above ``limit``, or above the bound; for many packs by less than one part in `CLOSE_ENOUGH`.
    """
    bins = bins_of(problem)
    bound = max_of_sums(problem.total[problem.heaviest_first[::-1]], *bins)
    close = bound // CLOSE_ENOUGH if problem.n_packs > SMALL else 0  # no difference where loads have a common step
    target = max(limit, bound + close)
    budget = STEPS_PER_PACK * problem.n_packs
    return refine(problem.total, problem.heaviest_first, bin_of, *bins, target, budget, largest)


class _Bins(NamedTuple):
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
def refine(
    loads: Int64,
    order: Int64,
    bin_of: Int32,
    n_bins: int,
    fewest: int,
    most: int,
    target: int,
    budget: int,
    largest: int,
) -> Int32:
    """Exchange groups between bins until none is above ``target``; return the new bin of each pack, (n,).

    ``order``: packs, heaviest first. Every bin keeps ``fewest`` to ``most`` packs. ``budget``: steps of the search.
    """
    result = bin_of.copy()
    bins = _start(loads, order, bin_of, n_bins, fewest < most, largest)
    partners = PARTNERS if bins.packs.shape[1] > 4 else 4 * PARTNERS
    touched = np.full(n_bins, -1, dtype=np.int64)  # the last round that changed the bin
    group, round_, steps, widened = 1, 0, 0, False
    while steps < budget:
        ranking = falling_order(bins.load)
        steps += STEPS_PER_SORT * n_bins
        heavy = reached = changed = 0
        lightest = n_bins - 1
        for place in range(1 if widened else n_bins):
            bin_ = ranking[place]
            if bins.load[bin_] <= target or steps >= budget:
                break
            if touched[bin_] == round_:
                continue
            heavy += 1
            while touched[ranking[lightest]] == round_:
                lightest -= 1
            best, partner, give, take, given, taken = bins.load[bin_], -1, 0, 0, 0, 0
            candidate, tries = lightest, 0
            while candidate > place and best > target and (widened or tries < partners):
                other = ranking[candidate]
                candidate -= 1
                if touched[other] == round_:
                    continue
                if (bins.load[bin_] + bins.load[other] + 1) // 2 >= best:
                    break  # and all others are heavier
                tries += 1
                steps += STEPS_PER_TRY
                side = min(group, LARGEST[bins.size[bin_]])
                if fewest == most:
                    side = min(side, LARGEST[bins.size[other]])
                for kind in range(2 * side if fewest < most else 1):
                    a, b = EXCHANGES[side, kind]
                    if _allowed(bins, bin_, other, a, b, fewest, most):
                        steps += _make_groups(bins, bin_, a) + _make_groups(bins, other, b)
                        peak, i, j, walked = _closest(bins, bin_, other, a, b, best, target)
                        steps += walked
                        if peak < best:
                            best, partner, give, take, given, taken = peak, other, a, b, i, j
            if partner >= 0:
                _exchange(bins, bin_, partner, give, take, bins.codes[bin_, given], bins.codes[partner, taken])
                for changed_bin in (bin_, partner):
                    touched[changed_bin] = round_
                    for place_ in range(bins.size[changed_bin]):
                        result[bins.packs[changed_bin, place_]] = changed_bin
                changed += 1
                reached += best <= target
        if heavy == 0 or (widened and changed == 0):
            break
        widened = changed == 0 and group == largest  # the heaviest bin alone, against all others
        if 4 * reached < heavy and group < largest:
            group += 1
        round_ += 1
    return result


@kernel
def _start(loads: Int64, order: Int64, bin_of: Int32, n_bins: int, free: bool, largest: int) -> _Bins:
    """Fill the bins. With ``free`` counts packs without load stay out, and places for more packs are kept."""
    n = len(order)
    load = np.zeros(n_bins, dtype=np.int64)
    used = np.zeros(n_bins, dtype=np.int64)
    willing = np.zeros(n_bins, dtype=np.int64)
    for pack in range(n):
        load[bin_of[pack]] += loads[pack]
        used[bin_of[pack]] += 1
        willing[bin_of[pack]] += loads[pack] > 0 or not free
    width = min(willing.max() + (4 if free else 0), MOST_ACTIVE)
    packs = np.empty((n_bins, width), dtype=np.int32)
    value = np.empty((n_bins, width), dtype=np.int64)
    size = np.zeros(n_bins, dtype=np.int64)
    seen = np.zeros(n_bins, dtype=np.int64)
    for at in range(n - 1, -1, -1):
        pack = order[at]
        if loads[pack] > 0 or not free:
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
    return _Bins(packs, value, size, load, used, sums, codes, np.zeros(n_bins, dtype=np.int64))


@kernel
def _allowed(bins: _Bins, bin_: int, other: int, give: int, take: int, fewest: int, most: int) -> bool:
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
def _make_groups(bins: _Bins, bin_: int, k: int) -> int:
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
def _closest(
    bins: _Bins, bin_: int, other: int, give: int, take: int, best: int, target: int
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
    best_i, best_j, steps, gap = i, j, 0, heavy - light
    while i < i_end and j < j_end:
        steps += 1
        moved = given[i] - taken[j]
        if moved < gap - moved:
            peak = heavy - moved
            if peak < best:
                best, best_i, best_j = peak, i, j
                if best <= target:
                    break
            i += 1
        else:
            peak = light + moved
            if peak < best:
                best, best_i, best_j = peak, i, j
                if best <= target:
                    break
            j += 1
    return best, best_i, best_j, steps


@kernel
def _exchange(bins: _Bins, bin_: int, other: int, give: int, take: int, given: int, taken: int) -> None:
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
def _remove(bins: _Bins, bin_: int, code: int, out: Int32, out_value: Int64) -> None:
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
def _insert(bins: _Bins, bin_: int, new: Int32, new_value: Int64) -> None:
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
