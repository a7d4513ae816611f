"""Micro-batches under a token cap, and the partition function that RL frameworks call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from packing.arrays import Int32, Int64, as_int, as_int64, descending_order, sums_by_key
from packing.decreasing import best_fit_decreasing, decreasing
from packing.kernels import first_fit

from .auto import Auto
from .errors import Infeasible, InvalidProblem
from .grid import Barrier, Counts, Grid, GridLike
from .lpt import lpt
from .minimum_bin_slack import fill
from .plan import Plan
from .problem import Problem
from .refine import refined

__all__ = ["micro_batches", "partition"]

NODES = 200_000  # of the search for a packing with one micro-step less
LARGEST_COUNTED = 2**27  # caps up to here are filled by best fit, larger ones by search alone


def partition(lengths: ArrayLike, k: int, equal_size: bool = False) -> list[list[int]]:
    """Return the indices of ``lengths`` in ``k`` parts of nearly equal sums, ascending in each part.

    ``equal_size``: all parts have the same number of items (`Infeasible` with both numbers if they cannot); else any,
    and with fewer lengths than parts some are empty.
    ``k`` is the number of data-parallel replicas, not of processes: ranks of one replica call this with the same k.
    """
    lengths = as_int64("lengths", lengths, InvalidProblem, remedy="Lengths are whole numbers >= 0.")
    k = as_int("k", k, InvalidProblem, least=1, most=2**31 - 1)
    if equal_size and len(lengths) % k:
        raise Infeasible(
            f"parts of equal size need a number of lengths that k divides; {len(lengths)} lengths, k = {k}. "
            f"Pad the batch, or pass equal_size=False."
        )
    counts = Counts.EQUAL if equal_size else Counts.FREE
    return [sorted(part) for part in Auto().plan(Problem(lengths, Grid(k, counts=counts))).partitions]


def micro_batches(
    lengths: ArrayLike,
    grid: GridLike,
    max_tokens: int,
    *,
    costs: ArrayLike | None = None,
    multiple_of: int = 1,
    rank: ArrayLike | None = None,
) -> Plan:
    """Return a plan with the fewest micro-steps found in which no cell holds more than ``max_tokens``, then balanced.

    ``lengths``: (n,) tokens of each sample. ``grid``: ranks and barrier; its micro-steps are what this function finds,
    the same on every rank: ``plan.problem.grid.n_micro_steps``. Cells may be empty: run a dummy of weight zero there.
    ``costs``: (n,) what is balanced, if not the tokens; the cap on tokens is hard whatever the costs. ``multiple_of``:
    the number of micro-steps is a multiple of it (interleaved pipelines). ``rank``: (n,) the rank that each sample is
    bound to; None: samples may go to any rank, and counting micro-steps for all ranks together is what keeps them from
    leaving their loops at different times.

    Raises `InvalidProblem` for a sample above the cap, naming it, before any work. The number of micro-steps is that of
    best fit decreasing, or the next smaller one where a search finds it; `ceil(total / cap)` is only a lower bound.
    """
    grid = Grid.of(grid)
    if grid.barrier is Barrier.STAGE:
        raise InvalidProblem("micro_batches knows the barriers STEP and MICRO_STEP, not STAGE.")
    if grid.n_steps > 1:
        raise InvalidProblem(f"micro_batches plans one step, not a window of {grid.n_steps}. Leave n_steps at 1.")
    multiple_of = as_int("multiple_of", multiple_of, InvalidProblem, least=1)
    max_tokens = as_int("max_tokens", max_tokens, InvalidProblem, least=1)
    tokens = as_int64("lengths", lengths, InvalidProblem, remedy="Lengths are whole numbers >= 0.")
    if (tokens > max_tokens).any():
        i = int(np.argmax(tokens > max_tokens))
        raise InvalidProblem(
            f"every sample must fit under max_tokens; sample {i} has {tokens[i]} tokens, the cap is {max_tokens}. "
            f"Raise the cap, or drop or split the sample."
        )
    weights = tokens if costs is None else as_int64("costs", costs, InvalidProblem, remedy="Costs are integers >= 0.")
    if len(weights) != len(tokens):
        raise InvalidProblem(f"costs must have one value per sample; {len(weights)} for {len(tokens)}.")
    groups = _groups(rank, len(tokens), grid.n_ranks)
    n_ranks = grid.n_ranks if rank is None else 1  # that a group may use
    needed = max(_fewest_micro_steps(tokens[group], n_ranks, max_tokens, multiple_of) for group in groups)
    grid = replace(grid, n_micro_steps=needed, counts=Counts.FREE)
    cell = np.empty(len(tokens), dtype=np.int32)
    for number, group in enumerate(groups):
        bin_of = _within_cap(tokens[group], weights[group], n_ranks * needed, max_tokens)
        cost = sums_by_key(weights[group], bin_of, n_ranks * needed)
        if rank is None:
            cell[group] = Auto().plan(Problem(cost, replace(grid, counts=Counts.EQUAL))).cell[bin_of]
        else:  # heavy cells of all ranks in the same micro-steps
            micro_step = np.argsort(descending_order(cost)).astype(np.int32)
            cell[group] = micro_step[bin_of] * np.int32(grid.n_ranks) + np.int32(number)
    return Plan(Problem(weights, grid), cell, "micro_batches")


def _groups(rank: ArrayLike | None, n: int, n_ranks: int) -> list[Int64]:
    """Return the samples that are planned together: all, or those bound to each rank."""
    if rank is None:
        return [np.arange(n)]
    bound = as_int64("rank", rank, InvalidProblem, remedy="Ranks count from 0.", most=n_ranks - 1)
    if len(bound) != n:
        raise InvalidProblem(f"rank must have one value per sample; {len(bound)} for {n}.")
    return [np.flatnonzero(bound == each) for each in range(n_ranks)]


def _fewest_micro_steps(tokens: Int64, n_ranks: int, cap: int, multiple_of: int) -> int:
    """Return the multiple of ``multiple_of`` that best fit decreasing needs, or the next smaller if a search fits."""
    n_cells = int(_packed(tokens, cap).max(initial=-1)) + 1
    steps = max(-(-n_cells // (n_ranks * multiple_of)), 1) * multiple_of
    fewer = steps - multiple_of
    if fewer > 0 and int(tokens.sum()) <= cap * n_ranks * fewer and _filled(tokens, n_ranks * fewer, cap) is not None:
        return fewer
    return steps


def _within_cap(tokens: Int64, weights: Int64, n_cells: int, cap: int) -> Int32:
    """Return the cell of each sample, (n,): no cell above the cap, costs as even as found."""
    packed = _packed(tokens, cap)
    if packed.max(initial=-1) >= n_cells:
        filled = _filled(tokens, n_cells, cap)
        assert filled is not None, "it was found when the micro-steps were counted"
        packed = filled
    problem = Problem(weights, n_cells)
    starts = [lpt(weights, problem.heaviest_first, n_cells, 0, len(weights)), packed]
    candidates = [each for start in starts for each in (start, refined(problem, start))]
    fitting = [each for each in candidates if sums_by_key(tokens, each, n_cells).max() <= cap]
    return min(fitting, key=lambda each: int(sums_by_key(weights, each, n_cells).max()))


def _packed(tokens: Int64, cap: int) -> Int32:
    """Return the cells of best fit decreasing, (n,), as many as it needs; by first fit where the cap is huge."""
    return best_fit_decreasing(tokens, cap) if cap <= LARGEST_COUNTED else decreasing(first_fit, tokens, cap)


def _filled(tokens: Int64, n_cells: int, cap: int) -> Int32 | None:
    """Return the cell of each sample, (n,), if a search finds room for all in ``n_cells`` cells."""
    order = descending_order(tokens)
    bins, _, fits = fill(tokens[order], n_cells, cap, NODES)
    cell = np.empty(len(tokens), dtype=np.int32)
    cell[order] = bins
    return cell if fits else None
