"""The fewest packs: never more than an exhaustive search, with a bound that holds whatever the limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import (
    BestFitDecreasing,
    CannotServe,
    ColumnGeneration,
    Exact,
    ExactStatus,
    InvalidParameter,
    InvalidSamples,
    Limits,
    Samples,
    fewest_packs,
)

from . import naive


def column(sizes: list[int]) -> Any:
    return np.array(sizes, dtype=np.int64)[:, None]


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(1, 12), max_size=9))
def test_small_sets_are_solved(sizes: list[int]) -> None:
    answer = Exact().solve(column(sizes), np.array([12]))
    assert int(answer.pack_of.max(initial=-1)) + 1 == answer.lower_bound == naive.fewest_packs(sizes, 12)
    assert answer.status is ExactStatus.OPTIMAL


HARD = [44, 24, 24, 22, 21, 17, 8, 8, 6, 6]


def test_it_beats_best_fit_decreasing_where_that_errs() -> None:
    """180 tokens in three packs of 60 (44 + 8 + 8, 24 + 24 + 6 + 6, 22 + 21 + 17)."""
    assert len(BestFitDecreasing().pack(HARD, 60)) == 4
    answer = Exact().solve(column(HARD), np.array([60]))
    assert (int(answer.pack_of.max()) + 1, answer.lower_bound, answer.status) == (3, 3, ExactStatus.OPTIMAL)
    assert len(Exact().pack(HARD, 60)) == 3
    idle = Exact(limit=0).solve(column(HARD), np.array([60]))
    assert (int(idle.pack_of.max()) + 1, idle.status) == (4, ExactStatus.FALLBACK)


def test_large_lengths_are_not_lost_in_32_bits() -> None:
    """The same set, scaled beyond them; column generation finds the same by another way."""
    scale = 2**27 // 60
    sizes = [size * scale - (k % 3) for k, size in enumerate(HARD)]
    answer = Exact().solve(column(sizes), np.array([60 * scale]))
    assert int(answer.pack_of.max()) + 1 == answer.lower_bound == 3
    assert len(ColumnGeneration().pack(sizes, 60 * scale)) == 3


def test_the_bound_says_how_to_ask_for_plain_lengths() -> None:
    with pytest.raises(
        InvalidSamples, match=r"got shapes \(3,\) and \(\)\. For lengths under one limit: .*\[:, None\]"
    ):
        fewest_packs([5, 6, 7], 10)  # type: ignore[arg-type]
    assert fewest_packs(np.array([5, 6, 7])[:, None], np.array([10])) == 3


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 10), st.integers(0, 4)), max_size=7))
def test_several_budgets(rows: list[tuple[int, int]]) -> None:
    """No fewer packs exist: every way to deal the pieces to one pack less breaks a limit."""
    samples = Samples([row[0] for row in rows], {"images": [row[1] for row in rows]})
    packing = Exact().pack(samples, Limits(12, (("images", 5),)))
    sizes = np.array(rows, dtype=np.int64).reshape(-1, 2)
    caps = np.array([12, 5])
    assert fewest_packs(sizes, caps) <= len(packing)

    def possible(i: int, room: list[list[int]]) -> bool:
        if i == len(rows):
            return True
        for each in room:
            if each[0] >= rows[i][0] and each[1] >= rows[i][1]:
                each[0], each[1] = each[0] - rows[i][0], each[1] - rows[i][1]
                if possible(i + 1, room):
                    return True
                each[0], each[1] = each[0] + rows[i][0], each[1] + rows[i][1]
        return False

    assert not rows or not possible(0, [[12, 5] for _ in range(len(packing) - 1)])


def test_the_bound_of_amounts_beyond_floats_holds() -> None:
    """Two of these just fit together, and the third is just above half of the limit: floats cannot tell."""
    half = 2**55
    sizes, caps = np.array([[half + 3], [half - 3], [half - 3]]), np.array([2 * half - 1])
    assert fewest_packs(sizes, caps) == 2
    samples = Samples([1, 1, 1], {"n_bytes": sizes[:, 0]})
    assert len(Exact().pack(samples, Limits(10, (("n_bytes", 2 * half - 1),)))) == 2


def test_what_is_beyond_it_is_refused() -> None:
    with pytest.raises(CannotServe, match=r"it takes at most 1000 samples; got 1001\. Use ColumnGeneration"):
        Exact().pack([1] * 1001, 10)
    with pytest.raises(CannotServe, match="n_bytes sum to 1152921504606846976; the solver takes sums below"):
        Exact().pack(Samples([1], {"n_bytes": [2**60]}), Limits(10, (("n_bytes", 2**61),)))
    for limit in (-1, float("inf"), True):
        with pytest.raises(InvalidParameter, match="finite number >= 0 of deterministic seconds"):
            Exact(limit=limit)
