"""Whether cells are an answer to a problem, and how long they keep each rank busy: by definition, not by trust."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from packing.arrays import Int32, Int64, read_only, sums_by_key

from .errors import InvalidPlan
from .grid import NOMINAL, Barrier
from .problem import Problem

__all__ = ["busy_times", "verified"]


def verified(problem: Problem, cell: ArrayLike, balancer: str) -> Int32:
    """Return ``cell`` as read-only int32, or raise `InvalidPlan`."""
    who, grid = balancer or "the plan", problem.grid
    try:
        array = np.asarray(cell)
    except ValueError as error:  # ragged lists
        raise InvalidPlan(f"{who} must give each pack one cell; {error}.") from error
    if array.shape != (problem.n_packs,):
        raise InvalidPlan(f"{who} must give each pack one cell: shape ({problem.n_packs},); got {array.shape}.")
    if array.size and array.dtype.kind not in "iu":
        raise InvalidPlan(f"{who} must give cells as integers; got dtype {array.dtype}.")
    if array.size and not (array.min() >= 0 and array.max() < grid.n_cells):
        i = int(np.argmax((array < 0) | (array >= grid.n_cells)))
        raise InvalidPlan(f"{who} must use cells 0 to {grid.n_cells - 1}; cell[{i}] = {array[i]}.")
    checked = read_only(array.astype(np.int32))
    fewest, most = problem.fewest_per_cell, problem.most_per_cell
    counts = np.bincount(checked, minlength=grid.n_cells)
    if counts.min() < fewest or counts.max() > most:
        c = int(np.argmax((counts < fewest) | (counts > most)))
        raise InvalidPlan(
            f"{who} must put {fewest} to {most} packs into each cell; rank {c % grid.n_ranks}, micro-step "
            f"{c // grid.n_ranks} has {counts[c]}."
        )
    for constraint in problem.constraints:
        how = constraint.broken(checked, grid)
        if how is not None:
            raise InvalidPlan(f"{who} breaks {constraint}: {how}.")
    return checked


def busy_times(problem: Problem, cell: Int32) -> Int64:
    """Time that each rank is busy between two barriers, (n_rows, n_ranks): its load, times its slowdown, rounded up."""
    grid = problem.grid
    columns = list(problem.by_stage.T) if grid.barrier is Barrier.STAGE else [problem.total]
    place, n_rows = cell, grid.total_micro_steps
    if grid.barrier is Barrier.STEP:
        n_ranks, n_rows = np.int32(grid.n_ranks), grid.n_steps
        place = cell % n_ranks
        if n_rows > 1:
            place = cell // (n_ranks * np.int32(grid.n_micro_steps)) * n_ranks + place
    busy = np.stack([sums_by_key(column, place, n_rows * grid.n_ranks) for column in columns])
    busy = busy.reshape(len(columns), n_rows, grid.n_ranks).swapaxes(0, 1).reshape(-1, grid.n_ranks)
    return busy if grid.slowdown is None else -(-busy * np.array(grid.slowdown) // NOMINAL)
