"""Cells keep their micro-step; ranks become even."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancers import LPT, Barrier, Counts, Grid, Linear, Problem
from balancers.rows import even_rows
from balancers.testing import FAMILIES
from experiments import draw
from packing import BestFitDecreasing


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_every_bin_stays_in_its_micro_step(n_rows: int, n_ranks: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    load = rng.integers(0, 50, n_rows * n_ranks)
    rows = np.argsort(-load, kind="stable").reshape(n_rows, n_ranks)
    order = rng.permutation(n_rows)
    taken = even_rows(load, rows, order)
    assert [sorted(row) for row in taken.tolist()] == [sorted(row) for row in rows.tolist()]
    assert load[taken].sum(axis=0).max() <= load[rows].sum(axis=0).max()


def test_ranks_by_hand() -> None:
    """Rows (9, 1) and (5, 4): 9 meets 4, the other rank takes 1 + 5."""
    load = np.array([9, 1, 5, 4])
    taken = even_rows(load, np.array([[0, 1], [2, 3]]), np.array([0, 1]))
    assert sorted(load[taken].sum(axis=0).tolist()) == [6, 13]


def test_two_ranks_are_exchanged_in_two_micro_steps_at_once() -> None:
    """Differences 8, 5, 5 and 1: no single exchange evens 19 out, 8 + 1 leaves 1."""
    load = np.array([10, 2, 7, 2, 6, 1, 2, 1])
    taken = even_rows(load, np.arange(8).reshape(4, 2), np.arange(4))
    totals = load[taken].sum(axis=0)
    assert abs(int(totals[0] - totals[1])) == 1


@pytest.mark.parametrize(("n_ranks", "n_micro_steps"), [(64, 8), (256, 16)])
def test_image_loads_give_even_ranks_at_the_sorted_optimum(n_ranks: int, n_micro_steps: int) -> None:
    packing = BestFitDecreasing().pack(draw(60_000, seed=2).samples, 8192)
    all_loads = Linear(fixed_us=60_000, image_tokens=280).loads(packing.sums())
    loads = np.random.default_rng(0).choice(all_loads, n_ranks * n_micro_steps, replace=False)
    plan = LPT().plan(Problem(loads, Grid(n_ranks, n_micro_steps, Barrier.MICRO_STEP, Counts.EQUAL)))
    assert plan.cost == plan.lower_bound == int(np.sort(loads)[::-1][::n_ranks].sum())
    assert plan.rank_cost <= 1.0001 * plan.rank_load.mean() + 280


def test_many_micro_steps_take_no_python_loop() -> None:
    problem = Problem(FAMILIES["uniform"](np.random.default_rng(0), 3), Grid(1, 100_000, Barrier.MICRO_STEP))
    assert LPT().plan(problem).cost == int(problem.total.sum())
