"""Cells that are not alike: what they hold, what a rank's time is, and by how much limits are broken.

The arrays behind `list_scheduling` and `climbing`, which serve what the engine of identical bins cannot: caps, bound
packs, slow ranks, and stages that are waited for one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from packing.arrays import Int64
from packing.jit import kernel

from .constraints import Cap, unit_numbers
from .grid import NOMINAL, Barrier
from .problem import Problem

__all__ = ["SHARE", "Places", "State", "excess", "move", "places_of", "start", "time_of", "unit_of", "units_of"]

SHARE = 2**20  # a limit's worth of excess; limits of different resources are compared in it


class Places(NamedTuple):
    """A problem as arrays; a row is what ranks wait for together: the step, or a micro-step."""

    loads: Int64  # (n_packs, n_stages)
    amounts: Int64  # (n_packs, n_caps)
    limits: Int64  # (n_caps,) of a cell
    slowdown: Int64  # (n_ranks,) thousandths of time per load
    row_of: Int64  # (n_micro_steps,)
    group: Int64  # (n_packs,) packs of one rank, -1 for none
    pin: Int64  # (n_packs,) rank, -1 for any
    fewest: int  # packs in a cell
    most: int


class State(NamedTuple):
    """A plan under construction. The packs of a cell are a linked list: ``first`` -> ``after`` -> ... -> -1."""

    cell: Int64  # (n_packs,), -1 while in none
    counts: Int64  # (n_cells,) packs
    held: Int64  # (n_cells, n_caps)
    load: Int64  # (n_rows, n_ranks, n_stages), not yet times the slowdown
    total: Int64  # (n_rows, n_ranks) of all stages
    first: Int64  # (n_cells,)
    after: Int64  # (n_packs,)
    before: Int64  # (n_packs,)


def places_of(problem: Problem) -> Places:
    """Return the problem as arrays."""
    grid = problem.grid
    caps = [each for each in problem.constraints if isinstance(each, Cap)]
    amounts = np.stack([cap.amounts for cap in caps], axis=1) if caps else np.zeros((problem.n_packs, 0), np.int64)
    waits_in_each = grid.barrier is not Barrier.STEP
    return Places(
        np.ascontiguousarray(problem.by_stage if grid.barrier is Barrier.STAGE else problem.total[:, None]),
        amounts,
        np.array([cap.limit for cap in caps], dtype=np.int64),
        np.array(grid.slowdown or (NOMINAL,) * grid.n_ranks, dtype=np.int64),
        np.arange(grid.total_micro_steps) // (1 if waits_in_each else grid.n_micro_steps),
        problem.group,
        problem.pin,
        problem.fewest_per_cell,
        problem.most_per_cell,
    )


def units_of(problem: Problem) -> tuple[Int64, Int64]:
    """Return the packs that move as one: ``packs[offsets[u] : offsets[u + 1]]``, a group or a pack, heaviest first."""
    unit, order = unit_numbers(problem.group), problem.heaviest_first
    packs = order[np.argsort(unit[order], kind="stable")]
    return packs, np.concatenate([[0], np.cumsum(np.bincount(unit))])


@kernel
def start(places: Places) -> State:
    """Return the state in which every pack is in no cell."""
    n_packs, n_stages = places.loads.shape
    n_ranks, n_cells = len(places.slowdown), len(places.row_of) * len(places.slowdown)
    return State(
        np.full(n_packs, -1, dtype=np.int64),
        np.zeros(n_cells, dtype=np.int64),
        np.zeros((n_cells, len(places.limits)), dtype=np.int64),
        np.zeros((places.row_of[-1] + 1, n_ranks, n_stages), dtype=np.int64),
        np.zeros((places.row_of[-1] + 1, n_ranks), dtype=np.int64),
        np.full(n_cells, -1, dtype=np.int64),
        np.full(n_packs, -1, dtype=np.int64),
        np.full(n_packs, -1, dtype=np.int64),
    )


@kernel
def move(places: Places, state: State, pack: int, to: int) -> None:
    """Take ``pack`` out of its cell, if it is in one, and put it into ``to``, if that is not -1."""
    here = state.cell[pack]
    if here >= 0:
        _count(places, state, pack, here, -1)
        earlier, later = state.before[pack], state.after[pack]
        if earlier >= 0:
            state.after[earlier] = later
        else:
            state.first[here] = later
        if later >= 0:
            state.before[later] = earlier
    if to >= 0:
        _count(places, state, pack, to, 1)
        head = state.first[to]
        state.before[pack], state.after[pack] = -1, head
        if head >= 0:
            state.before[head] = pack
        state.first[to] = pack
    state.cell[pack] = to


@kernel
def _count(places: Places, state: State, pack: int, cell: int, sign: int) -> None:
    """Add ``pack`` to what ``cell`` and its rank hold (sign 1), or take it away (-1)."""
    n_ranks = len(places.slowdown)
    state.counts[cell] += sign
    for k in range(len(places.limits)):
        state.held[cell, k] += sign * places.amounts[pack, k]
    row, rank = places.row_of[cell // n_ranks], cell % n_ranks
    for stage in range(places.loads.shape[1]):
        state.load[row, rank, stage] += sign * places.loads[pack, stage]
        state.total[row, rank] += sign * places.loads[pack, stage]


@kernel
def time_of(load: int, slowdown: int) -> int:
    """Return the time that a load takes, rounded up."""
    time: int = load if slowdown == NOMINAL else -(-load * slowdown // NOMINAL)
    return time


@kernel
def excess(places: Places, state: State, cell: int, out: int, into: int) -> int:
    """Return by how much ``cell`` breaks its limits once the pack ``out`` has left and ``into`` has come (-1: none).

    In parts of a limit, 2**20 to the whole; every pack too many or too few counts as a whole.
    """
    count = state.counts[cell] - (out >= 0) + (into >= 0)
    total: int = SHARE * (max(count - places.most, 0) + max(places.fewest - count, 0))
    for k in range(len(places.limits)):
        over = state.held[cell, k] - places.limits[k]
        if out >= 0:
            over -= places.amounts[out, k]
        if into >= 0:
            over += places.amounts[into, k]
        if over > 0:
            total += (over - 1) // unit_of(places.limits[k]) + 1
    return total


@kernel
def unit_of(limit: int) -> int:
    """Return the amount that counts as one of about `SHARE` parts of a limit."""
    return limit // SHARE + 1
