"""The integer program of problems with constraints, slow ranks, or stages: which pack goes to which cell."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from packing.arrays import Int32, Int64

from .cells import cells_of
from .constraints import Cap
from .grid import NOMINAL, Barrier
from .places import Places, places_of
from .plan import Assignment, Plan, Status
from .problem import Problem

__all__ = ["CellModel"]

LARGEST_SUM = 2**40  # of times, in common steps, with a single row to minimise
LARGEST_SUM_OF_PEAKS = 2**30  # with several; OR-Tools 9.15 proves wrong things from about 2**34 on


class CellModel(NamedTuple):
    """What the model is made of. Bins are cells, or ranks where only a rank's sum counts and nothing caps a cell.

    Times are in units of ``step`` loads on a rank of slowdown ``nominal``: both are divided by common divisors.
    """

    problem: Problem
    places: Places
    n_micro_steps: int  # 1: bins are ranks
    step: int
    nominal: int
    slowdown: Int64

    @classmethod
    def of(cls, problem: Problem) -> CellModel:
        grid, places = problem.grid, places_of(problem)
        capped = len(places.limits) > 0
        by_rank = grid.barrier is Barrier.STEP and grid.n_steps == 1 and not capped
        common = math.gcd(NOMINAL, *places.slowdown.tolist())
        step = int(np.gcd.reduce(places.loads, axis=None)) or 1
        step = step if common == NOMINAL else 1  # times are rounded up to whole loads
        n_micro_steps = 1 if by_rank else grid.total_micro_steps
        return cls(problem, places, n_micro_steps, step, NOMINAL // common, places.slowdown // common)

    @property
    def n_bins(self) -> int:
        return self.n_micro_steps * self.problem.grid.n_ranks

    @property
    def n_variables(self) -> int:
        return self.problem.n_packs * self.n_bins

    def refusal(self) -> str | None:
        """Return why the solver cannot be trusted with times of this size, or None if it can."""
        total = int(self.places.loads.sum()) // self.step * int(self.slowdown.max())
        n_rows = int(self.places.row_of[-1]) + 1
        limit = LARGEST_SUM if n_rows * self.places.loads.shape[1] == 1 else LARGEST_SUM_OF_PEAKS
        return None if total < limit else f"times sum to {total} common steps; the solver takes sums below {limit}"

    def solve(self, solver: cp_model.CpSolver, start: Plan | None) -> Assignment | None:
        """Return a plan that costs less than ``start``, or ``start`` with what was proven; without start, any plan.

        None: there is no plan at all (proven). Raises `TimeoutError` if no plan was found, but there may be one.
        """
        problem, places = self.problem, self.places
        n_ranks, order = problem.grid.n_ranks, problem.heaviest_first
        loads = places.loads // self.step
        highest = int(loads.sum()) * int(self.slowdown.max()) if start is None else -(-start.cost // self.step) - 1
        lowest = -(-problem.lower_bound // self.step)
        model, sum_of = cp_model.CpModel(), cp_model.LinearExpr.weighted_sum
        put = np.full((problem.n_packs, self.n_bins), -1)  # number of the variable that puts a pack into a bin
        for place, pack in enumerate(order.tolist()):
            bins = self._bins_for(pack, place)
            put[pack, bins] = np.arange(len(bins)) + int(put.max(initial=-1)) + 1
        variables = [model.new_bool_var("") for _ in range(int(put.max()) + 1)]
        for row in put:
            model.add_exactly_one(_of(variables, row))
        self._limit(model, put, variables)
        for pack, other in self._same_rank():
            for rank in range(n_ranks):
                one, two = (cp_model.LinearExpr.sum(_of(variables, put[each, rank::n_ranks])) for each in (pack, other))
                model.add(one == two)
        n_rows = 1 if self.n_micro_steps == 1 else int(places.row_of[-1]) + 1
        peaks = [[model.new_int_var(0, highest, "") for _ in range(loads.shape[1])] for _ in range(n_rows)]
        for row_number in range(n_rows):
            cells = np.flatnonzero(np.repeat(places.row_of[: self.n_micro_steps], n_ranks) == row_number)
            for rank in range(n_ranks):
                here = put[:, cells[cells % n_ranks == rank]]
                for stage, peak in enumerate(peaks[row_number]):
                    weights = np.broadcast_to(loads[:, stage, None], here.shape)[here >= 0] * self.slowdown[rank]
                    model.add(sum_of(_of(variables, here), weights.tolist()) <= self.nominal * peak)
        cost = cp_model.LinearExpr.sum([peak for row_peaks in peaks for peak in row_peaks])
        model.add_linear_constraint(cost, lowest, highest)
        model.minimize(cost)
        if start is not None:
            self._hint(model, put, variables, start.cell)

        status = solver.solve(model)
        assert status != cp_model.MODEL_INVALID, model.validate()
        if status == cp_model.INFEASIBLE:
            return None if start is None else Assignment(start.cell, start.cost, Status.FALLBACK)
        bound = math.floor(max(solver.best_objective_bound, lowest) + 1e-3) * self.step
        if status == cp_model.UNKNOWN:
            if start is None:
                raise TimeoutError
            return Assignment(start.cell, bound, Status.FALLBACK)
        chosen = np.array([*map(solver.value, variables), 0], dtype=np.int64)  # -1 picks the 0 behind the last
        bin_of = np.argmax(chosen[put], axis=1).astype(np.int32)
        by_rank = self.n_micro_steps < problem.grid.total_micro_steps
        return Assignment(cells_of(problem, bin_of) if by_rank else bin_of, bound, Status.FEASIBLE)

    def _bins_for(self, pack: int, place: int) -> list[int]:
        """Return the bins for the pack that is at ``place`` of the heaviest first.

        Micro-steps that are alike, and ranks, are numbered as the packs in this order come to them.
        """
        grid = self.problem.grid
        pin = int(self.problem.pin[pack])
        ranks = [pin] if pin >= 0 else range(min(place + 1, grid.n_ranks) if self.problem.ranks_alike else grid.n_ranks)
        micro_steps = range(min(place + 1, self.n_micro_steps) if grid.n_steps == 1 else self.n_micro_steps)
        return [micro_step * grid.n_ranks + rank for micro_step in micro_steps for rank in ranks]

    def _same_rank(self) -> list[tuple[int, int]]:
        """Return pairs of packs that chain each group together."""
        groups: dict[int, int] = {}
        pairs = []
        for pack, group in enumerate(self.problem.group.tolist()):
            if group >= 0:
                if group in groups:
                    pairs.append((groups[group], pack))
                groups[group] = pack
        return pairs

    def _limit(self, model: cp_model.CpModel, put: Int64, variables: list[cp_model.IntVar]) -> None:
        """Add counts and caps of every bin."""
        problem = self.problem
        dealt = problem.grid.total_micro_steps // self.n_micro_steps  # micro-steps to a bin
        fewest, most = problem.fewest_per_cell * dealt, problem.most_per_cell * dealt
        caps = [each for each in problem.constraints if isinstance(each, Cap)]
        for bin_ in range(self.n_bins):
            used, here = np.flatnonzero(put[:, bin_] >= 0), _of(variables, put[:, bin_])
            if (fewest, most) != (0, problem.n_packs):
                model.add_linear_constraint(cp_model.LinearExpr.sum(here), fewest, most)
            for cap in caps:
                unit = int(np.gcd.reduce(cap.amounts)) or 1
                amounts = (cap.amounts[used] // unit).tolist()
                model.add(cp_model.LinearExpr.weighted_sum(here, amounts) <= cap.limit // unit)

    def _hint(self, model: cp_model.CpModel, put: Int64, variables: list[cp_model.IntVar], cell: Int32) -> None:
        """Tell the solver the plan to start from, with micro-steps and ranks numbered as in `_bins_for`."""
        n_ranks = self.problem.grid.n_ranks
        ranks: dict[int, int] = {}
        micro_steps: dict[int, int] = {}
        for pack in self.problem.heaviest_first.tolist():
            micro_step, rank = divmod(int(cell[pack]), n_ranks)
            if self.problem.ranks_alike:
                rank = ranks.setdefault(rank, len(ranks))
            if self.n_micro_steps == 1:
                micro_step = 0
            elif self.problem.grid.n_steps == 1:
                micro_step = micro_steps.setdefault(micro_step, len(micro_steps))
            for bin_ in np.flatnonzero(put[pack] >= 0).tolist():
                model.add_hint(variables[put[pack, bin_]], int(bin_ == micro_step * n_ranks + rank))


def _of(variables: list[cp_model.IntVar], numbers: Int64) -> list[cp_model.IntVar]:
    """Return the variables that are there; -1 stands for none."""
    return [variables[number] for number in numbers.ravel().tolist() if number >= 0]
