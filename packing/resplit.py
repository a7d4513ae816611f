"""Evening packs out pair by pair: two packs become two others of the same samples, as even as any split makes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import Int32, Int64
from .jit import kernel
from .random import Random, below, seeded
from .splits import SUM_BITS, add_cost, any_as_close, cheapest, closest, double, excess_bits

__all__ = ["even_out"]

POOL = 11  # samples (or rests of packs) that change places freely: 2**POOL splits are tried for each pair
GROUP = 1024  # packs that meet each other only, for a spell of rounds: as many as a cache holds
SPELL = 8


def even_out(
    tokens: Int64,
    amounts: Int64,
    pack_of: Int32,
    aims: Int64,
    capacity: int,
    weights: tuple[float, ...],
    rounds: int,
    seed: tuple[int, int],
) -> Int32:
    """Return packs, (n,), of the same number, as even in ``amounts`` (n, m) as ``rounds`` of new splits make them.

    ``aims``: (n_packs,) what each pack should hold of the first amount, up to a constant; 0 everywhere for equal packs.
    ``weights``: (m,) relative importance of the amounts. ``seed``: (seed, call). Two capacities must fit in 31 bits.

    A round orders the packs by what they hold above their aim, and lets each pack of the lower half meet one of the
    upper half, all at the same random distance. The samples of both are split anew in every way there is (of long
    lists, a random choice of samples moves); of the splits within the capacity the one closest to the aims is kept, of
    equally close ones a random one. So the number of packs, and with it the fill, stays. With several amounts the order
    follows each in turn, distances add up as weighted squares, and equal costs change nothing. Pairs of one amount that
    are within 0.5 % of its mean are passed by and do not count: ``rounds`` is the work of so many full rounds.
    For eight rounds packs stay among about a thousand others from the whole range. If these rounds cut the squared
    deviations by no more than 0.2 %, they were the last.

    O(n / samples per pair x 2**POOL) a round, 0.3 ns per split.
    """
    n_packs = int(pack_of.max(initial=-1)) + 1
    if n_packs < 2:
        return pack_of
    mean = np.array([max(int(each.sum()) // n_packs, 1) for each in amounts.T], dtype=np.int64)
    return _even_out(  # copies of tokens and amounts: one kind of array, so that kernels are compiled once
        np.array(tokens),
        np.array(amounts, order="C"),
        pack_of,
        aims,
        capacity,
        mean,
        np.array(weights, dtype=np.float64),
        rounds,
        seeded(*seed),
    )


@kernel
def _even_out(
    tokens: Int64,
    amounts: Int64,
    pack_of: Int32,
    aims: Int64,
    capacity: int,
    mean: Int64,
    weights: NDArray[np.float64],
    rounds: int,
    random: Random,
) -> Int32:
    """The rounds of `even_out`; ``mean``: (m,) amounts of a pack."""
    n_packs, n_columns = len(aims), amounts.shape[1]
    first, nodes = _linked(tokens, amounts, pack_of, n_packs)
    used, held = _sums(tokens, amounts, pack_of, n_packs)
    members, item_of = np.empty(len(tokens), dtype=np.int32), np.empty(len(tokens), dtype=np.int8)
    items = np.empty((POOL + 1, 1 + n_columns), dtype=np.int64)
    room, lead = np.empty(1 << POOL, dtype=np.int32), np.empty((n_columns, 1 << POOL), dtype=np.int32)
    cost = np.empty(1 << POOL, dtype=np.float32)
    n_groups = max(n_packs // GROUP, 1)
    tries = rounds * (n_packs // 2)
    before = 2 * _squares(held, aims, mean, weights)
    while tries > 0:
        squares = _squares(held, aims, mean, weights)
        if before - squares <= 0.002 * squares:
            break
        before = squares
        heaviest = _heaviest_first(held[:, 0] - aims)
        for group in range(n_groups):
            packs = heaviest[group::n_groups].copy()
            half = len(packs) // 2
            for number in range(SPELL):
                column = number % n_columns
                values = held[packs, column] - aims[packs] if column == 0 else held[packs, column]
                packs = packs[_heaviest_first(values)]
                distance = below(random, half) if half else 0
                for q in range(half):
                    light, heavy = packs[len(packs) - 1 - q], packs[(q + distance) % half]
                    wanted = aims[light] - aims[heavy]
                    apart = held[light, 0] - held[heavy, 0] - wanted
                    if n_columns > 1 or abs(apart) > max(mean[0] // 200, 1):
                        tries -= 1
                        _split(
                            first, nodes, used, held, light, heavy, wanted, capacity, mean, weights, random,
                            members, item_of, items, room, lead, cost,
                        )  # fmt: skip
    return _unlinked(first, nodes)


@kernel
def _split(
    first: Int32,
    nodes: Int64,
    used: Int64,
    held: Int64,
    light: int,
    heavy: int,
    wanted: int,
    capacity: int,
    mean: Int64,
    weights: NDArray[np.float64],
    random: Random,
    members: Int32,
    item_of: NDArray[np.int8],
    items: Int64,
    room: Int32,
    lead: Int32,
    cost: NDArray[np.float32],
) -> None:
    """Split the samples of two packs anew, if that brings the difference of the first amount closer to ``wanted``.

    The last six arrays are scratch; a row of ``items`` is tokens and amounts.
    """
    n_columns = held.shape[1]
    # the samples of both packs, as at most POOL + 1 items: item 0 stays in the first half, the others are free
    n_light, n_both = 0, 0
    for pack in (light, heavy):
        i = first[pack]
        while i >= 0:
            members[n_both] = i
            n_both += 1
            i = nodes[i, 0]
        if pack == light:
            n_light = n_both
    n_items = min(n_both, POOL + 1)
    if n_both <= POOL + 1:
        for k in range(n_both):
            item_of[k] = k
    else:  # the rests of both packs are items 0 and 1
        item_of[:n_light] = 0
        item_of[n_light:n_both] = 1
        item = 2
        while item < n_items:
            k = below(random, n_both)
            if item_of[k] < 2:
                item_of[k] = item
                item += 1
    items[:n_items] = 0
    for k in range(n_both):
        for c in range(1 + n_columns):
            items[item_of[k], c] += nodes[members[k], 1 + c]
    # of every split without the last item: tokens of the first half above the least it must hold, and its lead, which
    # is twice its amount minus that of both
    total = used[light] + used[heavy]
    spare = 2 * capacity - total
    room[0] = items[0, 0] - (total - capacity)
    size = 1
    for item in range(1, n_items - 1):
        double(room, size, items[item, 0])
        size *= 2
    for c in range(n_columns):
        both = held[light, c] + held[heavy, c]
        shift = excess_bits(both)
        lead[c, 0] = ((2 * items[0, 1 + c]) >> shift) - (both >> shift)
        size = 1
        for item in range(1, n_items - 1):
            double(lead[c], size, (2 * items[item, 1 + c]) >> shift)
            size *= 2
    shift = excess_bits(held[light, 0] + held[heavy, 0])
    aside = min(abs(wanted) >> shift, 1 << (SUM_BITS + 1))
    apart = held[light, 0] - held[heavy, 0] - wanted
    last_tokens, last_lead = items[n_items - 1, 0], (2 * items[n_items - 1, 1]) >> shift
    if n_columns == 1:
        best = closest(room, lead[0], size, last_tokens, last_lead, spare, aside)
        if best > abs(apart) >> shift:
            return
        start = below(random, size)
        split = any_as_close(room, lead[0], size, last_tokens, last_lead, spare, aside, best, start)
    else:
        double(room, size, last_tokens)
        cost[: 2 * size] = 0
        present = np.float32(0)
        for c in range(n_columns):
            shift = excess_bits(held[light, c] + held[heavy, c])
            double(lead[c], size, (2 * items[n_items - 1, 1 + c]) >> shift)
            unit = np.float32(np.sqrt(weights[c]) * (1 << shift) / mean[c])
            add_cost(cost, lead[c], 2 * size, aside if c == 0 else 0, unit)
            now = np.float32(abs(apart if c == 0 else held[light, c] - held[heavy, c]) >> shift) * unit
            present = np.float32(present + now * now)
        split = cheapest(room, cost, 2 * size, spare)
        if split < 0 or cost[split] >= present * np.float32(0.999):
            return
    split = 2 * split  # item 0 is in the first half with a clear bit, the others with a set one
    in_first = 0
    for item in range(n_items):
        if item == 0 or (split >> item) & 1 == 1:
            in_first += items[item, 1]
    # the half with more goes where more is wanted
    first_is_light = (2 * in_first >= held[light, 0] + held[heavy, 0]) == (wanted >= 0)
    for pack in (light, heavy):
        first[pack] = -1
        used[pack] = 0
        held[pack] = 0
    for k in range(n_both):
        is_first = item_of[k] == 0 or (split >> item_of[k]) & 1 == 1
        pack = light if is_first == first_is_light else heavy
        i = members[k]
        nodes[i, 0] = first[pack]
        first[pack] = i
        used[pack] += nodes[i, 1]
        for c in range(n_columns):
            held[pack, c] += nodes[i, 2 + c]


@kernel
def _squares(held: Int64, aims: Int64, mean: Int64, weights: NDArray[np.float64]) -> float:
    """Return the weighted squared deviations from the aims, each amount in units of its mean."""
    n_packs, n_columns = held.shape
    squares = 0.0
    for c in range(n_columns):
        aimed = aims if c == 0 else np.zeros_like(aims)
        surplus = (held[:, c].sum() - aimed.sum()) / n_packs
        for pack in range(n_packs):
            squares += weights[c] * ((held[pack, c] - aimed[pack] - surplus) / mean[c]) ** 2
    return squares


@kernel
def _linked(tokens: Int64, amounts: Int64, pack_of: Int32, n_packs: int) -> tuple[Int32, Int64]:
    """Return the first sample of each pack, and of each sample the next one (-1 at the end), tokens and amounts.

    What is read together stands together: the lists soon run through all of memory.
    """
    first, nodes = np.full(n_packs, -1, dtype=np.int32), np.empty((len(tokens), 2 + amounts.shape[1]), dtype=np.int64)
    for i in range(len(pack_of) - 1, -1, -1):
        nodes[i, 0] = first[pack_of[i]]
        nodes[i, 1] = tokens[i]
        nodes[i, 2:] = amounts[i]
        first[pack_of[i]] = i
    return first, nodes


@kernel
def _unlinked(first: Int32, nodes: Int64) -> Int32:
    """Return the pack of each sample."""
    pack_of = np.empty(len(nodes), dtype=np.int32)
    for pack in range(len(first)):
        i = first[pack]
        while i >= 0:
            pack_of[i] = pack
            i = nodes[i, 0]
    return pack_of


@kernel
def _sums(tokens: Int64, amounts: Int64, pack_of: Int32, n_packs: int) -> tuple[Int64, Int64]:
    """Return the tokens, (n_packs,), and the amounts, (n_packs, m), of each pack."""
    used, held = np.zeros(n_packs, dtype=np.int64), np.zeros((n_packs, amounts.shape[1]), dtype=np.int64)
    for i in range(len(tokens)):
        used[pack_of[i]] += tokens[i]
        held[pack_of[i]] += amounts[i]
    return used, held


@kernel
def _heaviest_first(values: Int64) -> Int64:
    """Return the indices from the largest value to the smallest, equal ones by index: radix sort, O(n) per 11 bits."""
    n = len(values)
    keys, order = values.max() - values, np.arange(n)
    moved = np.empty(n, dtype=np.int64)
    shift, largest = 0, keys.max()
    while largest >> shift > 0:
        start = np.zeros(2049, dtype=np.int64)
        for i in order:
            start[((keys[i] >> shift) & 2047) + 1] += 1
        for digit in range(2048):
            start[digit + 1] += start[digit]
        for i in order:
            digit = (keys[i] >> shift) & 2047
            moved[start[digit]] = i
            start[digit] += 1
        order, moved = moved, order
        shift += 11
    return order
