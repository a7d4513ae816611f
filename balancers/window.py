"""A window of several optimizer steps as a problem of one step: what changes is only where a row of cells ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from packing.arrays import Int32

from .cells import deal
from .constraints import Cap
from .grid import Barrier, Counts
from .problem import Problem

__all__ = ["one_step", "window_cells"]


def one_step(problem: Problem) -> Problem | None:
    """Return the problem of one step that stands for the window of ``problem``; None if there is none.

    Where ranks wait in every micro-step, the micro-steps of all steps are alike. With the barrier STEP each step is one
    row of ranks: a micro-step of its own, unless a cap holds for cells that are smaller than that.
    """
    grid = problem.grid
    if grid.barrier is not Barrier.STEP:
        return replace(problem, grid=replace(grid, n_steps=1, n_micro_steps=grid.total_micro_steps))
    steps = grid.n_micro_steps
    if steps > 1 and any(isinstance(each, Cap) for each in problem.constraints):
        return None
    counts = grid.counts
    if steps > 1 and counts is not Counts.FREE:
        counts = (problem.fewest_per_cell * steps, min(problem.most_per_cell * steps, problem.n_packs))
    home = problem.home
    if home is not None:
        micro_step, rank = np.divmod(home, np.int32(grid.n_ranks))
        home = micro_step // np.int32(steps) * np.int32(grid.n_ranks) + rank
    whole = replace(grid, n_steps=1, n_micro_steps=grid.n_steps, barrier=Barrier.MICRO_STEP, counts=counts)
    return replace(problem, grid=whole, home=home)


def window_cells(problem: Problem, cell: Int32) -> Int32:
    """Turn the cells of the plan of `one_step` back into cells of ``problem``."""
    grid = problem.grid
    if grid.barrier is not Barrier.STEP or grid.n_micro_steps == 1:
        return cell
    bins = grid.n_ranks * grid.n_steps
    micro_step, bin_ = np.divmod(deal(problem.heaviest_first, cell, bins, grid.n_micro_steps), np.int32(bins))
    step, rank = np.divmod(bin_, np.int32(grid.n_ranks))
    return ((step * np.int32(grid.n_micro_steps) + micro_step) * np.int32(grid.n_ranks) + rank).astype(np.int32)
