"""Sorting that is the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.arrays import descending_order
from packing.counting import (
    falling_by_counting,
    heaviest_first,
    in_input_order,
    members_and_sums,
    members_by_group,
    sums_by_group,
)


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**62 - 1)), max_size=50))
def test_descending_order_is_a_stable_sort(values: list[int]) -> None:
    expected = sorted(range(len(values)), key=lambda i: -values[i])
    assert descending_order(np.array(values, dtype=np.int64)).tolist() == expected


@pytest.mark.parametrize("largest", [2**46, 2**47, 2**61])  # both sides of the limit of joint keys
def test_descending_order_of_many_large_values_with_ties(largest: int) -> None:
    values = np.random.default_rng(0).integers(largest - 1000, largest, 2**16 + 1)
    assert np.array_equal(descending_order(values), np.argsort(-values, kind="stable"))


@given(st.lists(st.one_of(st.integers(-5, 5), st.integers(-(2**62) + 1, 2**62 - 1)), min_size=1, max_size=50))
def test_the_radix_sort_is_stable_over_all_differences(values: list[int]) -> None:
    expected = sorted(range(len(values)), key=lambda i: -values[i])
    assert heaviest_first(np.array(values, dtype=np.int64)).tolist() == expected


@given(st.lists(st.integers(0, 9), max_size=50))
def test_counting_sort_and_back(values: list[int]) -> None:
    sizes = np.array(values, dtype=np.int64)
    falling, start = falling_by_counting(sizes, 9)
    assert falling.tolist() == sorted(values, reverse=True)
    stable = sorted(range(len(values)), key=lambda i: -values[i])
    back = in_input_order(np.arange(len(values), dtype=np.int32), sizes, start, np.empty(len(values), dtype=np.int32))
    assert [back[i] for i in stable] == list(range(len(values)))


@given(st.lists(st.integers(0, 9), max_size=50))
def test_members_of_a_group_come_together_in_order(groups: list[int]) -> None:
    group_of = np.array(groups, dtype=np.int32)
    members = np.empty(len(groups), dtype=np.int64)
    offsets = members_by_group(group_of, 10, members)
    sums = sums_by_group(np.arange(2 * len(groups)).reshape(-1, 2), group_of, 10)
    for group in range(10):
        expected = [i for i, g in enumerate(groups) if g == group]
        assert members[offsets[group] : offsets[group + 1]].tolist() == expected
        assert sums[group].tolist() == [sum(2 * i for i in expected), sum(2 * i + 1 for i in expected)]


@pytest.mark.parametrize(("n", "n_groups", "most"), [(50, 7, 9), (5_000, 90, 2**31 - 1), (100_000, 1, 2**31 - 1)])
def test_members_and_sums_are_those_found_apart(n: int, n_groups: int, most: int) -> None:
    """Place and sum in one integer where both fit; the last case has no room for them."""
    rng = np.random.default_rng(0)
    group_of = rng.integers(0, n_groups, n).astype(np.int32)
    sizes = rng.integers(0, most, (n, 2), endpoint=True)
    sizes[:, 1] += 2**40
    members = np.empty(n, dtype=np.int64)
    offsets, sums = members_and_sums(group_of, n_groups, sizes, most, members)
    assert offsets.tolist() == np.searchsorted(np.sort(group_of), np.arange(n_groups + 1)).tolist()
    assert sums.tolist() == sums_by_group(sizes, group_of, n_groups).tolist()
    assert members.tolist() == np.argsort(group_of, kind="stable").tolist()
