"""All that can be wrong with a problem has an answer that names the place; floats are scaled once."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from balancers import LPT, Barrier, Counts, Grid, Infeasible, InvalidGrid, InvalidProblem, Problem

TWO_STAGES = Grid(2, stages=("vision", "language"))


@pytest.mark.parametrize(
    ("loads", "grid", "text"),
    [
        ([3, -1], Grid(2), r"loads must be >= 0; loads\[1\] = -1\. Loads are whole numbers"),
        ([[1, 2], [3, -4]], TWO_STAGES, r'loads must be >= 0; loads\[1, 1\] \("language"\) = -4\.'),
        ([1.5], Grid(2), "loads must be integers; got dtype float64.*Problem.from_floats"),
        ([float("nan"), 1.0], Grid(2), r"loads must be finite; loads\[0\] = nan"),
        ([2**61, 2**61], Grid(2), r"the sum of loads must be below 2\*\*62"),
        ([[1, 2]], Grid(2), "one column per stage; 2 columns, stages"),
        ([1, 2], TWO_STAGES, "one column per stage"),
        ([[[1]]], Grid(2), "must be 1-dimensional or 2-dimensional"),
        (["a"], Grid(2), "must be integers; got dtype <U1"),
    ],
)
def test_bad_loads_are_refused_with_their_place(loads: ArrayLike, grid: Grid, text: str) -> None:
    with pytest.raises(InvalidProblem, match=text):
        Problem(loads, grid)


def test_a_plan_is_made_of_a_problem() -> None:
    with pytest.raises(InvalidProblem, match=r"plan takes a Problem, such as Problem\(loads, .*; got \[1, 2\]\."):
        LPT().plan([1, 2])  # type: ignore[arg-type]


def test_homes_and_sizes_are_checked() -> None:
    with pytest.raises(InvalidProblem, match=r"home must be <= 3; home\[1\] = 4"):
        Problem([1, 2], Grid(2, 2), home=[0, 4])
    with pytest.raises(InvalidProblem, match=r"home must be >= 0; home\[0\] = -1"):
        Problem([1, 2], 2, home=[-1, 0])
    with pytest.raises(InvalidProblem, match="home must have one value per pack; 1 for 2 packs"):
        Problem([1, 2], 2, home=[0])
    with pytest.raises(InvalidProblem, match="n_bytes must have one value per pack"):
        Problem([1, 2], 2, n_bytes=[1, 2, 3])
    with pytest.raises(InvalidProblem, match=r"n_bytes\[0\] = -1"):
        Problem([1, 2], 2, n_bytes=[-1, 3])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n_ranks": 0}, r"n_ranks must be in \[1, 2147483647\]; got 0"),
        ({"n_ranks": 2.0}, "n_ranks must be an integer"),
        ({"n_ranks": 2, "n_micro_steps": -1}, "n_micro_steps must be in"),
        ({"n_ranks": 2**20, "n_micro_steps": 2**20}, r"n_ranks x n_micro_steps x n_steps must be below 2\*\*31"),
        ({"n_ranks": 2, "barrier": "step"}, "barrier must be a member of Barrier; got 'step'. Use Barrier.STEP, "),
        ({"n_ranks": 2, "counts": "equal"}, "counts must be a member of Counts or a pair"),
        ({"n_ranks": 2, "counts": 3}, "counts must be a member of Counts or a pair"),
        ({"n_ranks": 2, "counts": (3, 2)}, r"counts\[1\] must be in \[3, "),
        ({"n_ranks": 2, "counts": (-1, 2)}, r"counts\[0\] must be in \[0, "),
        ({"n_ranks": 2, "ranks_per_node": 2**40}, r"ranks_per_node must be in \[1, 2147483647\]"),
        ({"n_ranks": 2, "stages": ()}, "stages must be one or more different names"),
        ({"n_ranks": 2, "stages": ("a", "a")}, "stages must be one or more different names"),
        ({"n_ranks": 2, "stages": (["a"], "b")}, "stages must be one or more different names"),
    ],
)
def test_bad_grids_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidGrid, match=text):
        Grid(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counts", "n_packs", "expected"),
    [
        (Counts.FREE, 11, (0, 11)),
        (Counts.EQUAL, 12, (3, 3)),
        (Counts.WITHIN_ONE, 11, (2, 3)),
        (Counts.WITHIN_ONE, 2, (0, 1)),
        (Counts.PADDED, 11, (0, 3)),
        (Counts.PADDED, 12, (3, 3)),
        ((1, 5), 11, (1, 5)),
        (Counts.EQUAL, 0, (0, 0)),
    ],
)
def test_counts_per_cell(counts: Counts | tuple[int, int], n_packs: int, expected: tuple[int, int]) -> None:
    problem = Problem([1] * n_packs, Grid(4, counts=counts))
    assert (problem.fewest_per_cell, problem.most_per_cell) == expected


def test_counts_that_cannot_be_are_errors_with_both_numbers() -> None:
    text = (
        "equal counts need n_packs divisible by n_ranks x n_micro_steps; 11 packs, 4 x 1 cells. "
        "Use Counts.WITHIN_ONE, or Counts.PADDED for 1 empty place."
    )
    with pytest.raises(Infeasible) as caught:
        Problem([9, 8, 7, 6, 5, 5, 4, 4, 3, 3, 2], Grid(4, counts=Counts.EQUAL))
    assert str(caught.value) == text
    with pytest.raises(
        Infeasible, match="11 packs do not fit in 4 x 1 cells of 3 to 5 packs each: these hold 12 to 20"
    ):
        Problem([1] * 11, Grid(4, counts=(3, 5)))
    with pytest.raises(Infeasible, match="these hold 0 to 8"):
        Problem([1] * 11, Grid(4, counts=(0, 2)))


def test_no_packs_are_a_valid_problem() -> None:
    for barrier in (Barrier.STEP, Barrier.MICRO_STEP):
        plan = LPT().plan(Problem([], Grid(3, 2, barrier)))
        assert (plan.cost, plan.lower_bound, plan.waste, plan.imbalance) == (0, 0, 0.0, 1.0)
        assert plan.partitions == [[], [], []]


def test_a_problem_is_read_only_and_travels() -> None:
    mine = np.array([3, 1, 2])
    problem = Problem(mine, Grid(2), home=[0, 1, 0], n_bytes=[5, 6, 7])
    mine[0] = 99
    assert problem.loads.tolist() == [3, 1, 2]
    for array in (problem.loads, problem.home, problem.n_bytes, problem.heaviest_first):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    again = pickle.loads(pickle.dumps(problem))
    assert LPT().plan(again).digest() == LPT().plan(problem).digest()
    assert repr(problem).startswith("Problem([3, 1, 2], Grid(n_ranks=2")
    assert repr(problem).endswith("home=[0, 1, 0], n_bytes=[5, 6, 7])")


@pytest.mark.parametrize(
    ("loads", "cost", "unit"),
    [
        ([3e15, 2e15, 1e15 + 1], 3000000000000001, Fraction(1)),
        ([0.1, 0.2, 0.3, 0.6], 0.6, Fraction(1, 10)),
        ([1e-9, 2e-9, 3e-9], 3e-9, Fraction(1, 10**9)),
        ([2.0**60, 2.0**60], 2**60, Fraction(1)),
        ([0.0, 0.0], 0, Fraction(1)),
    ],
)
def test_decimal_loads_stay_exact(loads: list[float], cost: float, unit: Fraction) -> None:
    problem = Problem.from_floats(loads, 2)
    plan = LPT().plan(problem)
    assert problem.unit == unit
    assert problem.rounding == 0.0
    assert float(plan.cost * problem.unit) == cost
    assert isinstance(plan.cost, int)


def test_loads_too_far_apart_are_rounded_and_say_so() -> None:
    problem = Problem.from_floats([1e-9, 1e12], 2)
    assert problem.rounding == 1e-9
    assert float(LPT().plan(problem).cost * problem.unit) == 1e12
    huge = Problem.from_floats([3e300, 1e300, 2e300], 2)
    assert float(LPT().plan(huge).cost * huge.unit) == pytest.approx(3e300, rel=1e-15)
    assert Problem.from_floats([1e308] * 10, 2).loads.tolist() == [Problem.from_floats([1e308] * 10, 2).loads[0]] * 10
    assert Problem.from_floats([2**60 + 1, 2**60], 2).loads.tolist() == [2**60 + 1, 2**60]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5])
def test_floats_that_are_no_loads_are_refused(value: float) -> None:
    with pytest.raises(InvalidProblem, match=r"loads must be finite and >= 0; loads\[2\] = "):
        Problem.from_floats([1.0, 2.0, value], 2)
    for odd in (["x"], ["1.5"], [True], [1j], [[1.0, 2.0], [3.0]]):
        with pytest.raises(InvalidProblem, match="loads must be numbers"):
            Problem.from_floats(odd, 2)
    with pytest.raises(InvalidProblem, match="loads must not be masked"):
        Problem.from_floats(np.ma.array([1.5, 2.5], mask=[False, True]), 2)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=20))
def test_scaled_floats_are_close(loads: list[float]) -> None:
    problem = Problem.from_floats(loads, 2)
    back = [float(load * problem.unit) for load in problem.loads.tolist()]
    slack = max(2e-16 * sum(loads), 1e-17)
    assert all(abs(a - b) <= problem.rounding + slack for a, b in zip(loads, back, strict=True))
    assert problem.rounding <= 1e-15 * sum(loads) * 8
