"""Costs and optima by definition, in plain Python integers: what everything else is held to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from .constraints import Cap, Pinned
from .grid import NOMINAL, Barrier
from .problem import Problem

__all__ = ["allowed", "brute_force_cost", "naive_cost", "step_optimum"]


def naive_cost(problem: Problem, cells: list[int]) -> int:
    """Return the cost of an assignment, in plain Python integers, by the definition of the barrier."""
    grid, loads = problem.grid, problem.by_stage.tolist()
    slowdown = grid.slowdown or (NOMINAL,) * grid.n_ranks
    ranks, steps = range(grid.n_ranks), range(grid.total_micro_steps)

    def busy(rank: int, micro_steps: range, stage: int | None) -> int:
        mine = [micro_step * grid.n_ranks + rank for micro_step in micro_steps]
        load = sum(
            sum(load) if stage is None else load[stage] for load, c in zip(loads, cells, strict=True) if c in mine
        )
        return -(-load * slowdown[rank] // NOMINAL)

    rows = [range(step, step + 1) for step in steps]
    if grid.barrier is Barrier.STEP:
        rows = [range(step, step + grid.n_micro_steps) for step in steps[:: grid.n_micro_steps]]
    stages = range(len(grid.stages)) if grid.barrier is Barrier.STAGE else (None,)
    return sum(max(busy(rank, row, stage) for rank in ranks) for row in rows for stage in stages)


def allowed(problem: Problem, cells: Sequence[int]) -> bool:
    """Return whether an assignment respects counts and constraints, by their definition."""
    grid = problem.grid
    if any(not problem.fewest_per_cell <= cells.count(c) <= problem.most_per_cell for c in range(grid.n_cells)):
        return False
    for each in problem.constraints:
        values = each.values.tolist()
        if isinstance(each, Cap):
            held = [0] * grid.n_cells
            for c, amount in zip(cells, values, strict=True):
                held[c] += amount
            if max(held) > each.limit:
                return False
            continue
        where: dict[int, int] = {}
        for c, key in zip(cells, values, strict=True):
            rank = c % grid.n_ranks
            wanted = key if isinstance(each, Pinned) else where.setdefault(key, rank)
            if key >= 0 and rank != wanted:
                return False
    return True


def step_optimum(problem: Problem) -> int:
    """Return the optimum for the barrier STEP: every rank for every pack in turn, but worse and equal branches cut."""
    loads = sorted(problem.total.tolist(), reverse=True)
    n_ranks, n = problem.grid.n_ranks, problem.n_packs
    fewest = problem.fewest_per_cell * problem.grid.n_micro_steps
    most = problem.most_per_cell * problem.grid.n_micro_steps
    best: int = sum(loads) + 1

    def place(i: int, sums: tuple[int, ...], counts: tuple[int, ...]) -> None:
        nonlocal best
        if max(sums) >= best or sum(max(fewest - count, 0) for count in counts) > n - i:
            return
        if i == n:
            best = max(sums)
            return
        tried = set()
        for r in range(n_ranks):
            if counts[r] < most and (sums[r], counts[r]) not in tried:
                tried.add((sums[r], counts[r]))
                grown = sums[r] + loads[i]
                place(i + 1, (*sums[:r], grown, *sums[r + 1 :]), (*counts[:r], counts[r] + 1, *counts[r + 1 :]))

    place(0, (0,) * n_ranks, (0,) * n_ranks)
    return best


def brute_force_cost(problem: Problem) -> int:
    """Return the optimum by trying all n_cells ** n_packs assignments; ValueError if none of them is allowed."""
    choices = product(range(problem.grid.n_cells), repeat=problem.n_packs)
    return min(naive_cost(problem, list(each)) for each in choices if allowed(problem, each))
