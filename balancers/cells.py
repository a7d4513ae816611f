"""From bins to cells: which bins a problem has, and how a finished bin becomes cells of the grid.

With the barrier STEP only a rank's sum counts: a bin is a rank, and its packs are dealt to its micro-steps afterwards.
With MICRO_STEP a bin is one cell, and the finished cells are arranged into micro-steps afterwards. Cells are made even,
also with free counts, where leaving micro-steps empty could cost less: a cell has to fit in memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from packing.arrays import Int32, Int64, descending_order, sums_by_key
from packing.jit import kernel

from .grid import Barrier
from .ordering import heapify, sift_down
from .problem import Problem
from .rows import even_rows

__all__ = ["Bins", "bins_of", "cells_of", "deal", "fill_fewest", "fullest", "spread"]


class Bins(NamedTuple):
    """Identical bins that packs are spread over, each holding ``fewest`` to ``most`` packs."""

    n_bins: int
    fewest: int
    most: int


def bins_of(problem: Problem) -> Bins:
    """Return the bins of a problem with the barrier STEP (ranks) or MICRO_STEP (cells)."""
    grid = problem.grid
    if grid.barrier is Barrier.STEP:
        steps = grid.n_micro_steps
        return Bins(grid.n_ranks, problem.fewest_per_cell * steps, min(problem.most_per_cell * steps, problem.n_packs))
    return Bins(grid.n_cells, problem.fewest_per_cell, problem.most_per_cell)


def cells_of(problem: Problem, bin_of: Int32) -> Int32:
    """Turn the bin of every pack, (n_packs,), into its cell."""
    grid = problem.grid
    if grid.barrier is not Barrier.STEP:
        return _arrange(problem, bin_of)
    if grid.n_micro_steps == 1:
        return bin_of
    return deal(problem.heaviest_first, bin_of, grid.n_ranks, grid.n_micro_steps)


def fullest(problem: Problem, bin_of: Int32, n_bins: int) -> int:
    """Return the load of the fullest bin."""
    return int(sums_by_key(problem.total, bin_of, n_bins).max())


def _arrange(problem: Problem, bin_of: Int32) -> Int32:
    """Group finished cells into micro-steps and give each a rank.

    Cells sorted by load and cut into rows of n_ranks cost the least of all groupings: if a row holds a cell heavier
    than some cell of a more expensive row, exchanging the two raises neither row's largest. Which rank takes which
    cell of its row is free, and used to even out the ranks.
    """
    grid = problem.grid
    load = sums_by_key(problem.total, bin_of, grid.n_cells)
    rows = descending_order(load).reshape(grid.n_micro_steps, grid.n_ranks)
    spread = load[rows[:, 0]] - load[rows[:, -1]]
    taken = even_rows(load, rows, descending_order(spread))
    cell_of_bin = np.empty(grid.n_cells, dtype=np.int32)
    cell_of_bin[taken.ravel()] = np.arange(grid.n_cells, dtype=np.int32)
    return cell_of_bin[bin_of]


@kernel
def deal(order: Int64, rank_of: Int32, n_ranks: int, n_micro_steps: int) -> Int32:
    """Deal each rank's packs, taken in ``order``, to its micro-steps back and forth: counts differ by one at most."""
    dealt = np.zeros(n_ranks, dtype=np.int64)
    cell = np.empty(len(rank_of), dtype=np.int32)
    for pack in order:
        rank = rank_of[pack]
        lap, place = divmod(dealt[rank], n_micro_steps)
        dealt[rank] += 1
        micro_step = place if lap % 2 == 0 else n_micro_steps - 1 - place
        cell[pack] = micro_step * n_ranks + rank
    return cell


def spread(bin_of: Int32, order: Int64, n_loaded: int, n_bins: int) -> None:
    """Put the packs behind the first ``n_loaded`` of ``order``, which have no load, where the fewest packs are."""
    fill_fewest(bin_of, order[n_loaded:], np.bincount(bin_of[order[:n_loaded]], minlength=n_bins))


@kernel
def fill_fewest(bin_of: Int32, packs: Int64, used: Int64) -> None:
    """Put each of ``packs`` into the bin with the fewest packs; ``used`` (n_bins,) counts them. For packs of zero load,
    which would otherwise all land on the one lightest bin."""
    n_bins = len(used)
    heap = np.arange(n_bins)
    heapify(heap, n_bins, used)
    for pack in packs:
        bin_ = heap[0]
        bin_of[pack] = bin_
        used[bin_] += 1
        sift_down(heap, n_bins, used, 0)
