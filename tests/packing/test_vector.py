"""Several budgets: contracts, the one-limit case, and sets whose optimum is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import (
    BestFitDecreasing,
    EvenPacking,
    FirstFitDecreasing,
    InvalidParameter,
    Limits,
    NextFit,
    Packer,
    Padded,
    Portfolio,
    Samples,
    VectorBestFitDecreasing,
    VectorDotProduct,
    VectorFirstFit,
    VectorFirstFitDecreasing,
    fewest_packs,
)
from packing.arrays import Int64

MEASURES = ("max", "sum", "product", "norm")
DECREASING: tuple[Packer, ...] = (
    *map(VectorFirstFitDecreasing, MEASURES),
    *map(VectorBestFitDecreasing, MEASURES),
)
ALL: tuple[Packer, ...] = (
    *DECREASING,
    VectorDotProduct("dot"),
    VectorDotProduct("rest"),
    VectorFirstFit(3),
    VectorFirstFit(),
    Portfolio(),
)
rows = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 5), st.integers(0, 9)), max_size=30)


def limits_of(*budgets: int) -> Limits:
    return Limits(20, budgets=tuple(zip(("images", "video"), budgets, strict=False)))


def samples_of(rows: list[tuple[int, int, int]]) -> Samples:
    tokens, images, video = ([row[k] for row in rows] for k in range(3))
    return Samples(tokens, {"images": images, "video": video})


@pytest.mark.parametrize("packer", ALL, ids=repr)
@given(rows=rows, count=st.sampled_from([None, 1, 3]))
def test_every_limit_is_kept_and_every_sample_packed_once(
    packer: Packer, rows: list[tuple[int, int, int]], count: int | None
) -> None:
    samples, limits = samples_of(rows), Limits(20, limits_of(6, 9).budgets, count)
    packing = packer.pack(samples, limits)
    assert sorted(packing.sample.tolist()) == list(range(len(rows)))
    sums = packing.sums()
    for name, most in (("tokens", 20), ("images", 6), ("video", 9), ("samples", count or 99)):
        assert sums[name].max(initial=0) <= most
    sizes = np.array([*rows], dtype=np.int64).reshape(-1, 3)
    assert len(packing) >= fewest_packs(sizes, np.array([20, 6, 9]))
    assert packing.sample.tolist() == packer.pack(samples, limits).sample.tolist()


@pytest.mark.parametrize("measure", MEASURES)
@given(tokens=st.lists(st.integers(0, 20), max_size=40))
def test_budgets_that_nobody_draws_on_do_not_matter(measure: str, tokens: list[int]) -> None:
    samples, limits = Samples(tokens, {"images": [0] * len(tokens)}), limits_of(6)
    for ours, plain in (
        (VectorFirstFitDecreasing(measure), FirstFitDecreasing()),
        (VectorBestFitDecreasing(measure), BestFitDecreasing()),
    ):
        assert ours.pack(samples, limits).pack_of_sample.tolist() == plain.pack(tokens, 20).pack_of_sample.tolist()


@pytest.mark.parametrize("packer", [VectorFirstFit(3), VectorBestFitDecreasing()], ids=repr)
def test_the_unit_of_a_budget_does_not_matter(packer: Packer) -> None:
    rng = np.random.default_rng(0)
    tokens, flops = rng.integers(1, 30, 300), rng.integers(0, 20, 300)
    packings = [
        packer.pack(Samples(tokens, {"flops": flops * unit}), Limits(64, (("flops", 32 * unit),)))
        for unit in (1, 2**48)
    ]
    assert packings[0].digest() == packings[1].digest()


def test_complements_meet() -> None:
    """4 x (10 tokens, 3 images) and 6 x (30, 1) within (100, 4): 18 images need 5 packs, 220 tokens would need 3."""
    samples = Samples([10] * 4 + [30] * 6, {"images": [3] * 4 + [1] * 6})
    for packer in ALL:
        assert len(packer.pack(samples, Limits(100, (("images", 4),)))) == 5
    assert fewest_packs(np.array([[10, 3]] * 4 + [[30, 1]] * 6), np.array([100, 4])) == 5


def test_first_fit_by_hand() -> None:
    """Three samples fill the tokens, the images, and neither; the fourth fits beside the third alone."""
    samples = Samples([18, 2, 4, 3], {"images": [1, 6, 0, 6]})
    assert VectorFirstFit().pack(samples, limits_of(6)).pack_of_sample.tolist() == [0, 1, 1, 2]
    # with one open pack it is next fit
    rng = np.random.default_rng(0)
    many = Samples(rng.integers(1, 15, 200), {"images": rng.integers(0, 6, 200)})
    one = VectorFirstFit(1).pack(many, limits_of(6)).pack_of_sample
    assert one.tolist() == NextFit().pack(many, limits_of(6)).pack_of_sample.tolist()


@given(rows=rows)
def test_first_fit_decreasing_is_its_naive_form(rows: list[tuple[int, int, int]]) -> None:
    caps = np.array([20, 6, 9])
    shares = np.rint(np.array(rows, dtype=np.int64).reshape(-1, 3) / caps * 2**20)
    used: list[Int64] = []
    packs = [-1] * len(rows)
    for i in sorted(range(len(rows)), key=lambda i: -shares[i].max()):
        at = next((p for p, each in enumerate(used) if (each + rows[i] <= caps).all()), len(used))
        if at == len(used):
            used.append(np.zeros(3, np.int64))
        used[at] = used[at] + rows[i]
        packs[i] = at
    ours = VectorFirstFitDecreasing("max").pack(samples_of(rows), limits_of(6, 9)).pack_of_sample.tolist()
    if any(row[1] or row[2] for row in rows):
        assert ours == packs


@given(sizes=st.lists(st.tuples(st.integers(0, 10), st.integers(0, 4)), max_size=5))
def test_the_bound_is_below_the_optimum(sizes: list[tuple[int, int]]) -> None:
    array = np.array(sizes, dtype=np.int64).reshape(-1, 2)
    bound = fewest_packs(array, np.array([10, 4]))
    for n_packs in range(bound):
        for answer in product(range(n_packs), repeat=len(sizes)):
            used = np.stack([np.bincount(answer, column, n_packs) for column in array.T], axis=1)
            assert (used > [10, 4]).any()


def test_bounds_by_hand() -> None:
    one = np.array([10])
    assert fewest_packs(np.array([[6]] * 5), one) == 5  # the area says 3
    assert fewest_packs(np.array([[7]] * 3 + [[4]] * 2), one) == 4  # 7 + 4 do not fit, 4 + 4 do
    assert fewest_packs(np.array([[5]] * 4), one) == 2
    assert fewest_packs(np.zeros((0, 1), np.int64), one) == 0
    assert fewest_packs(np.array([[0]]), one) == 1


def test_a_portfolio_keeps_the_fewest_packs_and_the_first_of_equals() -> None:
    sizes = [6, 5, 5, 4, 10, 3, 7]
    portfolio = Portfolio((NextFit(), FirstFitDecreasing(), BestFitDecreasing()))
    fewest = FirstFitDecreasing().pack(sizes, 10)
    assert len(NextFit().pack(sizes, 10)) > len(fewest)
    assert portfolio.pack(sizes, 10).pack_of_sample.tolist() == fewest.pack_of_sample.tolist()
    assert Portfolio((Padded(),)).pack([3, 4, 2, 9, 1], 10).slots.tolist() == [8, 2, 9, 1]
    even = Portfolio((EvenPacking(("images",)), EvenPacking()))
    assert even.targets == ("images", "tokens_squared")
    assert len(even.pack(Samples([5, 5], {"images": [1, 0]}), 10)) == 1
    refused = portfolio.refusal(Samples([1]), Limits(9, max_samples=1))
    assert refused is not None
    assert refused.startswith("FirstFitDecreasing() cannot: it knows one limit")


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="must be one of sum, max, product, norm; got 'l2'"):
        VectorFirstFitDecreasing("l2")
    with pytest.raises(InvalidParameter, match="must be one of"):
        VectorBestFitDecreasing("l2")
    with pytest.raises(InvalidParameter, match='must be "dot" or "rest"'):
        VectorDotProduct("l2")
    with pytest.raises(InvalidParameter, match="must be >= 1; got 0"):
        VectorFirstFit(0)
    for open_packs in ("3", 2.5, True):
        with pytest.raises(InvalidParameter, match=r"VectorFirstFit\(open_packs=\.\.\.\) must be an integer; got"):
            VectorFirstFit(open_packs)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="at least one packer"):
        Portfolio(())
    for wrong in (NextFit(), (1,), ("next_fit",)):
        with pytest.raises(InvalidParameter, match="must be a tuple of packers; got"):
            Portfolio(wrong)  # type: ignore[arg-type]


def test_more_open_packs_than_samples_take_no_memory() -> None:
    assert len(VectorFirstFit(10**18).pack([6, 5, 4], 10)) == 2
