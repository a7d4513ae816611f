"""Problems to test with: loads of every kind, in real sizes from a seed and in small ones from hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import strategies as st

from packing.arrays import Int64

from .base import Balancer
from .constraints import Cap, Constraint, Pinned, Together
from .grid import Barrier, Counts, Grid
from .problem import Problem

__all__ = ["FAMILIES", "grids", "large_problems", "problems"]

FAMILIES: Mapping[str, Callable[[np.random.Generator, int], Int64]] = {
    "uniform": lambda rng, n: rng.integers(1, 1_000_001, n),
    "heavy_tail": lambda rng, n: rng.lognormal(10, 1, n).astype(np.int64),
    "zero_inflated": lambda rng, n: 256 * rng.geometric(0.2, n) * (rng.random(n) < 0.5),
    "all_equal": lambda rng, n: np.full(n, rng.integers(1, 1_000_001)),
    "one_giant": lambda rng, n: np.where(np.arange(n) == n // 2, 10_000_000, rng.integers(1, 1_001, n)),
    "huge": lambda rng, n: rng.integers(2**61 // max(n, 1) // 2, 2**61 // max(n, 1) + 1, n),
}
"""Loads of any number of packs by kind, from a seeded generator: what `problems` draws, in sizes that are real."""


SLOWEST = 3000  # thousandths of time per load that are drawn


@st.composite
def grids(draw: st.DrawFn, barriers: frozenset[Barrier] = frozenset({Barrier.STEP}), max_ranks: int = 4) -> Grid:
    """Small grids with any of ``barriers``, one or two stages, and any counts but pairs."""
    return Grid(
        n_ranks=draw(st.integers(1, max_ranks)),
        n_micro_steps=draw(st.integers(1, 3)),
        barrier=draw(st.sampled_from(sorted(barriers, key=lambda barrier: barrier.value))),
        counts=draw(st.sampled_from(list(Counts))),
        stages=draw(st.sampled_from([("load",), ("load",), ("vision", "language")])),
    )


@st.composite
def problems(
    draw: st.DrawFn,
    barriers: frozenset[Barrier] = frozenset({Barrier.STEP}),
    max_ranks: int = 4,
    max_packs: int = 24,
    *,
    constraints: bool = False,
    slowdown: bool = False,
) -> Problem:
    """Small problems of all kinds, with and without a home: ties, zeros, one giant, fewer packs than cells, none.

    ``constraints``: some have caps, groups and bound packs, which at least one plan respects. ``slowdown``: some have
    ranks of different speed.
    """
    grid = draw(grids(barriers, max_ranks))
    if grid.counts is Counts.EQUAL:
        n_packs = grid.n_cells * draw(st.integers(0, max(max_packs // grid.n_cells, 1)))
    else:
        n_packs = draw(st.integers(0, max_packs))
        if draw(st.booleans()):  # a pair of bounds instead, which can be met
            fewest = draw(st.integers(0, n_packs // grid.n_cells))
            grid = replace(grid, counts=(fewest, -(-n_packs // grid.n_cells) + draw(st.integers(0, 2))))
    columns = [draw(_loads(n_packs)) for _ in grid.stages]
    loads = columns[0] if len(columns) == 1 else np.array(columns, dtype=np.int64).T // 2
    home = n_bytes = None
    if draw(st.booleans()):
        home = draw(st.permutations([i % grid.n_cells for i in range(n_packs)]))
        n_bytes = draw(st.lists(st.integers(0, 1000), min_size=n_packs, max_size=n_packs))
    if slowdown and draw(st.booleans()):
        speeds = draw(st.lists(st.integers(1, SLOWEST), min_size=grid.n_ranks, max_size=grid.n_ranks))
        grid = replace(grid, slowdown=tuple(speeds))
        loads = np.array(loads, dtype=np.int64)
        loads = loads // SLOWEST if int(loads.sum()) >= 2**62 // SLOWEST else loads
    bound = draw(_constraints(n_packs, grid)) if constraints and draw(st.booleans()) else ()
    return Problem(loads, grid, home, n_bytes, constraints=bound)


@st.composite
def _constraints(draw: st.DrawFn, n_packs: int, grid: Grid) -> tuple[Constraint, ...]:
    """Constraints that hold for packs dealt to the cells in turn, shuffled: up to two caps, groups, bound packs."""
    cell = np.array(draw(st.permutations([i % grid.n_cells for i in range(n_packs)])), dtype=np.int64)
    rank = cell % grid.n_ranks
    some = st.lists(st.integers(-1, 1), min_size=n_packs, max_size=n_packs)
    bound: list[Constraint] = []
    for name in draw(st.sampled_from([(), ("tokens",), ("tokens", "images")])):
        amounts = np.array(draw(st.lists(st.integers(0, 9), min_size=n_packs, max_size=n_packs)), dtype=np.int64)
        fullest = int(np.bincount(cell, amounts, minlength=1).max())
        bound.append(Cap(name, amounts, fullest + draw(st.integers(0, 3))))
    if draw(st.booleans()):
        label = np.array(draw(some), dtype=np.int64)
        bound.append(Together(np.where(label >= 0, 2 * rank + label, -1)))
    if draw(st.booleans()):
        bound.append(Pinned(np.where(np.array(draw(some)) > 0, rank, -1)))
    return tuple(bound)


def _loads(n: int) -> st.SearchStrategy[list[int]]:
    def each(values: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
        return st.lists(values, min_size=n, max_size=n)

    uniform = each(st.integers(1, 1000))
    return st.one_of(
        uniform,
        each(st.integers(0, 30).map(lambda exponent: 2**exponent)),  # heavy tail
        each(st.integers(-8, 8).map(lambda tiles: 256 * max(tiles, 0))),  # zero-inflated multiples of 256
        st.integers(0, 1000).map(lambda load: [load] * n),  # all equal
        uniform.map(lambda loads: [*loads[:-1], 10**6][:n]),  # one giant
        each(st.integers(2**40, 2**62 // (n + 1))),  # huge integers
    )


def large_problems(balancer: Balancer) -> dict[str, Problem]:
    """Return fixed problems of every family, by description, that ``balancer`` does not refuse."""
    rng = np.random.default_rng(0)
    result = {}
    for barrier, counts, (family, make) in product(
        sorted(balancer.barriers, key=lambda barrier: barrier.value), (Counts.FREE, Counts.EQUAL), FAMILIES.items()
    ):
        grid = Grid(8, 2, barrier, counts)
        n_packs = 5 * grid.n_cells
        home = rng.permutation(np.arange(n_packs) % grid.n_cells)
        problem = Problem(make(rng, n_packs), grid, home, rng.integers(1, 1000, n_packs))
        if balancer.refusal(problem) is None:
            result[f'large_problems(...)["{family}, {barrier.value}, {counts.value}"]'] = problem
    return result
