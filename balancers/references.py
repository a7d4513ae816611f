"""Costs and optima by definition, in plain Python integers: what everything else is held to."""

from __future__ import annotations

from itertools import product

from .grid import Barrier
from .problem import Problem

__all__ = ["brute_force_cost", "naive_cost", "step_optimum"]


def naive_cost(problem: Problem, cells: list[int]) -> int:
    """Return the cost of an assignment, in plain Python integers, by the definition of the barrier."""
    grid, loads = problem.grid, problem.by_stage.tolist()
    ranks, steps = range(grid.n_ranks), range(grid.n_micro_steps)

    def busy(rank: int, micro_step: int, stage: int | None) -> int:
        cell = micro_step * grid.n_ranks + rank
        return sum(
            sum(load) if stage is None else load[stage] for load, c in zip(loads, cells, strict=True) if c == cell
        )

    if grid.barrier is Barrier.STEP:
        return max(sum(busy(rank, step, None) for step in steps) for rank in ranks)
    stages = range(len(grid.stages)) if grid.barrier is Barrier.STAGE else (None,)
    return sum(max(busy(rank, step, stage) for rank in ranks) for step in steps for stage in stages)


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
    """Return the optimum by trying all n_cells ** n_packs assignments."""
    fewest, most = problem.fewest_per_cell, problem.most_per_cell
    cells = range(problem.grid.n_cells)
    return min(
        naive_cost(problem, list(choice))
        for choice in product(cells, repeat=problem.n_packs)
        if all(fewest <= choice.count(c) <= most for c in cells)
    )
