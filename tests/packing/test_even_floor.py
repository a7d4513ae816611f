"""The floor of evenness: below every packing, and equal to the best where that can be worked out by hand."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import EvenPacking, InvalidLimits, InvalidSamples, Samples, evenness_floor


@given(pairs=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4)), min_size=2, max_size=6))
def test_the_floor_is_below_every_packing(pairs: list[tuple[int, int]]) -> None:
    """Against all packings of a few samples into each number of packs."""
    tokens, image = np.array([a + b for a, b in pairs]), np.array([b for _, b in pairs])
    for n_packs in (2, 3):
        least = None
        for answer in product(range(n_packs), repeat=len(pairs)):
            used, held = (np.bincount(answer, values, n_packs) for values in (tokens, image))
            if used.max() <= 12 and len(set(answer)) == n_packs and held.sum():
                cv = float(held.std() / held.mean())
                least = cv if least is None else min(least, cv)
        if least is not None:
            assert evenness_floor(tokens, image, 12, n_packs) <= least + 1e-9


def test_floors_worked_out_by_hand() -> None:
    # 60 + 0 + 0 in three packs of at most 100: the long sample alone has amount, so (60, 0, 0)
    assert evenness_floor(np.array([60, 60, 60]), np.array([60, 0, 0]), 100, 3) == pytest.approx(sqrt(2))
    # nine tiles of 256 in two packs: 5 and 4
    assert evenness_floor(np.full(9, 300), np.full(9, 256), 8192, 2) == pytest.approx(1 / 9)
    # units of 3 and 2: packs of 5 are even, and 3 + 3 and 2 + 2 is what sums to 5 each cannot beat
    assert evenness_floor(np.full(4, 300), np.array([768, 768, 512, 512]), 8192, 2) == 0.0
    # four samples of 5 tiles and none smaller: three packs hold 10, 5, 5
    assert evenness_floor(np.full(4, 1300), np.full(4, 1280), 8192, 3) == pytest.approx(sqrt(2) * 5 / 20)
    assert evenness_floor([60, 60, 60], [60, 0, 0], 100, 3) == pytest.approx(sqrt(2))
    assert evenness_floor(np.array([5]), np.array([3]), 10, 1) == 0.0
    assert evenness_floor(np.array([5, 5]), np.array([0, 0]), 10, 2) == 0.0
    assert evenness_floor(np.zeros(0, np.int64), np.zeros(0, np.int64), 10, 0) == 0.0
    # a sample without tokens is beside any other: 3 + 3 and 6
    assert evenness_floor([0, 2, 1], [3, 3, 6], 2, 2) == 0.0
    # rooms are counted in steps of 4 tokens, and four samples of one token each are in one of them
    assert evenness_floor([199_996, 1, 1, 1, 1, 150_000], [0, 1, 1, 1, 1, 4], 200_000, 2) == 0.0


def test_the_floor_of_amounts_without_a_common_step() -> None:
    """Their squares are large, and costs of very different sizes make the solver of the patterns fail."""
    best = np.array([285, 500, 787, 1000])
    floor = evenness_floor([1, 33, 50, 33, 33], [285, 0, 500, 787, 1000], 100, 4)
    assert floor == pytest.approx(best.std() / best.mean())


def test_the_floor_holds_for_amounts_whose_sums_leave_64_bits() -> None:
    """Amounts of a water level in every pack, and of the densest samples in every token of a room, are beyond int64."""
    rng = np.random.default_rng(0)
    tokens, flops = rng.integers(10, 5_000, 1_000), rng.integers(0, 2**50, 1_000)
    packing = EvenPacking(("flops",), rounds=4).pack(Samples(tokens, {"flops": flops}), 8192)
    held = packing.sums()["flops"].astype(float)
    assert evenness_floor(tokens, flops, 8192, len(packing)) <= held.std() / held.mean()
    pairs = np.array([2**45, 2**45 - 1] * 4_000)  # two and two are even
    assert evenness_floor(np.full(8_000, 1), pairs, 2**16, 4_000) == 0.0


def test_the_floor_is_of_samples_that_fit() -> None:
    with pytest.raises(InvalidSamples, match="tokens, at most 10, and an amount; got 2 tokens up to 11 and 2"):
        evenness_floor([11, 2], [1, 1], 10, 2)
    with pytest.raises(InvalidSamples, match="got 2 tokens up to 9 and 1 amounts"):
        evenness_floor([9, 2], [1], 10, 2)
    with pytest.raises(InvalidLimits, match="capacity must be in"):
        evenness_floor([9, 2], [1, 1], 0, 2)
    for tokens, n_packs in (([6, 6, 1], 1), ([5, 5, 5], 1), ([9], 0)):
        with pytest.raises(InvalidLimits, match=f"at least {n_packs + 1} packs of 10 tokens; n_packs is {n_packs}"):
            evenness_floor(tokens, tokens, 10, n_packs)
    with pytest.raises(InvalidLimits, match="n_packs must be an integer"):
        evenness_floor([9, 2], [1, 1], 10, 2.5)  # type: ignore[arg-type]
