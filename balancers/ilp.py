"""Exact planning with a constraint solver: OR-Tools CP-SAT."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from packing.arrays import Int32, Int64
from packing.errors import InvalidParameter

from .auto import Auto
from .base import Balancer
from .cells import bins_of, cells_of
from .errors import Infeasible, NoPlanFound
from .grid import Barrier
from .ilp_cells import CellModel
from .plan import Assignment, Plan, Status
from .problem import Problem

__all__ = ["ILP"]

MOST_VARIABLES = 200_000  # different loads x bins: a model of more takes seconds only to build
SMALL = 20_000  # variables that are built and presolved in about a second; a unit of the solver's time is longer beyond
LARGEST_SUM = 2**60  # of the loads in quanta: the solver's own sums stay in int64
LARGEST_SUM_OF_PEAKS = 2**30  # with several peaks to add; OR-Tools 9.15 proves wrong things from about 2**34 on
LARGEST_BOUND = 2**40  # in quanta: up to here a float is exact enough to be a bound


@dataclass(frozen=True)
class ILP(Balancer):
    """Search for a plan that costs less than that of ``start``, or prove that there is none.

    An integer program: how many packs of each load go into each bin; with constraints, slow ranks or stages: which pack
    goes into which cell. Also: exact P||Cmax, number partitioning. Where ``start`` finds no plan, the solver looks for
    one, or proves that there is none (`Infeasible`).

    Guarantee: never worse than ``start``; `Plan.lower_bound` is what the solver proved, and the status says how it
    ended: OPTIMAL, FEASIBLE (better than ``start``, no proof) or FALLBACK (the plan of ``start``: nothing better was
    found within the limit). Where ``start`` meets the bound, with ``limit=0``, and for more than 20,000 variables per
    second of the limit, which it would spend on reading the model, the solver is not called.

    ``limit`` is CP-SAT's deterministic time, about seconds, not the clock (less of it in models of many variables,
    where it passes more slowly); with one worker and a fixed seed the same build of OR-Tools gives the same plan. Made
    for up to some hundred packs, or thousands of few different loads; elsewhere `Auto` comes as close in a fraction
    of the time. Ties: equal loads by index, ranks in the order of their heaviest pack.
    """

    start: Balancer = Auto()
    limit: float = 1.0

    takes_constraints = takes_slowdown = True
    # Another build of the solver may search in another order: one rank plans, and the others take its cells.
    portable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.limit, bool) or not isinstance(self.limit, int | float) or not 0 <= self.limit < math.inf:
            raise InvalidParameter(
                f"ILP.limit must be a finite number >= 0 of deterministic seconds; got {self.limit!r}."
            )

    def refusal(self, problem: Problem) -> str | None:
        reason = super().refusal(problem) or self.start.refusal(problem)
        if reason is not None or problem.n_packs == 0:
            return reason
        n_variables = _n_variables(problem)
        if n_variables > MOST_VARIABLES:
            return (
                f"different loads x bins are {n_variables} variables, more than {MOST_VARIABLES}. "
                f"Use {self.start!r}, or coarser loads"
            )
        if not problem.is_plain:
            return CellModel.of(problem).refusal()
        scale = _Scale.of(problem)
        total = int(scale.quanta(problem.total).sum())
        limit = LARGEST_SUM if problem.grid.barrier is Barrier.STEP else LARGEST_SUM_OF_PEAKS
        if total >= limit:
            return f"the loads sum to {total} x their common step {scale.step}; the solver takes sums below {limit}"
        return None

    def assign(self, problem: Problem) -> Assignment:
        try:
            plan: Plan | None = self.start.plan(problem)
        except NoPlanFound:
            if self.limit == 0:
                raise
            plan = None  # the solver starts from nothing
        if plan is not None and (self.limit == 0 or plan.cost == plan.lower_bound):
            return Assignment(plan.cell, plan.lower_bound, Status.FALLBACK)
        if plan is not None and _n_variables(problem) > SMALL * (1 + self.limit):
            return Assignment(plan.cell, plan.lower_bound, Status.FALLBACK)
        if plan is not None and problem.is_plain:
            return _search(problem, plan, float(self.limit))
        return self._search_cells(problem, plan)

    def _search_cells(self, problem: Problem, start: Plan | None) -> Assignment:
        model = CellModel.of(problem)
        try:
            answer = model.solve(_solver(self.limit / (1 + model.n_variables / SMALL)), start)
        except TimeoutError:
            raise NoPlanFound(f"{self!r} found no plan within its limit; there may be one. Raise the limit.") from None
        if answer is None:
            named = ", ".join(map(str, problem.constraints)) or "the counts"
            raise Infeasible(f"no plan respects {named}: proven by search. Relax one, or use more micro-steps.")
        return answer


def _n_variables(problem: Problem) -> int:
    if problem.is_plain:
        return len(np.unique(problem.total)) * bins_of(problem).n_bins
    return CellModel.of(problem).n_variables


class _Scale(NamedTuple):
    """Loads in quanta: counted from ``least`` in units of ``step``; ``offset`` is what ``least`` adds to the cost.

    With the same number of packs in every bin only differences matter, and their common divisor is often large.
    """

    least: int
    step: int
    offset: int

    @classmethod
    def of(cls, problem: Problem) -> _Scale:
        bins, loads = bins_of(problem), problem.total
        least = int(loads.min()) if bins.fewest == bins.most else 0
        n_rows = bins.n_bins // problem.grid.n_ranks
        return cls(least, int(np.gcd.reduce(loads - least)) or 1, n_rows * bins.most * least)

    def quanta(self, loads: Int64) -> Int64:
        return (loads - self.least) // self.step

    def down(self, cost: int) -> int:
        """Return a cost in quanta, rounded up: no plan costs anything between."""
        return -((self.offset - cost) // self.step)

    def up(self, quanta: int) -> int:
        return self.offset + quanta * self.step


def _search(problem: Problem, start: Plan, limit: float) -> Assignment:
    """Look for a plan that costs less than ``start``: ``count[kind][bin]`` packs of each kind of load in each bin.

    Bins stand in rows that wait together: the ranks, or the cells of each micro-step. Bins of a row are
    interchangeable, and so are rows: both are numbered by their heaviest pack, so that bin ``column`` of ``row`` takes
    packs only from place ``row + column`` of the heaviest first.
    """
    (n_bins, fewest, most), n_ranks, order = bins_of(problem), problem.grid.n_ranks, problem.heaviest_first
    scale = _Scale.of(problem)
    loads = scale.quanta(problem.total[order])
    first = np.flatnonzero(np.diff(loads, prepend=-1))  # place of the first pack of each kind
    size = np.diff(first, append=len(loads))
    row, column = np.divmod(np.arange(n_bins), n_ranks)
    fit = np.minimum(size[:, None], (first + size)[:, None] - (row + column)).clip(min=0)  # (n_kinds, n_bins)
    hint = np.zeros_like(fit)
    started = _numbered(start.rank if problem.grid.barrier is Barrier.STEP else start.cell, order, n_ranks)
    np.add.at(hint, (np.repeat(np.arange(len(size)), size), started[order]), 1)

    lowest, highest, total = scale.down(start.lower_bound), scale.down(start.cost) - 1, int(loads.sum())
    model, sum_of = cp_model.CpModel(), cp_model.LinearExpr.sum
    peaks = [model.new_int_var(0, highest, "") for _ in range(n_bins // n_ranks)]  # the fullest bin of each row
    model.add_linear_constraint(sum_of(peaks), lowest, highest)
    model.minimize(sum_of(peaks))
    count = [[model.new_int_var(0, high, "") for high in highs] for highs in fit.tolist()]
    for bins, n_packs in zip(count, size.tolist(), strict=True):
        model.add(sum_of(bins) == n_packs)
    values = loads[first].tolist()
    for bin_, kinds in enumerate(zip(*count, strict=True)):
        load, peak = cp_model.LinearExpr.weighted_sum(kinds, values), peaks[row[bin_]]
        model.add(load <= peak)
        # What the other bins cannot take is here: they hold at most n_ranks x the cost without this bin's share.
        model.add(load >= total - n_ranks * highest + (highest if len(peaks) == 1 else peak))
        if (fewest, most) != (0, problem.n_packs):
            model.add_linear_constraint(sum_of(kinds), fewest, most)

    # at once: `add_hint` for each variable takes as long as making it
    model.proto.solution_hint.vars.extend([variable.index for bins in count for variable in bins])
    model.proto.solution_hint.values.extend(hint.ravel().tolist())

    solver = _solver(limit / (1 + fit.size / SMALL))
    status = solver.solve(model)
    assert status != cp_model.MODEL_INVALID, model.validate()
    if status == cp_model.INFEASIBLE:
        return Assignment(start.cell, start.cost, Status.FALLBACK)
    bound = lowest
    if highest < LARGEST_BOUND:  # the solver's bound is a float, here within 1e-3 of an integer
        bound = math.floor(max(solver.best_objective_bound, lowest) + 1e-3)
    if status == cp_model.UNKNOWN:
        return Assignment(start.cell, scale.up(bound), Status.FALLBACK)
    if status == cp_model.OPTIMAL and highest < LARGEST_BOUND:
        bound = sum(solver.value(peak) for peak in peaks)
    found = [[solver.value(variable) for variable in bins] for bins in count]
    bin_of = np.empty(problem.n_packs, dtype=np.int32)
    bin_of[order] = np.repeat(np.tile(np.arange(n_bins), len(found)), np.ravel(found))
    return Assignment(cells_of(problem, _numbered(bin_of, order, n_ranks)), scale.up(bound), Status.FEASIBLE)


def _solver(limit: float) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = limit
    solver.parameters.interleave_search = True  # several strategies in turn, still deterministic
    solver.parameters.cp_model_probing_level = 0  # on large models it would use up the limit
    solver.parameters.max_presolve_iterations = 1
    # This step adds coefficients in 32 bits (OR-Tools 9.15): beyond 2**31 it loses solutions, and proofs are wrong.
    solver.parameters.presolve_inclusion_work_limit = 0
    return solver


def _numbered(bin_of: Int32, order: Int64, n_ranks: int) -> Int32:
    """Renumber rows of bins, and the bins in each, as ``order`` first meets them."""
    rows: dict[int, tuple[int, dict[int, int]]] = {}
    result = np.empty_like(bin_of)
    for pack in order.tolist():
        row, column = divmod(int(bin_of[pack]), n_ranks)
        number, columns = rows.setdefault(row, (len(rows), {}))
        result[pack] = number * n_ranks + columns.setdefault(column, len(columns))
    return result
