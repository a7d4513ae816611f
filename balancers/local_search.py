"""Local search on bins: exchange small groups of packs between a heavy bin and a light one.

In rounds: bins are sorted by load, and every bin above the target, heaviest first, looks for the best exchange with one
of the lightest bins that no other has used in this round. Groups grow from one pack upwards when a round no longer
brings most heavy bins to the target. For each pair the sorted sums of both bins' groups are walked with two pointers,
so the best of g x g exchanges costs 2 g steps (after Horowitz & Sahni 1974). Where nothing helps any more, the heaviest
bin tries groups of every size against all others, and at last exchanges its load with a lighter bin: no load changes,
but other groups face the light bins then.
"""

from __future__ import annotations

import numpy as np

from packing.arrays import Int32, Int64
from packing.jit import kernel

from .groups import (
    EQUAL_EXCHANGES,
    EXCHANGES,
    FIRST_EQUAL,
    FIRST_EXCHANGE,
    LARGEST,
    N_GROUPS,
    Bins,
    allowed,
    closest_exchange,
    equal_exchange,
    exchange,
    fill_bins,
    make_groups,
)
from .ordering import falling_order

__all__ = ["iterate", "refine"]

PARTNERS = 4  # light bins that a heavy one looks at in a round; more where bins hold few packs
MOST_KICK_STEPS = 10_000_000  # of all kicks together
KICKS_PER_BUDGET = 20  # a kick may use this part of the budget
MOST_PASSES = 32  # of the heaviest load from bin to bin
STEPS_PER_SORT, STEPS_PER_TRY = 20, 20  # what a round costs per bin, and an attempt beside its comparisons


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
    ``largest``: packs in a group.
    """
    bins = fill_bins(loads, order, bin_of, n_bins, fewest, most, largest)
    _descend(bins, fewest, most, target, budget, largest)
    return _assigned(bins, bin_of)


@kernel
def iterate(
    loads: Int64,
    order: Int64,
    bin_of: Int32,
    n_bins: int,
    fewest: int,
    most: int,
    target: int,
    budget: int,
    largest: int,
    kicks: int,
    seed: int,
) -> Int32:
    """As `refine`; then up to ``kicks`` times disturb the bins, refine them again, and go back if that was worse.

    A kick exchanges one to three packs of the fullest bin with packs of others, by a xorshift generator.
    """
    bins = fill_bins(loads, order, bin_of, n_bins, fewest, most, largest)
    _descend(bins, fewest, most, target, budget, largest)
    best = Bins(
        bins.packs.copy(),
        bins.value.copy(),
        bins.size.copy(),
        bins.load.copy(),
        bins.used.copy(),
        bins.sums,
        bins.codes,
        bins.made,
    )
    peak = bins.load.max()
    state = np.uint64(2 * seed + 1) * np.uint64(0x9E3779B97F4A7C15)
    steps = 0
    for _ in range(kicks):
        if peak <= target or n_bins < 2 or steps > MOST_KICK_STEPS:
            break
        state = _kick(bins, state)
        steps += _descend(bins, fewest, most, max(target, peak - 1), budget // KICKS_PER_BUDGET, largest)
        if bins.load.max() <= peak:
            peak = bins.load.max()
            _copy(bins, best)
        else:
            _copy(best, bins)
    return _assigned(best, bin_of)


@kernel
def _kick(bins: Bins, state: np.uint64) -> np.uint64:
    """Exchange one to three packs of the fullest bin with random packs of random bins; return the generator's state."""
    fullest = int(np.argmax(bins.load))
    state = _next(state)
    for _ in range(1 + state % np.uint64(3)):
        state = _next(state)
        other = int(state % np.uint64(len(bins.load)))
        if other != fullest and bins.size[other] > 0 and bins.size[fullest] > 0:
            state = _next(state)
            given = int(state % np.uint64(bins.size[fullest]))
            state = _next(state)
            taken = int(state % np.uint64(bins.size[other]))
            exchange(bins, fullest, other, 1, 1, given, taken)
    return state


@kernel
def _next(state: np.uint64) -> np.uint64:
    """Xorshift (Marsaglia 2003)."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@kernel
def _copy(source: Bins, to: Bins) -> None:
    """Copy what makes up a state; the lists of groups are made anew."""
    to.packs[:], to.value[:], to.size[:] = source.packs, source.value, source.size
    to.load[:], to.used[:] = source.load, source.used
    to.made[:] = 0


@kernel
def _assigned(bins: Bins, bin_of: Int32) -> Int32:
    """Return the bin of each pack, (n,): that of ``bin_of`` for packs that take no part."""
    result = bin_of.copy()
    for bin_ in range(len(bins.load)):
        for place in range(bins.size[bin_]):
            result[bins.packs[bin_, place]] = bin_
    return result


@kernel
def _descend(bins: Bins, fewest: int, most: int, target: int, budget: int, largest: int) -> int:
    """Exchange groups, in rounds, until no bin is above ``target`` or nothing helps; return the steps taken."""
    n_bins = len(bins.load)
    partners = PARTNERS if bins.packs.shape[1] > 4 else 8 * PARTNERS
    exchanges, first = (EXCHANGES, FIRST_EXCHANGE) if fewest < most else (EQUAL_EXCHANGES, FIRST_EQUAL)
    touched = np.full(n_bins, -1, dtype=np.int64)  # the last round that changed the bin
    group, round_, steps, widened = 1, 0, 0, False
    passes = next_ = 0
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
                for kind in range(first[1 if widened else side], first[side + 1]):
                    a, b = exchanges[kind]
                    if allowed(bins, bin_, other, a, b, fewest, most):
                        steps += make_groups(bins, bin_, a) + make_groups(bins, other, b)
                        peak, i, j, walked = closest_exchange(bins, bin_, other, a, b, best, target)
                        steps += walked
                        if peak < best:
                            best, partner, give, take, given, taken = peak, other, a, b, i, j
            if partner >= 0:
                exchange(bins, bin_, partner, give, take, bins.codes[bin_, given], bins.codes[partner, taken])
                touched[bin_] = touched[partner] = round_
                changed += 1
                reached += best <= target
        if heavy == 0:
            break
        if widened and changed == 0:
            passes += 1
            if passes > MOST_PASSES:
                break
            passed, walked = _pass_on(bins, ranking[0], next_, min(group, LARGEST[bins.size[ranking[0]]]))
            steps += walked
            if passed < 0:
                break
            next_ = passed + 1
        widened = changed == 0 and group == largest  # the heaviest bin alone, against all others
        if 4 * reached < heavy and group < largest:
            group += 1
        round_ += 1
    return steps


@kernel
def _pass_on(bins: Bins, bin_: int, start: int, k: int) -> tuple[int, int]:
    """Let a lighter bin, the first from ``start`` on that can, exchange its load with ``bin_`` by groups of ``k``.

    Return that bin, -1 if there is none, and the steps taken.
    """
    n_bins, steps = len(bins.load), 0
    for offset in range(n_bins):
        other = (start + offset) % n_bins
        gap = bins.load[bin_] - bins.load[other]
        if gap > 0 and N_GROUPS[bins.size[other], k] > 0:
            steps += STEPS_PER_TRY + make_groups(bins, bin_, k) + make_groups(bins, other, k)
            i, j, walked = equal_exchange(bins, bin_, other, k, gap)
            steps += walked
            if i >= 0:
                exchange(bins, bin_, other, k, k, bins.codes[bin_, i], bins.codes[other, j])
                return other, steps
    return -1, steps
