"""The property kit: hypothesis strategies for problems, named checks, and `check_balancer` for balancers of your own.

from balancers.testing import check_balancer
check_balancer(MyBalancer())          # raises CheckFailed: which property, on which problem
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import product
from typing import TypeAlias
from unittest.mock import patch

import numpy as np

from packing.arrays import Int64
from packing.errors import CannotServe, EvenstepError
from packing.lazy import missing_extra

from . import BALANCERS
from .base import Balancer
from .grid import Barrier, Counts, Grid
from .problem import Problem
from .replay import CONDITIONS, digests_under

try:
    from hypothesis import HealthCheck, assume, given, settings
    from hypothesis import strategies as st
    from hypothesis.errors import Flaky, Unsatisfiable
except ModuleNotFoundError as error:
    raise missing_extra("balancers.testing", error) from error

__all__ = ["FAMILIES", "CheckFailed", "check_balancer", "checks", "grids", "problems"]

Check: TypeAlias = Callable[[Balancer, Problem], None]


class CheckFailed(EvenstepError, AssertionError):
    """A balancer lacks a property that all must have, or that it claims. Attribute: ``check``, the property's name."""

    def __init__(self, message: str, check: str) -> None:
        super().__init__(message)
        self.check = check


# --- problems -------------------------------------------------------------------------------------------------------

