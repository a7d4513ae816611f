"""The fewest packs, proven, by a constraint solver: OR-Tools CP-SAT."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from .arrays import Int32, Int64
from .base import Packer
from .bounds import fewest_packs
from .column_generation import column_generation_bound
from .errors import InvalidParameter
from .policies import Pieces
from .samples import Limits, Samples
from .vector import VectorBestFitDecreasing

__all__ = ["Exact", "ExactAnswer", "ExactStatus"]

MOST_SAMPLES = 1_000
MOST_VARIABLES = 100_000  # kinds of pieces x packs: a model of more takes seconds only to build
LARGEST_SUM = 2**60  # of a limit's amounts: the solver's own sums stay in int64
BOUND_STEPS = 20_000_000  # of column generation, some hundredths of a second


class ExactStatus(Enum):
    """How the search ended."""

    OPTIMAL = "optimal"  # no packing has fewer packs: proven
    FEASIBLE = "feasible"  # fewer packs than best fit decreasing, no proof
    FALLBACK = "fallback"  # the packs of best fit decreasing: nothing better was found within the limit


class ExactAnswer(NamedTuple):
    """``pack_of``: (n,) pack of each piece; ``lower_bound``: packs that any packing needs, proven."""

    pack_of: Int32
    lower_bound: int
    status: ExactStatus


@dataclass(frozen=True)
class Exact(Packer):
    """Best fit decreasing, then a search for fewer packs, or for the proof that there are none. Any number of limits.

    An integer program: how many pieces of each kind go into each pack. `solve` tells bound and status as well.
    Guarantee: the optimum where the search ends within ``limit``, never worse than `VectorBestFitDecreasing`. Where
    that meets a bound (`fewest_packs`, `column_generation_bound`), with ``limit=0``, and for more than 100,000
    variables the solver is not called. Made for up to some 100 pieces: for one limit `ColumnGeneration` is the better
    choice, and is the same on every machine.

    ``limit`` is CP-SAT's deterministic time, about seconds, not the clock; with one worker and a fixed seed the same
    build of OR-Tools gives the same packs. Another build may not: let one rank pack. Ties: equal pieces by index.
    """

    limit: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.limit, bool) or not isinstance(self.limit, int | float) or not 0 <= self.limit < math.inf:
            raise InvalidParameter(
                f"Exact.limit must be a finite number >= 0 of deterministic seconds; got {self.limit!r}."
            )

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        if len(samples) > MOST_SAMPLES:
            return f"it takes at most {MOST_SAMPLES} samples; got {len(samples)}. Use ColumnGeneration."
        for name, _ in limits.budgets:
            total = int(samples.columns[name].sum()) if name in samples.columns else 0
            if total >= LARGEST_SUM:
                return f"{name} sum to {total}; the solver takes sums below {LARGEST_SUM}. Use coarser amounts."
        return VectorBestFitDecreasing().refusal(samples, limits)

    def group(self, pieces: Pieces) -> Int32:
        return self.solve(pieces.sizes, pieces.caps).pack_of

    def solve(self, sizes: Int64, caps: Int64) -> ExactAnswer:
        """Return packs for pieces ``sizes`` (n, k) under limits ``caps`` (k,), and what is proven of their number."""
        start = VectorBestFitDecreasing().group(Pieces(sizes, caps, np.zeros((len(sizes), 0), dtype=np.int64)))
        n_packs = int(start.max(initial=-1)) + 1
        bound = fewest_packs(sizes, caps)
        if bound < n_packs and len(caps) == 1:
            bound = max(bound, column_generation_bound(sizes[:, 0], int(caps[0]), steps=BOUND_STEPS))
        if bound == n_packs:
            return ExactAnswer(start, bound, ExactStatus.OPTIMAL)
        kinds, kind_of, counts = np.unique(sizes, axis=0, return_inverse=True, return_counts=True)
        if self.limit == 0 or len(kinds) * n_packs > MOST_VARIABLES:
            return ExactAnswer(start, bound, ExactStatus.FALLBACK)
        return _search(kinds, kind_of.ravel(), counts, caps, start, bound, float(self.limit))


def _search(
    kinds: Int64, kind_of: Int64, counts: Int64, caps: Int64, start: Int32, bound: int, limit: float
) -> ExactAnswer:
    """Look for fewer packs than ``start`` has, down to ``bound``: ``put[kind][pack]`` pieces of each kind in each pack.

    Packs are interchangeable: those in use come first, by falling amounts of the first limit.
    """
    most = int(start.max())  # one fewer than there are
    model, sum_of = cp_model.CpModel(), cp_model.LinearExpr.weighted_sum
    used = [model.new_bool_var("") for _ in range(most)]
    unit = np.gcd(np.gcd.reduce(kinds, axis=0), caps).clip(min=1)  # what all amounts of a limit are multiples of
    fit = np.where(kinds > 0, caps // np.maximum(kinds, 1), counts[:, None]).min(axis=1)
    put = [[model.new_int_var(0, high, "") for _ in range(most)] for high in np.minimum(fit, counts).tolist()]
    for row, count in zip(put, counts.tolist(), strict=True):
        model.add(cp_model.LinearExpr.sum(row) == count)
    for k, (sizes, cap) in enumerate(zip((kinds // unit).T.tolist(), (caps // unit).tolist(), strict=True)):
        held = [sum_of(column, sizes) for column in zip(*put, strict=True)]
        for pack in range(most):
            model.add(held[pack] <= cap * used[pack])
            if k == 0 and pack:
                model.add(held[pack] <= held[pack - 1])
    for before, after in pairwise(used):
        model.add_implication(after, before)
    n_used = cp_model.LinearExpr.sum(used)
    model.add_linear_constraint(n_used, bound, most)
    model.minimize(n_used)
    _hint(model, put, kinds, kind_of, start)

    solver = _solver(limit)
    status = solver.solve(model)
    assert status != cp_model.MODEL_INVALID, model.validate()
    if status == cp_model.INFEASIBLE:
        return ExactAnswer(start, most + 1, ExactStatus.OPTIMAL)
    bound = max(bound, math.ceil(solver.best_objective_bound - 1e-3))
    if status == cp_model.UNKNOWN:
        return ExactAnswer(start, bound, ExactStatus.FALLBACK)
    taken = np.array([[solver.value(variable) for variable in row] for row in put])
    pack_of = np.empty(len(kind_of), dtype=np.int32)
    pack_of[np.argsort(kind_of, kind="stable")] = np.repeat(np.tile(np.arange(most), len(put)), taken.ravel())
    n_packs = int(pack_of.max()) + 1
    optimal = status == cp_model.OPTIMAL or bound == n_packs
    return ExactAnswer(pack_of, n_packs if optimal else bound, ExactStatus.OPTIMAL if optimal else ExactStatus.FEASIBLE)


def _hint(
    model: cp_model.CpModel, put: list[list[cp_model.IntVar]], kinds: Int64, kind_of: Int64, start: Int32
) -> None:
    """Tell the solver the fullest packs of ``start``."""
    held = np.bincount(start, kinds[kind_of, 0])
    rank = np.empty(len(held), dtype=np.int64)
    rank[np.argsort(-held, kind="stable")] = np.arange(len(held))
    hint = np.zeros((len(put), len(held)), dtype=np.int64)
    np.add.at(hint, (kind_of, rank[start]), 1)
    for row, values in zip(put, hint.tolist(), strict=True):
        for variable, value in zip(row, values, strict=False):
            model.add_hint(variable, value)


def _solver(limit: float) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = limit
    solver.parameters.interleave_search = True  # several strategies in turn, still deterministic
    # This step adds coefficients in 32 bits (OR-Tools 9.15): beyond 2**31 it loses solutions, and proofs are wrong.
    solver.parameters.presolve_inclusion_work_limit = 0
    return solver
