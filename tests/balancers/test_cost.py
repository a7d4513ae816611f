"""From contents to microseconds, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancers import Auto, Barrier, Counts, Grid, Linear, Plan, Problem
from balancers.cost import stages
from packing import InvalidParameter, NextFit, Samples


def test_the_vision_encoder_of_the_report() -> None:
    """60 ms + 0.28 ms per image token: 900 ms at 3,000 and 200 ms at 500."""
    encoder = Linear(fixed_us=60_000, image_tokens=280)
    assert encoder.loads({"image_tokens": np.array([3000, 500, 0])}).tolist() == [900_000, 200_000, 60_000]
    assert repr(encoder) == "Linear(fixed_us=60000, image_tokens=280)"
    assert encoder == Linear(fixed_us=60_000, image_tokens=280) != Linear(fixed_us=60_000)


def test_fractions_of_a_microsecond_round_once_at_the_end() -> None:
    line = Linear(fixed_us=0.25, tokens=0.1, packs=1)
    assert line.loads({"tokens": np.array([2, 3, 10]), "packs": np.array([1, 1, 1])}).tolist() == [1, 2, 2]


def test_amounts_are_counts_of_any_integer_type() -> None:
    assert Linear(tokens=1000).loads({"tokens": np.array([2**30, 2], dtype=np.int32)}).tolist() == [1000 * 2**30, 2000]
    assert Linear(causal_pairs=1).loads({"tokens_squared": [9], "tokens": [3]}).tolist() == [6]  # type: ignore[dict-item]
    for odd, text in (([1.5, 2], "got dtype float64"), ([-1, 2], r"tokens\[0\] = -1"), ([[1]], "got shape")):
        with pytest.raises(InvalidParameter, match=text):
            Linear(tokens=1).loads({"tokens": np.array(odd)})
    with pytest.raises(InvalidParameter, match='"b" must have one amount per pack; 3 for 2'):
        Linear(b=1).loads({"tokens": np.arange(2), "b": np.arange(3)})


def test_loads_of_a_packing() -> None:
    packing = NextFit().pack(Samples([5, 5, 5], {"image_tokens": [4, 0, 1]}), 10)
    assert Linear(10, image_tokens=2, samples=100).loads(packing.sums()).tolist() == [10 + 8 + 200, 10 + 2 + 100]
    assert Linear(1).loads(NextFit().pack([], 10).sums()).tolist() == []


def test_attention_counts_pairs_within_samples() -> None:
    """Samples of 1000, 1000 and 2000 tokens in one pack: 6.0e6 pairs, causal 3.002e6; never 4000 squared."""
    sums = NextFit().pack(Samples([1000, 1000, 2000]), 4000).sums()
    assert Linear(full_pairs=1).loads(sums).tolist() == [6_000_000]
    assert Linear(causal_pairs=1).loads(sums).tolist() == [3_002_000]
    assert Linear(100, tokens=1.5, causal_pairs=0.002).loads(sums).tolist() == [100 + 6_000 + 6_004]
    with pytest.raises(
        InvalidParameter, match=r"the packs have tokens\. It is worked out from tokens_squared and tokens"
    ):
        Linear(causal_pairs=1).loads({"tokens": np.array([1])})


def test_packs_of_equal_tokens_are_told_apart_by_attention() -> None:
    """Of 4,096 tokens each, as 1, 2, 4 and 8 samples: work 8 : 4 : 2 : 1. Best 8 against 7, two packs each 9 against 6;
    by tokens alone 12 against 3 looks even, and shows under the true loads."""
    samples = Samples([4096] + [2048] * 2 + [1024] * 4 + [512] * 8)
    sums = NextFit().pack(samples, 4096).sums()
    work, tokens = Linear(full_pairs=1).loads(sums), Linear(tokens=1).loads(sums)
    assert (work // work.min()).tolist() == [8, 4, 2, 1]
    assert Auto().plan(Problem(work, 2)).imbalance == pytest.approx(8 / 7.5)
    assert Auto().plan(Problem(work, Grid(2, counts=Counts.EQUAL))).imbalance == pytest.approx(9 / 7.5)
    by_tokens = Plan(Problem(tokens, 2), [0, 0, 1, 1])
    assert by_tokens.imbalance == 1.0
    assert Plan(Problem(work, 2), by_tokens.cell).imbalance == pytest.approx(12 / 7.5)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=20))
def test_pairs_are_those_of_each_sample(lengths: list[int]) -> None:
    sums = NextFit().pack(Samples(lengths), sum(lengths)).sums()
    assert Linear(causal_pairs=1).loads(sums).tolist() == [sum(n * (n + 1) // 2 for n in lengths)]
    assert Linear(full_pairs=1).loads(sums).tolist() == [sum(n * n for n in lengths)]


def test_a_fixed_cost_tells_few_packs_from_many() -> None:
    """Sum of lengths + 5 per pack: 2 packs of 50 tokens cost 110, 4 of 25 cost 120."""
    model = Linear(5, tokens=1)
    assert model.loads({"tokens": np.full(2, 50)}).sum() == 110
    assert model.loads({"tokens": np.full(4, 25)}).sum() == 120


def test_stages_are_columns() -> None:
    packing = NextFit().pack(Samples([5, 5, 5], {"image_tokens": [4, 0, 1]}), 10)
    loads = stages(packing.sums(), Linear(10, image_tokens=2), Linear(tokens=1))
    assert loads.tolist() == [[18, 10], [12, 5]]
    assert Problem(loads, Grid(2, 1, Barrier.STAGE, stages=("vision", "language"))).total.tolist() == [28, 17]


def test_bad_coefficients_and_amounts() -> None:
    with pytest.raises(InvalidParameter, match=r"Linear\(image_tokens=...\) must be a finite number >= 0 .* got -1"):
        Linear(image_tokens=-1)
    with pytest.raises(InvalidParameter, match="got nan"):
        Linear(float("nan"))
    with pytest.raises(InvalidParameter, match="got '3'"):
        Linear("3")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match='coefficient for "pixels"; the packs have tokens'):
        Linear(pixels=1).loads({"tokens": np.array([1])})
    with pytest.raises(InvalidParameter, match=r'"fixd_us"; the packs have tokens\. Did you mean "fixed_us"\?'):
        Linear(fixd_us=60_000).loads({"tokens": np.array([1])})
    with pytest.raises(InvalidParameter, match=r"from packing\.sums\(\), amounts by name; got Packing\(1 packs, fill"):
        Linear(tokens=1).loads(NextFit().pack([5], 10))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="needs the amounts"):
        Linear(1).loads({})
    with pytest.raises(InvalidParameter, match=r"the largest load is about 1000000000000000000000 us"):
        Linear(tokens=1e12).loads({"tokens": np.array([10**9])})
    assert Linear(5, tokens=1e20).loads({"tokens": np.array([0, 0])}).tolist() == [5, 5]  # nothing costs nothing
