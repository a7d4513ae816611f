"""The complete form of the Karmarkar-Karp method: exact where its search ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import Int32, Int64, as_int
from packing.errors import InvalidParameter
from packing.jit import kernel

from .base import Balancer
from .cells import cells_of, fullest, spread
from .dual_feasible import dual_feasible_bound
from .grid import Barrier
from .karmarkar_karp import differencing
from .ordering import falling_order
from .plan import Assignment, Status
from .problem import Problem

__all__ = ["CompleteKarmarkarKarp", "search"]

MOST_PACKS, MOST_RANKS = 100, 8


@dataclass(frozen=True)
class CompleteKarmarkarKarp(Balancer):
    """Try every way to merge the two partial solutions of largest difference, that of `KarmarkarKarp` first. Also: CKK.

    Depth first: two partial solutions of n_ranks parts merge in up to n_ranks! ways (Korf 1998 for two ranks; k-way:
    Korf 2009). A way is cut where one of its parts, with the smallest part of everything that still waits, reaches the
    best cost so far, and where it differs from an earlier way by an exchange of equal parts. The search ends at the
    bound (the problem's, or that of dual feasible functions).

    Guarantee: never worse than `KarmarkarKarp`; optimal and proven where the search ends within ``nodes`` ways tried,
    a count that no clock disturbs. Else the status is FEASIBLE (better than `KarmarkarKarp`) or FALLBACK (its plan).
    O(n + n_ranks log n_ranks) time per way, O(n^2) memory. Made for some fifteen packs, or thirty on two ranks; beyond,
    `Auto` comes closer, and above 100 packs or 8 ranks this refuses. Free counts only. Ties: as in `KarmarkarKarp`,
    then the earlier way.
    """

    nodes: int = 200_000

    barriers = frozenset({Barrier.STEP})
    free_counts_only = order_free = scale_free = True

    def __post_init__(self) -> None:
        super().__post_init__()
        as_int("CompleteKarmarkarKarp.nodes", self.nodes, InvalidParameter, least=0)

    def refusal(self, problem: Problem) -> str | None:
        reason, n_packs, n_ranks = super().refusal(problem), problem.n_packs, problem.grid.n_ranks
        if reason is None and (n_packs > MOST_PACKS or n_ranks > MOST_RANKS):
            most = f"at most {MOST_PACKS} packs and {MOST_RANKS} ranks"
            return f"it searches {most}, not {n_packs} packs on {n_ranks} ranks. Use Auto(), or LPT()"
        return reason

    def assign(self, problem: Problem) -> Assignment:
        order, n_ranks = problem.heaviest_first, problem.grid.n_ranks
        rank_of = differencing(problem.total, order, n_ranks, False)
        cost, status = fullest(problem, rank_of, n_ranks), Status.FALLBACK
        falling = problem.total[order]
        falling = falling[falling > 0]
        bound = dual_feasible_bound(falling, n_ranks, problem.lower_bound, cost)
        if bound < cost:
            found, best, ended = search(falling, n_ranks, cost, bound, self.nodes)
            if best < cost:
                rank_of[order[: len(falling)]] = found
                spread(rank_of, order, len(falling), n_ranks)
                status = Status.FEASIBLE
            bound = best if ended else bound
        return Assignment(cells_of(problem, rank_of), bound, status)


@kernel
def search(falling: Int64, n_bins: int, cost: int, bound: int, nodes: int) -> tuple[Int32, int, bool]:
    """Return the bin of each load (n,), the cost of that, and whether no other costs less; n and n_bins are >= 2.

    Only what costs less than ``cost`` is looked for, and nothing below ``bound``; without a find, all bins are -1.

    At depth d, n - d partial solutions wait in ``waiting[d]`` by falling difference. The first two become the partial
    solution n + d: part i of the one with part ``partner[d, i]`` of the other, sorted. A partial solution is a row of
    ``value``, falling. The partners of a depth run through the permutations in falling lexicographic order, from the
    one that merges the largest part with the smallest.
    """
    n = len(falling)
    value = np.zeros((2 * n - 1, n_bins), dtype=np.int64)
    value[:n, 0] = falling
    waiting = np.empty((n, n), dtype=np.int64)
    waiting[0] = np.arange(n)
    partner = np.empty((n - 1, n_bins), dtype=np.int64)
    unsorted = np.empty((n - 1, n_bins), dtype=np.int64)  # where each part of the sorted row was before
    bin_of = np.full(n, -1, dtype=np.int32)
    depth = 0
    partner[0] = np.arange(n_bins)[::-1]
    while depth >= 0 and cost > bound:
        if nodes == 0:
            return bin_of, cost, False
        nodes -= 1
        one, other, merged = value[waiting[depth, 0]], value[waiting[depth, 1]], value[n + depth]
        room = cost
        for row in waiting[depth, 2 : n - depth]:
            room -= value[row, -1]
        last = depth == n - 2
        skipped = _first_futile(one, other, partner[depth], room)
        if skipped < 0:
            total = one + other[partner[depth]]
            unsorted[depth] = falling_order(total)
            merged[:] = total[unsorted[depth]]
            if not last:
                _queue(waiting[depth, 2 : n - depth], waiting[depth + 1], value, n + depth)
                depth += 1
                partner[depth] = np.arange(n_bins)[::-1]
                continue
            cost = merged[0]
            bin_of = _traced(waiting, partner, unsorted)
        if last:
            skipped = 0  # of two, largest with smallest is the best way
        partner[depth, skipped:].sort()
        while depth >= 0 and not _step_back(partner[depth]):
            depth -= 1
    return bin_of, cost, True


@kernel
def _first_futile(one: Int64, other: Int64, partner: Int64, room: int) -> int:
    """Return from where on all further orders of ``partner`` are futile, -1 if this one is worth a try.

    A part that reaches ``room`` would do so with every larger partner. Of ways that differ by an exchange of equal
    parts alone, the first is tried: equal parts of the one, and equal parts of the other, meet in falling order.
    """
    n_bins, taken = len(one), 0
    for i in range(n_bins):
        j = partner[i]
        if one[i] + other[j] >= room:
            return i
        if i > 0 and one[i] == one[i - 1] and j > partner[i - 1]:
            return i + 1
        if j + 1 < n_bins and other[j] == other[j + 1] and not (taken >> (j + 1)) & 1:
            return i + 1
        taken |= 1 << j
    return -1


@kernel
def _step_back(partner: Int64) -> bool:
    """Turn a permutation into the one before it in lexicographic order; False if it is the first, ascending."""
    i = len(partner) - 2
    while i >= 0 and partner[i] <= partner[i + 1]:
        i -= 1
    if i < 0:
        return False
    j = len(partner) - 1
    while partner[j] >= partner[i]:
        j -= 1
    partner[i], partner[j] = partner[j], partner[i]
    partner[i + 1 :] = partner[i + 1 :][::-1].copy()
    return True


@kernel
def _queue(rows: Int64, longer: Int64, value: Int64, new: int) -> None:
    """Write ``rows`` to ``longer`` with ``new`` among them, by falling difference and behind equal ones."""
    difference, place = value[new, 0] - value[new, -1], len(rows)
    while place > 0 and value[rows[place - 1], 0] - value[rows[place - 1], -1] < difference:
        place -= 1
    longer[:place] = rows[:place]
    longer[place] = new
    longer[place + 1 : len(rows) + 1] = rows[place:]


@kernel
def _traced(waiting: Int64, partner: Int64, unsorted: Int64) -> Int32:
    """Return the bin of each load, (n,), by taking the merges apart from the last to the first."""
    n, n_bins = len(waiting), partner.shape[1]
    bin_of = np.empty((2 * n - 1, n_bins), dtype=np.int32)
    bin_of[-1] = np.arange(n_bins)
    for depth in range(n - 2, -1, -1):
        for part in range(n_bins):
            i = unsorted[depth, part]
            bin_of[waiting[depth, 0], i] = bin_of[n + depth, part]
            bin_of[waiting[depth, 1], partner[depth, i]] = bin_of[n + depth, part]
    return bin_of[:n, 0].copy()
