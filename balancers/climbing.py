"""Hill climbing where cells are not alike: moves and exchanges of packs and groups, first to mend, then to improve."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from packing.arrays import Int32, Int64
from packing.jit import kernel

from .latest import effect_of, rank_row
from .ordering import falling_order
from .places import Places, State, excess, move, places_of, start, time_of, units_of
from .problem import Problem

__all__ = ["climb", "mended"]

NEAR = 32  # the lightest ranks of each row, looked at before all others
IMPROVING, MENDING = 2_000, 1_000  # the budgets, in exchanges looked at per pack


class Found(NamedTuple):
    """The best exchange found: ``pack`` goes to the cell ``to``, and ``other`` of it (-1: none) comes back."""

    pack: int
    other: int
    to: int
    breaks: int  # by how much more limits are broken then
    costs: int  # by how much the cost rises
    peak: int  # the later of the two ranks
    looked: int  # exchanges looked at


def climb(problem: Problem, cell: Int32) -> Int32:
    """Return cells of lower cost, (n_packs,), where ``cell`` breaks nothing.

    The latest rank of each row in turn gives a pack away or exchanges one, whichever lowers the cost most: first within
    the row, then with the lightest ranks of all rows, then with all. Packs of a group move within their rank, groups as
    a whole to another rank or against a group of the same size. Moves that leave the cost must leave fewer ranks
    latest, so that it ends: at a local optimum, or at a budget of exchanges looked at.
    """
    return _search(problem, cell, IMPROVING * problem.n_packs, improve=True)[0]


def mended(problem: Problem, cell: Int32) -> Int32 | None:
    """Return cells that break neither counts nor caps, (n_packs,), or None if none are found.

    ``cell`` must respect groups and bound packs. As long as something is broken, the cell that breaks most gives or
    takes a pack, or exchanges one, whichever leaves least broken; of such that leave nothing the first that costs
    nothing.
    """
    result, broken = _search(problem, cell, MENDING * problem.n_packs, improve=False)
    return None if broken else result


def _search(problem: Problem, cell: Int32, budget: int, improve: bool) -> tuple[Int32, int]:
    if problem.n_packs == 0:
        return cell, 0
    packs, offsets = units_of(problem)
    n_groups = int(problem.group.max(initial=-1)) + 1
    return _climb(places_of(problem), cell, packs, offsets[: n_groups + 1], budget, improve)


@kernel
def _climb(places: Places, cell: Int32, packs: Int64, offsets: Int64, budget: int, improve: bool) -> tuple[Int32, int]:
    """Return the cells, and by how much they break limits. Group g is ``packs[offsets[g] : offsets[g + 1]]``."""
    state = start(places)
    for pack in range(len(cell)):
        move(places, state, pack, cell[pack])
    n_rows, n_ranks, n_stages = state.load.shape
    broken = np.zeros(len(state.counts), dtype=np.int64)
    top = np.zeros((n_rows, n_stages, 3), dtype=np.int64)  # the three latest ranks
    _look_again(places, state, broken, top)
    near = np.ones((n_rows, n_ranks), dtype=np.bool_)
    left, idle, turn = budget, 0, 0
    while left > 0:
        worst = int(np.argmax(broken))
        mending = broken[worst] > 0
        if not mending and (not improve or idle == n_rows * n_stages):
            break
        row, stage = turn // n_stages, turn % n_stages
        focus = worst if mending else -1
        rank = worst % n_ranks if mending else top[row, stage, 0]
        for reach in range(2 if mending else 0, 3):  # the lightest of the row, of all rows, everything
            if (reach == 0 and n_rows == 1) or (reach == 1 and n_ranks <= NEAR):
                continue
            near[:] = reach == 2
            if reach < 2:
                _mark_lightest(places, state, stage, near)
            if reach == 0:
                near[:row] = near[row + 1 :] = False
            found = _best(places, state, broken, top, row, stage, rank, focus, near)
            left -= found.looked
            if found.pack >= 0:
                break
        if found.pack >= 0:
            here = state.cell[found.pack]
            move(places, state, found.pack, found.to)
            if found.other >= 0:
                move(places, state, found.other, here)
            for each in (here, found.to):
                broken[each] = excess(places, state, each, -1, -1)
                rank_row(places, state, places.row_of[each // n_ranks], top)
        else:
            moved, looked = _move_group(places, state, rank, packs, offsets)
            left -= looked
            if moved:
                _look_again(places, state, broken, top)
            elif mending:
                break
            else:
                idle += 1
                turn = (turn + 1) % (n_rows * n_stages)
                continue
        idle = 0
    return state.cell.astype(np.int32), broken.sum()


@kernel
def _look_again(places: Places, state: State, broken: Int64, top: Int64) -> None:
    """Work out by how much each cell breaks limits, and the latest ranks of each row."""
    for cell in range(len(broken)):
        broken[cell] = excess(places, state, cell, -1, -1)
    for row in range(len(top)):
        rank_row(places, state, row, top)


@kernel
def _mark_lightest(places: Places, state: State, stage: int, near: NDArray[np.bool_]) -> None:
    """Mark the ranks of each row with the least time in ``stage``."""
    n_rows, n_ranks = near.shape
    time = np.empty(n_ranks, dtype=np.int64)
    for row in range(n_rows):
        for rank in range(n_ranks):
            time[rank] = time_of(state.load[row, rank, stage], places.slowdown[rank])
        for rank in falling_order(time)[max(n_ranks - NEAR, 0) :]:
            near[row, rank] = True


@kernel
def _best(
    places: Places,
    state: State,
    broken: Int64,
    top: Int64,
    row: int,
    stage: int,
    rank: int,
    focus: int,
    near: NDArray[np.bool_],
) -> Found:
    """Return the best exchange for the cell ``focus``, or (-1) for the cells of ``rank`` in ``row``."""
    n_ranks, mending = len(places.slowdown), focus >= 0
    best = Found(-1, -1, -1, 0, 0, 0, 0)
    looked = 0
    for micro_step in range(len(places.row_of)):
        here = micro_step * n_ranks + rank
        if (mending and here != focus) or (not mending and places.row_of[micro_step] != row):
            continue
        pack = state.first[here]
        while pack >= 0:
            tied = places.group[pack] >= 0 or places.pin[pack] >= 0
            for to in range(len(state.counts)):
                if to == here or (tied and to % n_ranks != rank):
                    continue
                if not near[places.row_of[to // n_ranks], to % n_ranks]:
                    continue
                other = -1  # alone first, then in exchange for each pack there
                while True:
                    looked += 1
                    best = _better(places, state, broken, top, stage, pack, other, to, mending, best)
                    if mending and best.breaks == -broken[focus] and best.costs <= 0:
                        return Found(best.pack, best.other, best.to, best.breaks, best.costs, best.peak, looked)
                    other = state.first[to] if other < 0 else state.after[other]
                    while other >= 0 and to % n_ranks != rank and (places.group[other] >= 0 or places.pin[other] >= 0):
                        other = state.after[other]
                    if other < 0:
                        break
            if best.costs < 0 and not mending:
                return Found(best.pack, best.other, best.to, best.breaks, best.costs, best.peak, looked)
            pack = state.after[pack]
    if mending and state.counts[focus] < places.fewest:
        for pack in range(len(state.cell)):
            tied = places.group[pack] >= 0 or places.pin[pack] >= 0
            if state.cell[pack] != focus and not (tied and state.cell[pack] % n_ranks != rank):
                looked += 1
                best = _better(places, state, broken, top, stage, pack, -1, focus, mending, best)
    return Found(best.pack, best.other, best.to, best.breaks, best.costs, best.peak, looked)


@kernel
def _better(
    places: Places,
    state: State,
    broken: Int64,
    top: Int64,
    stage: int,
    pack: int,
    other: int,
    to: int,
    mending: bool,
    best: Found,
) -> Found:
    """Return the exchange of ``pack`` for ``other`` if it helps, and more than ``best``; else ``best``."""
    here = state.cell[pack]
    if not mending and places.loads[pack, stage] <= (places.loads[other, stage] if other >= 0 else 0):
        return best  # the latest rank would not end earlier
    breaks = 0
    if other < 0 or len(places.limits) > 0:
        breaks = excess(places, state, here, pack, other) - broken[here]
        if not mending and breaks > 0:
            return best
        breaks += excess(places, state, to, other, pack) - broken[to]
    if breaks > best.breaks or (mending and breaks == 0) or (not mending and breaks > 0):
        return best
    costs, peak, fewer = effect_of(places, state, top, stage, pack, other, to)
    if not mending and breaks == 0 and (costs > 0 or (costs == 0 and not fewer)):
        return best
    if best.pack < 0 or (breaks, costs, peak) < (best.breaks, best.costs, best.peak):
        return Found(pack, other, to, breaks, costs, peak, 0)
    return best


@kernel
def _move_group(places: Places, state: State, rank: int, packs: Int64, offsets: Int64) -> tuple[bool, int]:
    """Send a group of ``rank`` to another rank, alone or against a group of the same size, if that is better: the best
    of all. Packs keep their micro-steps, or take those of the other group. Returns whether, and the steps it took."""
    n_ranks, n_groups, looked = len(places.slowdown), len(offsets) - 1, 0
    best, best_group, best_other, best_rank = _judged(places, state), -1, -1, -1
    for group in range(n_groups):
        pack = packs[offsets[group]]
        if state.cell[pack] % n_ranks != rank or places.pin[pack] >= 0:
            continue
        for other in range(n_groups + n_ranks):
            against, to = other if other < n_groups else -1, other - n_groups
            if against >= 0:
                to = state.cell[packs[offsets[against]]] % n_ranks
                if offsets[against + 1] - offsets[against] != offsets[group + 1] - offsets[group]:
                    continue
                if places.pin[packs[offsets[against]]] >= 0:
                    continue
            if to == rank:
                continue
            looked += n_ranks
            _send(places, state, packs, offsets, group, against, to)
            judged = _judged(places, state)
            if judged < best:
                best, best_group, best_other, best_rank = judged, group, against, to
            _send(places, state, packs, offsets, group, against, rank)
    if best_group >= 0:
        _send(places, state, packs, offsets, best_group, best_other, best_rank)
    return best_group >= 0, looked


@kernel
def _send(places: Places, state: State, packs: Int64, offsets: Int64, group: int, against: int, to: int) -> None:
    """Send a group to rank ``to``, or let two groups take each other's cells."""
    n_ranks = len(places.slowdown)
    for i in range(offsets[group], offsets[group + 1]):
        pack, here = packs[i], state.cell[packs[i]]
        if against >= 0:
            other = packs[offsets[against] + i - offsets[group]]
            move(places, state, pack, state.cell[other])
            move(places, state, other, here)
        else:
            move(places, state, pack, here // n_ranks * n_ranks + to)


@kernel
def _judged(places: Places, state: State) -> tuple[int, int]:
    """Return by how much limits are broken in all, and the cost."""
    broken = cost = 0
    for cell in range(len(state.counts)):
        broken += excess(places, state, cell, -1, -1)
    for row in range(state.load.shape[0]):
        for stage in range(state.load.shape[2]):
            latest = 0
            for rank in range(len(places.slowdown)):
                latest = max(latest, time_of(state.load[row, rank, stage], places.slowdown[rank]))
            cost += latest
    return broken, cost
