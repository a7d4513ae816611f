"""Lower bounds by hand: each rule where it is the one that binds."""

from __future__ import annotations

import pytest

from balancers import Barrier, Counts, Grid, Problem

EQUAL = Counts.EQUAL


@pytest.mark.parametrize(
    ("loads", "grid", "bound", "why"),
    [
        ([3, 3, 4], Grid(2), 6, "two of the three largest share a rank: 3 + 3"),
        ([1, 1, 1, 2], Grid(2), 3, "mean 2.5"),
        ([9, 1, 1], Grid(2), 9, "the largest"),
        ([6, 6, 6, 9], Grid(2), 15, "mean 13.5, sums are multiples of 3"),
        ([4, 4, 4, 4, 4], Grid(2), 12, "three of the five share a rank"),
        ([9, 1, 1, 1], Grid(2, counts=EQUAL), 10, "the largest has a companion"),
        ([5, 5, 3, 1], Grid(2, counts=EQUAL), 8, "mean 7; 2 x 1 plus multiples of 2 give 8"),
        ([7, 7, 7], Grid(3), 7, "all equal"),
        ([0, 0, 0], Grid(2), 0, "no load"),
        ([0, 0, 5], Grid(2, counts=(1, 2)), 5, "zeros beside the largest"),
        ([1, 2, 8, 9], Grid(2, 2, Barrier.MICRO_STEP, EQUAL), 11, "sorted: 9 + 2"),
        ([1, 1, 1, 9, 1, 1, 1, 1], Grid(2, 2, Barrier.MICRO_STEP, EQUAL), 12, "9 + 1, and the other row 1 + 1"),
        ([9, 3, 3, 3, 3, 3, 1, 1], Grid(2, 2, Barrier.MICRO_STEP, EQUAL), 15, "10, beside which only 3 + 3 of 26 fit"),
        ([[4, 1], [1, 4]], Grid(2, 1, Barrier.STAGE, stages=("a", "b")), 8, "stages one by one"),
    ],
)
def test_bound(loads: list[int], grid: Grid, bound: int, why: str) -> None:
    assert Problem(loads, grid).lower_bound == bound, why


def test_bound_of_many_tile_loads_is_a_multiple_of_the_tile() -> None:
    loads = [256] * 1000 + [512] * 11
    assert Problem(loads, 64).lower_bound == 16 * 256  # the mean is 15.97 tiles
