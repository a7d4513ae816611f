"""Micro-steps of several packs per cell: expensive micro-steps first, around the packs that make them expensive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import Int64
from packing.jit import kernel

from .base import Balancer
from .cells import cells_of
from .grid import Barrier, Counts, Grid
from .plan import Assignment
from .problem import Problem
from .refine import Refine

__all__ = ["Peel", "peel"]


@dataclass(frozen=True)
class Peel(Balancer):
    """While one pack and the lightest companions cost more than a mean cell, build a micro-step around such packs.

    A micro-step costs its fullest cell, so where one cell must be full the others may be as full for free: each of the
    heaviest packs left is joined by the largest companions that keep its cell below that cost. What remains is a
    problem with the barrier STEP, a rank per cell, planned by ``inner``.

    Guarantee: none; on lognormal loads within 0.03 % of the bound at 128 ranks x 8 micro-steps x 4 packs, where evening
    out all cells (`LPT`) is 25-30 % off. O(n log n) time besides ``inner``. Serves MICRO_STEP where every cell may hold
    the mean number of packs, rounded up, and either all do or some may hold none: packs of load 0 take the places that
    stay empty. Ties: lower pack first.
    """

    inner: Balancer = Refine()

    barriers = frozenset({Barrier.MICRO_STEP})

    def refusal(self, problem: Problem) -> str | None:
        if 0 < problem.fewest_per_cell < problem.most_per_cell:
            return "it needs the same number of packs in every cell, or cells that may be empty. Use Counts.PADDED"
        return super().refusal(problem) or self.inner.refusal(problem)

    def assign(self, problem: Problem) -> Assignment:
        grid, n_packs = problem.grid, problem.n_packs
        per_cell = -(-n_packs // grid.n_cells)
        n_places = per_cell * grid.n_cells
        loads = np.append(problem.total, np.zeros(n_places - n_packs, dtype=np.int64))
        lightest_first = np.append(np.arange(n_packs, n_places), problem.heaviest_first[::-1])
        cell, n_rows = peel(loads[lightest_first], grid.n_ranks, grid.n_micro_steps, per_cell)
        bin_of = np.empty(n_places, dtype=np.int32)
        bin_of[lightest_first] = cell
        n_peeled = n_rows * grid.n_ranks
        rest = np.flatnonzero(bin_of < 0)
        if len(rest):
            cells_left = Grid(grid.n_cells - n_peeled, counts=Counts.EQUAL)
            others = Problem(loads[rest], cells_left, step=problem.step)
            bin_of[rest] = self.inner.plan(others).rank + np.int32(n_peeled)
        return Assignment(cells_of(problem, bin_of[:n_packs]))


@kernel
def peel(loads: Int64, n_ranks: int, n_micro_steps: int, per_cell: int) -> tuple[Int64, int]:
    """Return the cell of each pack, (n,), -1 for those not peeled off, and the number of micro-steps peeled off.

    ``loads``: lightest first. At least one micro-step is left.
    """
    n = len(loads)
    cell = np.full(n, -1, dtype=np.int64)
    free = np.arange(n + 1)  # union-find: place i + 1 -> the last free pack at or below i, plus 1; 0: none
    lightest, heaviest, left = 0, n - 1, loads.sum()
    row = 0
    while row < n_micro_steps - 1 and per_cell > 0:
        while cell[heaviest] >= 0:
            heaviest -= 1
        while cell[lightest] >= 0:
            lightest += 1
        level, companion, taken = loads[heaviest], lightest, 0
        while taken < per_cell - 1:
            if cell[companion] < 0:
                level += loads[companion]
                taken += 1
            companion += 1
        if level <= left // ((n_micro_steps - row) * n_ranks):
            break
        seed = heaviest
        seeds = np.empty(n_ranks, dtype=np.int64)
        for rank in range(n_ranks):
            while cell[seed] >= 0:
                seed -= 1
            seeds[rank] = seed
            cell[seed] = row * n_ranks + rank
            free[seed + 1] = seed
            left -= loads[seed]
        for rank in range(n_ranks):
            room = level - loads[seeds[rank]]
            for places in range(per_cell - 1, 0, -1):
                place = _last_free(free, np.searchsorted(loads, room // places, side="right"))
                if place == 0:  # none is that light: the lightest
                    while cell[lightest] >= 0:
                        lightest += 1
                    place = lightest + 1
                pack = place - 1
                cell[pack] = row * n_ranks + rank
                free[place] = place - 1
                left -= loads[pack]
                room -= loads[pack]
        row += 1
    return cell, row


@kernel
def _last_free(free: Int64, place: int) -> int:
    """Return the last free place at or below ``place``; 0 if there is none. Halves the paths that it walks."""
    while free[place] != place:
        free[place] = free[free[place]]
        place = free[place]
    return place
