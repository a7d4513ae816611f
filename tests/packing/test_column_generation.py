"""Column generation: the knapsack, the program over patterns, the bound and the packer, against definitions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from packing import BestFitDecreasing, ColumnGeneration, EvenstepError, InvalidParameter, column_generation_bound
from packing.filling import fill_packs
from packing.knapsack import branch, table
from packing.pattern_lp import solve

from . import naive

kinds = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 3)), min_size=1, max_size=5, unique_by=lambda kind: kind[0]
)


def bound(sizes: list[int], capacity: int, **more: int) -> int:
    return column_generation_bound(np.array(sizes, dtype=np.int64), capacity, **more)


def patterns_of(sizes: list[int], counts: list[int], capacity: int) -> list[tuple[int, ...]]:
    every = product(*(range(count + 1) for count in counts))
    return [each for each in every if 0 < sum(k * size for k, size in zip(each, sizes, strict=True)) <= capacity]


@given(kinds, st.integers(30, 80), st.data())
def test_both_knapsacks_find_the_best_pattern(kinds: list[tuple[int, int]], capacity: int, data: st.DataObject) -> None:
    sizes, counts = (np.array(column, dtype=np.int64) for column in zip(*kinds, strict=True))
    n = len(kinds)
    prices = np.array(data.draw(st.lists(st.integers(0, 50), min_size=n, max_size=n)), dtype=np.int64)
    best = max(int(prices @ each) for each in patterns_of(sizes.tolist(), counts.tolist(), capacity))
    pattern = np.zeros(n, dtype=np.int64)
    value, exact, _ = branch(sizes, counts, prices, capacity, 10_000, pattern)
    for found in (value, table(sizes, counts, prices, capacity, pattern)):
        assert exact
        assert found == best == prices @ pattern
        assert sizes @ pattern <= capacity
        assert (pattern <= counts).all()


def test_a_search_cut_short_says_so() -> None:
    sizes, prices = np.arange(20, 40), np.arange(20, 40) * 10 + np.arange(20) % 3
    pattern = np.zeros(20, dtype=np.int64)
    value, exact, left = branch(sizes, np.ones(20, dtype=np.int64), prices, 101, 3, pattern)
    assert (exact, left) == (False, 0)
    assert value == prices @ pattern


@settings(max_examples=60)
@given(kinds, st.integers(30, 80))
def test_the_program_over_patterns_has_the_value_that_another_solver_finds(
    kinds: list[tuple[int, int]], capacity: int
) -> None:
    falling = sorted(kinds, reverse=True)
    sizes, counts = (np.array(column, dtype=np.int64) for column in zip(*falling, strict=True))
    columns = np.array(patterns_of(sizes.tolist(), counts.tolist(), capacity)).T
    value = linprog(np.ones(columns.shape[1]), A_eq=columns, b_eq=counts).fun
    none = np.zeros((0, len(sizes)), dtype=np.int32)
    solution = solve(sizes, counts, capacity, none, 0, 10**6, 10**8)
    assert solution.bound == np.ceil(value - 1e-7)
    assert value - 1e-7 <= solution.amounts.sum() <= solution.bound + 1e-7
    np.testing.assert_allclose(solution.amounts @ solution.patterns, counts, atol=1e-7)


@settings(max_examples=200)
@given(st.lists(st.integers(1, 30), max_size=8), st.integers(30, 60))
def test_the_bound_holds_and_the_packer_is_between(sizes: list[int], capacity: int) -> None:
    best = naive.fewest_packs(sizes, capacity)
    proven = bound(sizes, capacity)
    assert -(-sum(sizes) // capacity) <= proven <= best
    assert best == len(ColumnGeneration().pack(sizes, capacity))  # rounding finds the optimum of so small sets


@given(st.lists(st.integers(1, 60), max_size=60), st.integers(60, 150))
def test_the_packer_is_never_worse_than_best_fit_decreasing(sizes: list[int], capacity: int) -> None:
    n_packs = len(ColumnGeneration().pack(sizes, capacity))
    assert bound(sizes, capacity) <= n_packs <= len(BestFitDecreasing().pack(sizes, capacity))


def test_bounds_by_hand() -> None:
    assert bound([], 10) == 0
    assert bound([6] * 10, 10) == 10  # no two fit together; the mean says 6
    assert bound([4] * 9, 11) == 5  # two in each: 9 / 2, rounded up
    assert bound([5, 5, 4, 4, 3, 3, 3], 8) == 4  # nine is the least makespan on three machines (Graham 1969)
    assert bound([5, 5, 4, 4, 3, 3, 3], 9) == 3
    assert bound([6] * 10, 10, low=10) == 6  # cannot exceed 10: not looked for
    assert bound([6] * 10, 10, steps=0) == 6  # the mean


def test_capacities_beyond_the_kernels_are_scaled_down() -> None:
    assert bound([6 * 2**40] * 10, 10 * 2**40) == 10
    assert bound([2**60, 1, 1], 2**60) == 1  # two units are lost in scaling: weaker, never wrong


def test_the_packer_solves_what_best_fit_misses() -> None:
    """Three triplets of 100 that best fit decreasing cannot see."""
    sizes = [50, 30, 20, 45, 31, 24, 40, 33, 27]
    assert len(BestFitDecreasing().pack(sizes, 100)) == 4
    assert len(ColumnGeneration().pack(sizes, 100)) == 3
    assert len(ColumnGeneration(steps=0).pack(sizes, 100)) == 4


def test_many_different_sizes_are_left_to_best_fit() -> None:
    sizes = np.arange(1, 2_000)
    assert len(ColumnGeneration(steps=10_000).pack(sizes, 4_000)) == len(BestFitDecreasing().pack(sizes, 4_000))


def test_filling_takes_the_subset_that_leaves_the_least_room() -> None:
    assert fill_packs(np.array([6, 5, 4, 3, 2]), 10, 100).tolist() == [0, 1, 0, 1, 1]
    assert fill_packs(np.array([7, 6, 5, 2, 1]), 10, 100).tolist() == [0, 1, 2, 0, 0]
    assert fill_packs(np.array([], dtype=np.int64), 10, 100).tolist() == []


def test_steps_are_counted_from_zero() -> None:
    with pytest.raises(InvalidParameter, match=r"ColumnGeneration\.steps must be in"):
        ColumnGeneration(steps=-1)


@pytest.mark.parametrize(
    ("lengths", "capacity", "text"),
    [
        ([5, 20], 10, r"lengths must be <= 10; lengths\[1\] = 20\. Each must fit in a pack of its own"),
        ([-5], 10, "lengths must be >= 0"),
        ([5.5], 10, "lengths must be integers"),
        ([5], 0, "capacity must be in"),
    ],
)
def test_the_bound_is_of_pieces_that_fit(lengths: list[float], capacity: int, text: str) -> None:
    with pytest.raises(EvenstepError, match=text):
        column_generation_bound(lengths, capacity)
