"""Wrappers around hill climbing: from a plan, or from the plan of a problem without its constraints."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from packing.arrays import Int32, Int64, sums_by_key

from .base import Balancer
from .cells import cells_of
from .climbing import climb, mended
from .constraints import unit_numbers
from .feasibility import no_plan
from .grid import Barrier, Counts, Grid
from .list_scheduling import ListScheduling
from .lpt import LPT
from .plan import Assignment, Plan
from .problem import Problem
from .refine import Refine
from .verification import busy_times

__all__ = ["HillClimb", "Relax"]


@dataclass(frozen=True)
class HillClimb(Balancer):
    """Improve the plan of ``inner`` by moving and exchanging single packs and groups (`climbing`), under any barrier,
    constraint and speed. Where ranks are alike and nothing is constrained `Refine` is better and faster.

    Guarantee: never worse than ``inner``. Time: at most 2,000 exchanges looked at per pack, 0.3 us each. Ties: first.
    """

    inner: Balancer = ListScheduling()

    takes_constraints = takes_slowdown = True

    def refusal(self, problem: Problem) -> str | None:
        return super().refusal(problem) or self.inner.refusal(problem)

    def assign(self, problem: Problem) -> Assignment | Plan:
        plan = self.inner.plan(problem)
        if plan.cost <= plan.lower_bound:
            return plan
        better = Plan(problem, climb(problem, plan.cell))
        return Assignment(min(plan, better, key=lambda each: each.key).cell, plan.lower_bound)


@dataclass(frozen=True)
class Relax(Balancer):
    """Plan without the constraints by ``inner``, send groups and bound packs to their rank, and mend what is broken.

    Where only the total of a rank counts (STEP), groups are planned as single packs, so that nothing tears them apart.
    Stages that are waited for one by one become one load per micro-step: their sum, or one of them alone, whichever is
    planned best. Where constraints bind nowhere the plan is that of ``inner``, with its proof. Raises `NoPlanFound` if
    it cannot be mended. Time: that of ``inner`` for each load, and 1,000 exchanges looked at per pack to mend.
    """

    inner: Balancer = Refine(LPT())

    takes_constraints = True

    def refusal(self, problem: Problem) -> str | None:
        if problem.grid.n_steps > 1:
            return "caps per cell keep this window of steps from being planned as one. Use ListScheduling"
        relaxed = _merged(problem)[0] if problem.grid.barrier is Barrier.STEP else _summed(problem)[0]
        return super().refusal(problem) or self.inner.refusal(relaxed)

    def assign(self, problem: Problem) -> Assignment:
        if problem.grid.barrier is Barrier.STEP:
            relaxed, unit = _merged(problem)
            plan = self.inner.plan(relaxed)
            start, proven = cells_of(problem, plan.rank[unit]), plan.lower_bound
        else:
            plans = [self.inner.plan(relaxed) for relaxed in _summed(problem)]
            starts = [plan.cell for plan in plans]
            start = min(starts, key=lambda cell: int(busy_times(problem, cell).max(axis=1).sum()))
            proven = plans[0].lower_bound if len(plans) == 1 else 0
        cell = mended(problem, _gathered(problem, start))
        if cell is None:
            raise no_plan(problem, self)
        return Assignment(cell, proven)


def _merged(problem: Problem) -> tuple[Problem, Int64]:
    """Return the problem of groups as packs, of which only the rank counts, and the group of each pack, (n_packs,)."""
    unit = unit_numbers(problem.group)
    sizes = np.bincount(unit)
    loads = sums_by_key(problem.total, unit, len(sizes))
    grid = problem.grid
    counts: Counts | tuple[int, int] = Counts.FREE
    size = int(sizes.max(initial=1))
    if (sizes == size).all() and grid.counts is not Counts.FREE:
        per_rank = [count * grid.n_micro_steps for count in (problem.fewest_per_cell, problem.most_per_cell)]
        fewest, most = -(-per_rank[0] // size), min(per_rank[1], problem.n_packs) // size
        if fewest * grid.n_ranks <= len(sizes) <= most * grid.n_ranks:
            counts = (fewest, most)
    return Problem(loads, Grid(grid.n_ranks, counts=counts), step=problem.step), unit


def _summed(problem: Problem) -> list[Problem]:
    """Return the problems without constraints that stand for ``problem``, stages summed and each of them alone."""
    grid = problem.grid
    if grid.barrier is not Barrier.STAGE:
        return [replace(problem, constraints=())]
    whole = replace(grid, barrier=Barrier.MICRO_STEP, stages=("load",))
    columns = [problem.total, *(problem.by_stage.T if len(grid.stages) > 1 else ())]
    return [replace(problem, loads=column, grid=whole, constraints=()) for column in columns]


def _gathered(problem: Problem, cell: Int32) -> Int32:
    """Return ``cell`` with bound packs on their rank and every group on the rank where most of its load is."""
    n_ranks = np.int32(problem.grid.n_ranks)
    micro_step, rank = np.divmod(cell, n_ranks)
    grouped = problem.group >= 0
    if grouped.any():
        pairs, which = np.unique(problem.group[grouped] * n_ranks + rank[grouped], return_inverse=True)
        load = sums_by_key(problem.total[grouped], which, len(pairs))
        group, on = np.divmod(pairs, n_ranks)
        order = np.lexsort((on, -load, group))
        _, first = np.unique(group[order], return_index=True)
        rank[grouped] = on[order][first][problem.group[grouped]]
    rank = np.where(problem.pin >= 0, problem.pin, rank)
    return (micro_step * n_ranks + rank).astype(np.int32)
