"""List scheduling where cells are not alike: pack by pack, each where it ends earliest within the limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import Int32, Int64, sums_by_key
from packing.jit import kernel

from .base import Balancer
from .cells import cells_of
from .climbing import mended
from .feasibility import no_plan
from .grid import Barrier
from .places import SHARE, Places, State, move, places_of, start, time_of, unit_of, units_of
from .plan import Assignment
from .problem import Problem

__all__ = ["ListScheduling", "list_schedule"]


@dataclass(frozen=True)
class ListScheduling(Balancer):
    """Heaviest first, always to the rank where it ends earliest within all limits: `LPT` for ranks of any speed, caps,
    groups and bound packs.

    Where a pack fits nowhere, it goes where it breaks limits least, and `climbing` mends that; if it cannot, once more
    with the largest shares of a cap first. Raises `NoPlanFound` if that fails too, `Infeasible` where a bound proves
    that there is no plan. Guarantee: cost <= 2 x optimum for STEP with free counts and no caps (Gonzalez, Ibarra &
    Sahni 1977). O(n_packs x n_cells) time at most. Ties: lower pack, then lower rank.
    """

    takes_constraints = takes_slowdown = True

    def assign(self, problem: Problem) -> Assignment:
        for by_size in (False, True):
            cell = mended(problem, list_schedule(problem, by_size))
            if cell is not None:
                return Assignment(cell)
        raise no_plan(problem, self)


def list_schedule(problem: Problem, by_size: bool = False) -> Int32:
    """Return the cell of each pack, (n_packs,): LPT on ranks of any speed, under any constraints (Graham 1969).

    Groups are placed as a whole. Those bound to a rank come first, then by falling load, or (``by_size``) by the
    largest share of a cap, which fits more in where caps are tight. Each goes to the rank where it breaks limits least
    and then ends earliest. O(n_packs x n_cells) time at most.
    """
    places, (packs, offsets) = places_of(problem), units_of(problem)
    size = problem.total
    if by_size and len(places.limits):
        size = (places.amounts // np.array([unit_of(limit) for limit in places.limits])).max(axis=1)
    if len(packs) == 0:
        return np.zeros(0, dtype=np.int32)
    of_unit = np.add.reduceat(size[packs], offsets[:-1])
    free = problem.pin[packs[offsets[:-1]]] < 0
    order = np.lexsort((packs[offsets[:-1]], -of_unit, free))
    return _aligned(problem, _schedule(places, packs, offsets, order))


def _aligned(problem: Problem, cell: Int32) -> Int32:
    """Return ``cell`` with the cells of each rank permuted so that heavy ones are in the same micro-steps; where ranks
    are alike, cells change their rank too."""
    grid = problem.grid
    if grid.barrier is Barrier.STEP:
        return cell
    if problem.ranks_alike and (problem.group < 0).all():
        return cells_of(problem, cell)
    load = sums_by_key(problem.total, cell, grid.n_cells)
    order = np.argsort(-load.reshape(-1, grid.n_ranks), axis=0, kind="stable")
    micro_step = np.argsort(order, axis=0, kind="stable")
    rank = cell % np.int32(grid.n_ranks)
    aligned: Int32 = (micro_step[cell // grid.n_ranks, rank] * grid.n_ranks + rank).astype(np.int32)
    return aligned


@kernel
def _schedule(places: Places, packs: Int64, offsets: Int64, order: Int64) -> Int32:
    """``packs[offsets[u] : offsets[u + 1]]`` are placed as a whole, units in ``order``."""
    state, n_ranks = start(places), len(places.slowdown)
    one_row = places.row_of[-1] == 0
    total = places.loads.sum(axis=1)
    chosen = np.empty(len(packs), dtype=np.int64)  # cells of the unit on the rank that is looked at
    best_cells = np.empty(len(packs), dtype=np.int64)
    for unit in order:
        first, stop = offsets[unit], offsets[unit + 1]
        of_unit = total[packs[first:stop]].sum()
        bound = places.pin[packs[first]]
        broken, ends = -1, 0
        for rank in range(n_ranks) if bound < 0 else range(bound, bound + 1):
            end_of_all = time_of(state.total[0, rank] + of_unit, places.slowdown[rank])
            if one_row and broken == 0 and end_of_all >= ends:
                continue
            breaks, latest = 0, 0
            for i in range(first, stop):
                limit = ends if broken == 0 else -1
                cell, breaking, end = _best_cell(places, state, packs[i], total[packs[i]], rank, one_row, limit)
                breaks, latest = breaks + breaking, max(latest, end)
                if cell < 0:
                    breaks = broken + 1
                    break
                chosen[i] = cell
                if stop > first + 1:
                    move(places, state, packs[i], cell)
            for i in range(first, stop):
                move(places, state, packs[i], -1)
            if one_row:
                latest = end_of_all
            if broken < 0 or breaks < broken or (breaks == broken and latest < ends):
                broken, ends = breaks, latest
                best_cells[first:stop] = chosen[first:stop]
        for i in range(first, stop):
            move(places, state, packs[i], best_cells[i])
    return state.cell.astype(np.int32)


@kernel
def _best_cell(
    places: Places, state: State, pack: int, load: int, rank: int, one_row: bool, limit: int
) -> tuple[int, int, int]:
    """Return the cell of ``rank`` for a pack, by how much it breaks limits, and when the rank ends there; -1 if it ends
    no earlier than ``limit`` (-1: none) anywhere.

    Of cells that end together (one row) the one with the most room, then the fewest packs.
    """
    n_ranks = len(places.slowdown)
    best, broken, ends, full, fewest = -1, 0, 0, 0, 0
    for micro_step in range(len(places.row_of)):
        cell = micro_step * n_ranks + rank
        end, count = 0, state.counts[cell]
        if not one_row:
            end = time_of(state.total[places.row_of[micro_step], rank] + load, places.slowdown[rank])
            if (limit >= 0 and end >= limit) or (best >= 0 and broken == 0 and end > ends):
                continue
        breaks, used = SHARE * max(count + 1 - places.most, 0), 0
        for k in range(len(places.limits)):
            share = unit_of(places.limits[k])
            after = state.held[cell, k] + places.amounts[pack, k]
            used = max(used, after // share)
            if after > places.limits[k]:
                breaks += (after - places.limits[k] - 1) // share + 1
        if best < 0 or (breaks, end, used, count) < (broken, ends, full, fewest):
            best, broken, ends, full, fewest = cell, breaks, end, used, count
    return best, broken, ends
