"""Proofs by column generation: by hand, against brute force, and at their limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancers import LPT, Counts, Grid, Problem, Prove, RoundRobin, Status
from balancers.references import step_optimum
from packing import CannotServe, InvalidParameter


@settings(max_examples=200)
@given(st.lists(st.integers(0, 60), max_size=9), st.integers(1, 4), st.sampled_from([1, 7, 2**50]))
def test_the_bound_holds_and_the_plan_is_no_worse(loads: list[int], n_ranks: int, factor: int) -> None:
    problem = Problem([factor * load for load in loads], n_ranks)
    plan = Prove(RoundRobin()).plan(problem)
    assert plan.lower_bound <= step_optimum(problem) <= plan.cost <= RoundRobin().plan(problem).cost


@pytest.mark.parametrize(
    ("loads", "n_ranks", "optimum"),
    [
        ([5, 5, 4, 4, 3, 3, 3], 3, 9),  # LPT makes 11 (Graham 1969)
        ([8, 7, 6, 5, 4], 2, 15),  # differencing makes 16 (Korf 1998)
        ([46, 39, 27, 26, 16, 13, 10], 3, 62),  # the mean says 59
        ([10, 10, 10, 10], 3, 20),
        ([7, 7, 7, 0, 0], 3, 7),
        ([3, 3, 2, 2, 2], 2, 6),
    ],
)
def test_textbook_examples_are_solved_and_proven(loads: list[int], n_ranks: int, optimum: int) -> None:
    plan = Prove(LPT()).plan(Problem(loads, n_ranks))
    assert (plan.cost, plan.lower_bound, plan.status) == (optimum, optimum, Status.OPTIMAL)


def test_without_steps_the_plan_of_inner_is_left_as_it_is() -> None:
    problem = Problem([46, 39, 27, 26, 16, 13, 10], 3)
    plan = Prove(LPT(), steps=0).plan(problem)
    assert plan.cell.tolist() == LPT().plan(problem).cell.tolist()
    assert plan.status is Status.FALLBACK


def test_no_packs_and_no_loads() -> None:
    assert Prove().plan(Problem([], 3)).cost == 0
    assert Prove().plan(Problem([0, 0, 0], 2)).cost == 0


def test_costs_beyond_the_kernels_are_left_to_inner() -> None:
    problem = Problem([2**40 + 1, 2**40, 2**39, 2**39], 2)
    assert Prove(LPT()).plan(problem).cost == LPT().plan(problem).cost


def test_what_it_refuses() -> None:
    with pytest.raises(CannotServe, match=r"does not count packs"):
        Prove().plan(Problem([1, 2], Grid(2, counts=Counts.EQUAL)))
    with pytest.raises(InvalidParameter, match=r"Prove\.steps must be in"):
        Prove(steps=-1)
