"""Packers that see lengths as a histogram, held to others that compute the same."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from packing import (
    BestFitDecreasing,
    CannotServe,
    InvalidParameter,
    Limits,
    NonNegativeLeastSquares,
    Samples,
    ShortestPackFirst,
    WorstFitDecreasing,
)
from packing.nonnegative_least_squares import fill_patterns, least_squares, patterns


@given(sizes=st.lists(st.integers(1, 30), max_size=60), capacity=st.integers(30, 90))
def test_shortest_pack_first_fills_packs_as_worst_fit_decreasing_does(sizes: list[int], capacity: int) -> None:
    ours, plain = (packer.pack(sizes, capacity) for packer in (ShortestPackFirst(), WorstFitDecreasing()))
    assert sorted(ours.tokens) == sorted(plain.tokens)


@given(sizes=st.lists(st.integers(1, 30), max_size=60), depth=st.integers(1, 4))
def test_shortest_pack_first_keeps_its_depth(sizes: list[int], depth: int) -> None:
    packing = ShortestPackFirst().pack(sizes, Limits(40, max_samples=depth))
    assert sorted(packing.sample.tolist()) == list(range(len(sizes)))
    assert np.diff(packing.offsets).max(initial=0) <= depth
    assert len(packing) >= -(-len(sizes) // depth)


def test_shortest_pack_first_by_hand() -> None:
    """Two of 6 open packs, three of 4: two beside a 6 each, the third alone; a 2 goes to the shortest, with the 4."""
    packing = ShortestPackFirst().pack([4, 6, 4, 2, 6, 4], 10)
    assert [packing[p].tolist() for p in range(3)] == [[0, 1], [2, 4], [3, 5]]
    with pytest.raises(CannotServe, match="it knows two limits, tokens and samples"):
        ShortestPackFirst().pack(Samples([1], {"images": [1]}), Limits(9, (("images", 1),)))


@pytest.mark.parametrize("units", [1, 2, 3, 7, 40])
def test_patterns_are_all_full_ones_of_up_to_three(units: int) -> None:
    every = combinations_with_replacement(range(units, -1, -1), 3)
    assert [tuple(row) for row in patterns(units).tolist()] == [each for each in every if sum(each) == units]


@pytest.mark.parametrize("seed", range(5))
def test_descent_finds_the_least_squares_that_another_solver_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    each = patterns(24)
    histogram = np.append(0, rng.integers(0, 100, 24))
    weights = np.append(0, rng.choice([0.01, 1.0], 24))
    matrix = np.stack([np.bincount(row, minlength=25) for row in each], axis=1) * np.sqrt(weights)[:, None]
    x = least_squares(each, histogram, weights)
    assert (x >= 0).all()
    wanted = histogram * np.sqrt(weights)
    far = np.linalg.norm(matrix @ x - wanted)  # counts are rounded to whole packs, so descent ends short of the least
    assert far == pytest.approx(nnls(matrix, wanted)[1], rel=0.01, abs=0.5)


def test_patterns_take_the_longest_and_stop_where_pieces_run_out() -> None:
    each = np.array([[3, 1, 0], [2, 2, 0]])
    bucket = np.array([3, 3, 2, 2, 2, 1])
    packs = fill_patterns(each, np.array([2, 1]), bucket, np.bincount(bucket, minlength=5))
    assert packs.tolist() == [0, -1, 1, 1, -1, 0]


def test_complements_fill_packs() -> None:
    """Halves and thirds: patterns hit them exactly, whatever else is there."""
    sizes = [50] * 40 + [30] * 30 + [40] * 30 + [30] * 30
    assert len(NonNegativeLeastSquares().pack(sizes, 100)) == sum(sizes) // 100
    rng = np.random.default_rng(0)
    many = rng.integers(2_000, 8_193, 20_000)
    ours, best = (packer.pack(many, 8_192) for packer in (NonNegativeLeastSquares(), BestFitDecreasing()))
    assert len(best) <= len(ours) < 1.02 * len(best)
    with pytest.raises(InvalidParameter, match=r"units must be in \[1, 1024\]; got 0"):
        NonNegativeLeastSquares(0)
