"""The kit catches every way of being broken, and says which property failed on which problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from balancers import BALANCERS, ILP, Assignment, Balancer, Problem, Prove, RoundRobin
from balancers.testing import FAMILIES, CheckFailed, check_balancer, checks, problems

from .broken import BROKEN

SHORT = {"ILP": ILP(limit=0.05), "Prove": Prove(steps=5_000_000)}
OURS = [SHORT[name] if name in SHORT else BALANCERS.get(name)() for name in BALANCERS.names()]


@pytest.mark.parametrize(
    ("name", "check"),
    [pytest.param(name, check, id=f"{balancer!r}-{name}") for balancer in OURS for name, check in checks(balancer)],
)
def test_conformance(name: str, check: Any) -> None:
    check()


@pytest.mark.parametrize(("balancer", "check"), BROKEN.items(), ids=str)
def test_broken_balancers_are_caught_by_the_right_check(balancer: Balancer, check: str) -> None:
    with pytest.raises(CheckFailed, match=f"fails {check}") as caught:
        check_balancer(balancer, max_examples=30)
    assert caught.value.check.startswith(check)
    assert repr(balancer) in str(caught.value)


def test_a_class_that_no_other_process_can_find_is_told_so() -> None:
    @dataclass(frozen=True)
    class Local(Balancer):
        def assign(self, problem: Problem) -> Assignment:
            return RoundRobin().assign(problem)

    with pytest.raises(CheckFailed, match="Define the class at the top level of a module"):
        check_balancer(Local(), max_examples=5)


def test_a_failure_names_the_smallest_problem() -> None:
    with pytest.raises(CheckFailed) as caught:
        check_balancer(next(iter(BROKEN)))  # drops a pack: the smallest problem has one
    assert str(caught.value) == (
        "DropsAPack() fails every_pack_once on Problem([1], Grid(n_ranks=1, barrier=Barrier.MICRO_STEP)): "
        "there must be a cell for each of 1 packs; got shape (0,)"
    )


@given(problems())
def test_drawn_problems_hold_their_counts(problem: Problem) -> None:
    low, high = problem.fewest_per_cell, problem.most_per_cell
    assert low * problem.grid.n_cells <= problem.n_packs <= high * problem.grid.n_cells


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_families_are_loads_of_any_size(family: str, n: int) -> None:
    loads = Problem(FAMILIES[family](np.random.default_rng(0), n), 4).loads
    assert loads.shape == (n,)
    assert np.array_equal(loads, FAMILIES[family](np.random.default_rng(0), n))
