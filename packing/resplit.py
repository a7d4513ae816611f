"""Evening packs out pair by pair: two packs become two others of the same samples, as even as any split makes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import Int32, Int64
from .counting import heaviest_first, members_by_group, sums_by_group
from .jit import kernel
from .random import Random, below, seeded, shuffled
from .splits import Float32, double, find_split, least_cost

__all__ = ["even_out"]

POOL = 11  # samples (or rests of packs) that change places freely: 2**POOL splits are tried for each pair
LOW = 7  # bits of the longer table of splits
GROUP = 1024  # packs that meet each other only, for a spell of rounds: as many as a cache holds
SPELL = 8
NEAR = 0.25  # of the standard deviation: pairs that differ by no more are close, and others gain more from a split
CLOSEST, FARTHEST = 0.005, 0.03  # of the mean: what is close at least and at most, since outliers widen the deviation
LARGEST = 2.0**61  # sum that is told apart from others
ENOUGH = 0.002  # a spell that cuts the squared deviations by no more than this share was the last


def even_out(
    sizes: Int64,
    amounts: Int64,
    pack_of: Int32,
    aims: Int64,
    caps: Int64,
    weights: tuple[float, ...],
    rounds: int,
    seed: tuple[int, int],
) -> Int32:
    """Return packs, (n,), of the same number, as even in ``amounts`` (n, m) as ``rounds`` of new splits make them.

    ``sizes``: (n, k), within ``caps`` (k,) in each pack, before and after; two of each limit must fit in 31 bits.
    ``aims``: (n_packs,) what each pack should hold of the first amount, up to a constant; 0 everywhere for equal packs.
    ``weights``: (m,) relative importance of the amounts. ``seed``: (seed, call).

    A round orders the packs by what they hold above their aim, and lets each pack of the lower half meet one of the
    upper half, all at the same random distance. The samples of both are split anew in every way there is (of long
    lists, those that have stayed longest move); of the splits within the limits the one closest to the aims is kept,
    of equally close ones a random one; a pair that this would make one pack is passed by. So the number of packs, and
    with it the fill, stays. With several amounts distances add up as weighted squares, and rounds order by the first,
    by the sum of all, and by the first less the others in turn: packs meet that have too much of different ones.
    Pairs that are close already are passed by and do not count: ``rounds`` is the work of so many full rounds, spent
    where it gains most. For eight rounds packs stay among about a thousand others from the whole range. If these rounds
    cut the squared deviations by no more than 0.2 % (for m amounts m**2 times less), they were the last.

    O(n / samples per pair x 2**POOL) a round.
    """
    n_packs = int(pack_of.max(initial=-1)) + 1
    if n_packs < 2:
        return pack_of
    mean = np.array([max(int(each.sum()) // n_packs, 1) for each in amounts.T], dtype=np.int64)
    result = pack_of.copy()
    _even_out(
        np.concatenate([sizes, amounts], axis=1),
        result,
        aims,
        np.array(caps),  # a copy: one kind of array, so that kernels are compiled once
        mean,
        np.array(weights, dtype=np.float64),
        rounds,
        seeded(*seed),
    )
    return result


@kernel
def _even_out(
    values: Int64,
    pack_of: Int32,
    aims: Int64,
    caps: Int64,
    mean: Int64,
    weights: NDArray[np.float64],
    rounds: int,
    random: Random,
) -> None:
    """The rounds of `even_out`, in place. ``values``: (n, k + m) sizes, then amounts; ``mean``: (m,) of a pack."""
    n_packs, k = len(aims), len(caps)
    held = sums_by_group(values, pack_of, n_packs)
    units = (np.sqrt(weights / weights[0]) * (mean[0] / mean)).astype(np.float32)  # the first is 1: it stays exact
    n_groups = max(n_packs // GROUP, 1)
    tries = rounds * (n_packs // 2)
    members = np.empty(len(pack_of), dtype=np.int64)
    before = 2 * _squares(held[:, k:], aims, mean, weights)
    for _ in range(rounds):  # spells: few pairs are split in one where most are close
        squares = _squares(held[:, k:], aims, mean, weights)
        if tries <= 0 or before - squares <= ENOUGH / len(weights) ** 2 * squares:
            break
        before = squares
        close = max(CLOSEST, min(NEAR * np.sqrt(squares / weights[0] / n_packs), FARTHEST)) * mean[0]
        offsets = members_by_group(pack_of, n_packs, members)
        heaviest = heaviest_first(held[:, k] - aims)
        for group in range(n_groups):
            packs = heaviest[group::n_groups].copy()
            tries -= _spell(values, pack_of, aims, packs, offsets, members, held, caps, close, units, random)


@kernel
def _spell(
    values: Int64,
    pack_of: Int32,
    aims: Int64,
    packs: Int64,
    offsets: Int64,
    members: Int64,
    held_by_all: Int64,
    caps: Int64,
    close: float,
    units: Float32,
    random: Random,
) -> int:
    """Let ``packs`` meet each other for SPELL rounds; return how many pairs were split.

    What happens to a pair stands in one loop: numba passes arrays on too slowly for so little work.
    """
    n_packs, n_hard, n_soft = len(packs), len(caps), len(units)
    n_columns = n_hard + n_soft
    sample, value, count, following, last = _queues(values, packs, offsets, members)
    held, aim = held_by_all[packs], aims[packs]
    item = np.empty(POOL + 1, np.int32)
    room_a, room_b = np.empty((n_hard, 1 << LOW), np.int32), np.empty((n_hard, 1 << LOW), np.int32)
    lead_a, lead_b = np.empty((n_soft, 1 << LOW), np.float32), np.empty((n_soft, 1 << LOW), np.float32)
    cost, best = np.empty(1 << LOW, np.float32), np.empty(1 << LOW, np.int32)
    cost_bits, spare = cost.view(np.int32), np.empty(n_hard, np.int64)
    half, tries = n_packs // 2, 0
    order = shuffled(n_packs, random)  # equal packs keep the order of the round before, which must not be their own
    for number in range(SPELL):
        order = order[heaviest_first(_surplus(held[order], aim[order], units, (0, 1, -1)[number % 3]))]
        distance = below(random, half) if half else 0
        for q in range(half):
            light, heavy = order[n_packs - 1 - q], order[(q + distance) % half]
            wanted = aim[light] - aim[heavy]
            present = np.float32(0)
            for c in range(n_soft):
                apart = held[light, n_hard + c] - held[heavy, n_hard + c] - (wanted if c == 0 else 0)
                now = np.float32(apart) * units[c]
                present = np.float32(present + now * now)
            if present <= close * close:
                continue
            tries += 1
            # samples of both, by node: at most POOL + 1 items; of long lists the rests of both packs are items 0 and 1
            n_light, n_heavy = count[light], count[heavy]
            rests = 2 if n_light + n_heavy > POOL + 1 else 0
            n_moved = POOL - 1 if rests else n_light + n_heavy
            from_light = n_light
            if rests:
                from_light = min(max(n_moved * n_light // (n_light + n_heavy), n_moved - n_heavy), n_light)
                item[0], item[1] = light, heavy
                for c in range(n_columns):
                    value[light, c], value[heavy, c] = held[light, c], held[heavy, c]
            rest_light, rest_heavy = following[light], following[heavy]
            for k in range(n_moved):
                if k < from_light:
                    rest, node, rest_light = light, rest_light, following[rest_light]
                else:
                    rest, node, rest_heavy = heavy, rest_heavy, following[rest_heavy]
                item[rests + k] = node
                if rests:
                    for c in range(n_columns):
                        value[rest, c] -= value[node, c]
            # the tables of splits
            n_items = rests + n_moved
            n_low = min(LOW, n_items - 1)
            size_a, size_b = 1 << (n_items - 1 - n_low), 1 << n_low
            for c in range(n_hard):
                total = held[light, c] + held[heavy, c]
                spare[c] = 2 * caps[c] - total
                room_a[c, 0], room_b[c, 0] = value[item[0], c] - (total - caps[c]), 0
                for k in range(n_items - 1):
                    if k < n_low:
                        double(room_b, c, 1 << k, np.int32(value[item[1 + k], c]))
                    else:
                        double(room_a, c, 1 << (k - n_low), np.int32(value[item[1 + k], c]))
            for c in range(n_soft):
                of_light, of_heavy = held[light, n_hard + c], held[heavy, n_hard + c]
                if c == 0:
                    of_heavy += wanted
                lead_a[c, 0] = np.float32(2 * value[item[0], n_hard + c] - of_light - of_heavy) * units[c]
                lead_b[c, 0] = 0
                for k in range(n_items - 1):
                    lead = np.float32(2 * value[item[1 + k], n_hard + c]) * units[c]
                    if k < n_low:
                        double(lead_b, c, 1 << k, lead)
                    else:
                        double(lead_a, c, 1 << (k - n_low), lead)
            least = least_cost(room_a, lead_a, size_a, room_b, lead_b, size_b, spare, cost, cost_bits, best)
            cost[0] = present
            if least > cost_bits[0]:
                continue
            a, b = find_split(
                room_a, lead_a, size_a, room_b, lead_b, size_b, spare, cost, cost_bits, best, least, random
            )
            split = 1 | (b << 1) | (a << (1 + n_low))  # bit k: item k is in the first half, which becomes light
            stay = 0 if rests == 0 or split & 2 else n_heavy - (n_moved - from_light)
            for k in range(n_moved):
                stay += 1 - ((split >> (rests + k)) & 1)
            if stay == 0:  # all fits into one pack: the other would be empty
                continue
            # the packs anew: rests stay at the front, or both are light's
            following[light], following[heavy] = rest_light, rest_heavy
            last[light] = last[light] if n_light > from_light else light
            last[heavy] = last[heavy] if n_heavy > n_moved - from_light else heavy
            count[light], count[heavy] = n_light - from_light, n_heavy - (n_moved - from_light)
            if rests and split & 2 and count[heavy]:
                following[last[light]], last[light], last[heavy] = rest_heavy, last[heavy], heavy
                count[light], count[heavy] = count[light] + count[heavy], 0
            for k in range(n_moved):
                pack = light if (split >> (rests + k)) & 1 else heavy
                following[last[pack]] = item[rests + k]
                last[pack] = item[rests + k]
                count[pack] += 1
            for c in range(n_columns):
                both, in_light = held[light, c] + held[heavy, c], 0
                for k in range(n_items):
                    in_light += value[item[k], c] * ((split >> k) & 1)
                held[light, c], held[heavy, c] = in_light, both - in_light
    for pack in range(n_packs):
        for c in range(n_columns):
            held_by_all[packs[pack], c] = held[pack, c]
        node = following[pack]
        for _ in range(count[pack]):
            pack_of[sample[node]] = packs[pack]
            node = following[node]
    return tries


@kernel
def _queues(values: Int64, packs: Int64, offsets: Int64, members: Int64) -> tuple[Int64, Int64, Int64, Int32, Int64]:
    """Line up the samples of ``packs``, so that all that is read stands together.

    The samples of a pack are a queue, linked from the node of the pack's own number: those in front move, and join at
    the end. Returns the sample of each node and its values (of a pack's node: what stays in a long list); the number of
    samples of each pack; the node that follows each node; the last node of each pack, its own if there is none.
    """
    n_packs = len(packs)
    count = offsets[packs + 1] - offsets[packs]
    n_nodes = n_packs + count.sum()
    sample, value = np.empty(n_nodes, np.int64), np.empty((n_nodes, values.shape[1]), np.int64)
    following, last = np.empty(n_nodes, np.int32), np.arange(n_packs)
    node = n_packs
    for pack in range(n_packs):
        for k in range(offsets[packs[pack]], offsets[packs[pack] + 1]):
            sample[node] = members[k]
            for c in range(values.shape[1]):
                value[node, c] = values[members[k], c]
            following[last[pack]] = node
            last[pack] = node
            node += 1
    return sample, value, count, following, last


@kernel
def _surplus(held: Int64, aim: Int64, units: Float32, sign: int) -> Int64:
    """Return what packs hold of the first amount above their aim, plus ``sign`` times what they hold of the others."""
    first = held.shape[1] - len(units)
    surplus = held[:, first] - aim
    for pack in range(len(surplus)):
        others = 0.0
        for c in range(1, len(units)):
            others += held[pack, first + c] * units[c]
        surplus[pack] += sign * int(min(others, LARGEST))
    return surplus


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