FAMILIES: Mapping[str, Callable[[np.random.Generator, int], Int64]] = {
    "uniform": lambda rng, n: rng.integers(1, 1_000_001, n),
    "heavy_tail": lambda rng, n: rng.lognormal(10, 1, n).astype(np.int64),
    "zero_inflated": lambda rng, n: 256 * rng.geometric(0.2, n) * (rng.random(n) < 0.5),
    "all_equal": lambda rng, n: np.full(n, rng.integers(1, 1_000_001)),
    "one_giant": lambda rng, n: np.where(np.arange(n) == n // 2, 10_000_000, rng.integers(1, 1_001, n)),
    "huge": lambda rng, n: rng.integers(2**61 // max(n, 1) // 2, 2**61 // max(n, 1) + 1, n),
}
"""Loads of any number of packs by kind, from a seeded generator: what `problems` draws, in sizes that are real."""


@st.composite
def grids(draw: st.DrawFn, barriers: frozenset[Barrier] = frozenset({Barrier.STEP}), max_ranks: int = 4) -> Grid:
    """Small grids with any of ``barriers`` and any counts but pairs."""
    return Grid(
        n_ranks=draw(st.integers(1, max_ranks)),
        n_micro_steps=draw(st.integers(1, 3)),
        barrier=draw(st.sampled_from(sorted(barriers, key=lambda barrier: barrier.value))),
        counts=draw(st.sampled_from(list(Counts))),
    )


@st.composite
def problems(
    draw: st.DrawFn, barriers: frozenset[Barrier] = frozenset({Barrier.STEP}), max_ranks: int = 4, max_packs: int = 24
) -> Problem:
    """Small problems of all kinds, with and without a home: ties, zeros, one giant, fewer packs than cells, none."""
    grid = draw(grids(barriers, max_ranks))
    if grid.counts is Counts.EQUAL:
        n_packs = grid.n_cells * draw(st.integers(0, max(max_packs // grid.n_cells, 1)))
    else:
        n_packs = draw(st.integers(0, max_packs))
    loads = draw(_loads(n_packs))
    home = n_bytes = None
    if draw(st.booleans()):
        home = draw(st.permutations([i % grid.n_cells for i in range(n_packs)]))
        n_bytes = draw(st.lists(st.integers(0, 1000), min_size=n_packs, max_size=n_packs))
    return Problem(loads, grid, home, n_bytes)


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


def large_problems(balancer: Balancer) -> list[Problem]:
    """Return fixed problems of every family and real shape that ``balancer`` does not refuse."""
    rng = np.random.default_rng(0)
    result = []
    for barrier, counts, make in product(
        sorted(balancer.barriers, key=lambda barrier: barrier.value), (Counts.FREE, Counts.EQUAL), FAMILIES.values()
    ):
        grid = Grid(8, 2, barrier, counts)
        n_packs = 5 * grid.n_cells
        home = rng.permutation(np.arange(n_packs) % grid.n_cells)
        problem = Problem(make(rng, n_packs), grid, home, rng.integers(1, 1000, n_packs))
        if balancer.refusal(problem) is None:
            result.append(problem)
    return result


# --- checks: each a property as a sentence, raising AssertionError with what was seen ---------------------------------


def every_pack_once(balancer: Balancer, problem: Problem) -> None:
    """The answer gives each pack one cell of the grid."""
    cell = np.asarray(balancer.assign(problem).cell)
    assert cell.shape == (problem.n_packs,), f"cells have shape {cell.shape}"
    assert cell.dtype.kind in "iu" or not cell.size, f"cells have dtype {cell.dtype}"
    assert all(0 <= c < problem.grid.n_cells for c in cell.tolist()), f"cells are {cell.tolist()}"


def counts_respected(balancer: Balancer, problem: Problem) -> None:
    """Every cell holds as many packs as the grid allows."""
    cells = balancer.assign(problem).cell.tolist()
    counts = [cells.count(c) for c in range(problem.grid.n_cells)]
    fewest, most = problem.fewest_per_cell, problem.most_per_cell
    assert all(fewest <= n <= most for n in counts), f"cells hold {counts} packs, allowed are {fewest} to {most}"


def cost_recomputed(balancer: Balancer, problem: Problem) -> None:
    """The plan's cost is the one that plain Python finds from the cells."""
    plan = balancer.plan(problem)
    cost = naive_cost(problem, plan.cell.tolist())
    assert plan.cost == cost, f"the plan says {plan.cost}, the cells cost {cost}"


def not_below_bound(balancer: Balancer, problem: Problem) -> None:
    """No plan costs less than the bound, and on small problems no assignment at all does."""
    plan = balancer.plan(problem)
    assert plan.cost >= plan.lower_bound, f"cost {plan.cost} is below the bound {plan.lower_bound}"
    if problem.grid.n_cells**problem.n_packs <= 256:
        best = brute_force_cost(problem)
        assert plan.lower_bound <= best, f"the bound {plan.lower_bound} is above the optimum {best}"


def same_again(balancer: Balancer, problem: Problem) -> None:
    """Planning twice gives one plan, and leaves the global random states alone."""
    random.random()  # hypothesis has seeded both with 0, so that a balancer that does it too would go unseen
    np.random.random()
    before = _random_states()
    first, second = balancer.plan(problem).digest(), balancer.plan(problem).digest()
    assert first == second, "two calls gave two plans"
    assert _random_states() == before, "a global random state was drawn from or seeded"


def input_untouched(balancer: Balancer, problem: Problem) -> None:
    """Planning does not change the problem."""
    before = [None if a is None else a.copy() for a in (problem.loads, problem.home, problem.n_bytes)]
    balancer.plan(problem)
    for old, new in zip(before, (problem.loads, problem.home, problem.n_bytes), strict=True):
        assert (old is None and new is None) or np.array_equal(old, new), f"{old} became {new}"  # type: ignore[arg-type]


def ties_do_not_matter(balancer: Balancer, problem: Problem) -> None:
    """Exchanging homes and sizes among packs of equal load leaves the cost as it is (claimed by ``order_free``)."""
    if problem.home is None or problem.n_bytes is None:
        return
    partner = np.arange(problem.n_packs)
    for load in np.unique(problem.total):
        group = np.flatnonzero(problem.total == load)
        partner[group] = group[::-1]
    other = Problem(problem.loads, problem.grid, problem.home[partner], problem.n_bytes[partner])
    _same_cost(balancer, problem, other)


def relabelling_harmless(balancer: Balancer, problem: Problem) -> None:
    """The order in which the packs are listed does not change the cost (claimed by ``order_free``)."""
    order = np.random.default_rng(problem.n_packs).permutation(problem.n_packs)
    home, n_bytes = problem.home, problem.n_bytes
    _same_cost(
        balancer,
        problem,
        Problem(
            problem.loads[order],
            problem.grid,
            None if home is None else home[order],
            None if n_bytes is None else n_bytes[order],
        ),
    )


def scaling_scales(balancer: Balancer, problem: Problem) -> None:
    """Multiplying all loads by 3 leaves every pack in its cell (claimed by ``scale_free``)."""
    if int(problem.total.sum()) >= 2**60:
        return
    scaled = Problem(problem.loads * 3, problem.grid, problem.home, problem.n_bytes)
    first, second = balancer.plan(problem).cell.tolist(), balancer.plan(scaled).cell.tolist()
    assert first == second, f"cells {first} became {second}"


def refuses_before_work(balancer: Balancer, problem: Problem) -> None:
    """A problem that is refused is refused by an error, and nothing is planned."""
    if balancer.refusal(problem) is None:
        return
    with patch.object(type(balancer), "assign", side_effect=AssertionError("assign was called")):
        try:
            balancer.plan(problem)
        except CannotServe:
            return
    raise AssertionError("refusal gives a reason, but plan gave a plan")


OF_ALL: tuple[Check, ...] = (
    every_pack_once,
    counts_respected,
    cost_recomputed,
    not_below_bound,
    same_again,
    input_untouched,
)


def checks(balancer: Balancer, max_examples: int = 50) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield (name, check) for every property that ``balancer`` must have or claims; call a check to run it.

    Made for ``pytest.mark.parametrize``; `check_balancer` runs them all.
    """
    yield "repr_parses", lambda: _repr_parses(balancer)
    claimed: tuple[Check, ...] = (ties_do_not_matter, relabelling_harmless) * balancer.order_free
    claimed += (scaling_scales,) * balancer.scale_free
    for check in (*OF_ALL, *claimed):
        yield check.__name__, _on_drawn_problems(check, balancer, max_examples, refused=False)
    yield "refuses_before_work", _on_drawn_problems(refuses_before_work, balancer, max_examples, refused=True)
    yield "same_in_any_process", lambda: _same_in_any_process(balancer)


def check_balancer(balancer: Balancer, max_examples: int = 50) -> None:
    """Run all checks; raise `CheckFailed` with the first property that fails and the smallest problem found for it.

    ``max_examples`` problems are drawn per property, always the same ones. The last check plans in three other
    processes: different hash seeds, thread counts, CPU features, clocks, used random states, and load.
    """
    for _, check in checks(balancer, max_examples):
        check()


def _on_drawn_problems(check: Check, balancer: Balancer, max_examples: int, *, refused: bool) -> Callable[[], None]:
    barriers = frozenset(Barrier) if refused else balancer.barriers

    @settings(
        max_examples=max_examples,
        deadline=None,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(problems(barriers))
    def run(problem: Problem) -> None:
        assume(refused or balancer.refusal(problem) is None)
        try:
            check(balancer, problem)
        except Exception as error:
            seen = str(error).split("\n", maxsplit=1)[0]
            seen = seen if isinstance(error, AssertionError) else f"{type(error).__name__}: {seen}"
            raise CheckFailed(f"{balancer!r} fails {check.__name__} on {problem!r}: {seen}", check.__name__) from error

    def run_all() -> None:
        try:
            run()
        except Unsatisfiable:
            raise CheckFailed(
                f"{balancer!r} fails {check.__name__}: it refuses every problem.", check.__name__
            ) from None
        except Flaky as error:
            seen = "it failed on a problem, but not on the same problem again"
            raise CheckFailed(f"{balancer!r} fails {check.__name__}: {seen}.", check.__name__) from error

    return run_all


def _repr_parses(balancer: Balancer) -> None:
    try:
        parsed: object = BALANCERS.parse(repr(balancer), known=_classes(balancer))
    except EvenstepError as error:
        parsed = error
    if parsed != balancer or hash(parsed) != hash(balancer):
        raise CheckFailed(
            f"{balancer!r} fails repr_parses: its text gives {parsed!r}. Make it a frozen dataclass of plain values.",
            "repr_parses",
        )


def _classes(algorithm: Balancer) -> set[type[Balancer]]:
    """Return the class of a balancer and of every balancer inside it."""
    values = [getattr(algorithm, field.name) for field in fields(algorithm)]
    values += [each for value in values if isinstance(value, tuple) for each in value]
    inner = [_classes(value) for value in values if isinstance(value, Balancer)]
    return {type(algorithm)}.union(*inner)


def _same_in_any_process(balancer: Balancer) -> None:
    cases = large_problems(balancer)
    here = [balancer.plan(problem).digest() for problem in cases]
    for condition, there in zip(CONDITIONS, digests_under(CONDITIONS, balancer, cases), strict=True):
        if isinstance(there, str):
            seen, problem = there, cases[0]
        elif there == here:
            continue
        else:
            problem = cases[[a == b for a, b in zip(here, there, strict=True)].index(False)]
            seen = "another plan than in this process"
        raise CheckFailed(
            f"{balancer!r} fails same_in_any_process on {problem!r}: in a process with {condition.name}, {seen}.",
            "same_in_any_process",
        )


def _same_cost(balancer: Balancer, problem: Problem, other: Problem) -> None:
    first, second = balancer.plan(problem).cost, balancer.plan(other).cost
    assert first == second, f"cost {first} became {second} on {other!r}"


def _random_states() -> list[object]:
    name, keys, *rest = np.random.get_state()
    return [random.getstate(), name, bytes(keys), rest]  # type: ignore[arg-type]


# --- references -----------------------------------------------------------------------------------------------------


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


def brute_force_cost(problem: Problem) -> int:
    """Return the optimum by trying all n_cells ** n_packs assignments."""
    fewest, most = problem.fewest_per_cell, problem.most_per_cell
    cells = range(problem.grid.n_cells)
    return min(
        naive_cost(problem, list(choice))
        for choice in product(cells, repeat=problem.n_packs)
        if all(fewest <= choice.count(c) <= most for c in cells)
    )
