"""Cost models from measured times: exact on clean ones, close on bad ones, and errors that say which timing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancers import Linear
from balancers.fitting import fit
from packing import InvalidParameter


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(0, 10**4),
    st.lists(st.integers(0, 10**5), min_size=5, max_size=30, unique=True),
)
def test_clean_timings_give_the_coefficients_exactly(fixed_us: int, us: int, tokens: list[int]) -> None:
    image_tokens = np.array(tokens)
    made = fit({"image_tokens": image_tokens}, fixed_us + us * image_tokens)
    assert made.model.loads({"image_tokens": image_tokens}).tolist() == (fixed_us + us * image_tokens).tolist()
    assert made.n_outliers == 0


def test_the_fixed_cost_survives_noise_and_outliers() -> None:
    """Sum of lengths + 5 per pack, 5 % noise, one timing in ten 3 to 10 times too long."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        tokens = rng.integers(0, 50, 1000)
        timings = (tokens + 5) * rng.normal(1, 0.05, 1000)
        timings[:100] *= rng.uniform(3, 10, 100)
        made = fit({"tokens": tokens}, timings, columns=("tokens",))
        assert made.model.fixed_us == pytest.approx(5, rel=0.05)
        assert dict(made.model.us_per)["tokens"] == pytest.approx(1, rel=0.05)
        assert 100 <= made.n_outliers <= 110
        assert made.relative_error < 0.05
        assert made.residuals_us[:100].min() > 0


def test_a_plan_needs_the_fixed_cost() -> None:
    """Sum of lengths + 5 per pack: 2 packs of 50 tokens cost 110, 4 of 25 cost 120."""
    tokens = np.array([1, 2, 30, 40, 50])
    model = fit({"tokens": tokens}, tokens + 5, columns=("tokens",)).model
    assert model == Linear(5.0, tokens=1.0)
    assert model.loads({"tokens": np.full(2, 50)}).sum() == 110
    assert model.loads({"tokens": np.full(4, 25)}).sum() == 120


def test_exact_text_packs_do_not_silence_noisy_image_packs() -> None:
    """Six packs in ten hold no image and take 60 ms to a hair; the others vary by 5 %."""
    rng = np.random.default_rng(0)
    image_tokens = rng.integers(500, 4000, 1000) * (rng.random(1000) < 0.4)
    timings = 60_000 + 280 * image_tokens * rng.normal(1, 0.05, 1000)
    model = fit({"image_tokens": image_tokens}, timings).model
    assert model.fixed_us == pytest.approx(60_000, rel=1e-3)
    assert dict(model.us_per)["image_tokens"] == pytest.approx(280, rel=0.01)


def test_several_columns_with_attention() -> None:
    rng = np.random.default_rng(0)
    tokens = rng.integers(100, 8192, 200)
    amounts = {"tokens": tokens, "tokens_squared": tokens * rng.integers(10, 8192, 200), "images": rng.poisson(3, 200)}
    true = Linear(1000, tokens=1.5, causal_pairs=0.002, images=70)
    made = fit(amounts, true.loads(amounts), columns=("tokens", "causal_pairs", "images"))
    assert made.model.fixed_us == pytest.approx(1000, rel=1e-3)
    assert [us for _, us in made.model.us_per] == pytest.approx([1.5, 0.002, 70], rel=1e-3)


def test_coefficients_are_never_negative() -> None:
    tokens = np.array([10, 20, 30, 40, 50, 60])
    falling = fit({"tokens": tokens}, 100 - tokens, columns=("tokens",)).model
    assert dict(falling.us_per)["tokens"] == 0
    below = fit({"tokens": tokens}, 2 * tokens - 15, columns=("tokens",)).model
    assert below.fixed_us == 0
    assert fit({"tokens": tokens}, [0] * 6, columns=("tokens",)).model == Linear(0.0, tokens=0.0)


def test_the_same_timings_give_the_same_model() -> None:
    rng = np.random.default_rng(7)
    tokens, order = rng.integers(0, 5000, 300), rng.permutation(300)
    timings = (60_000 + 280 * tokens) * rng.lognormal(0, 0.1, 300)
    first = fit({"image_tokens": tokens}, timings)
    assert first.model == fit({"image_tokens": tokens[order]}, timings[order]).model


def test_drift_is_seen_both_ways_and_noise_is_not(caplog: pytest.LogCaptureFixture) -> None:
    tokens = np.arange(0, 5000, 10)
    clean = 60_000 + 280 * tokens
    made = fit({"image_tokens": tokens}, clean)
    rng = np.random.default_rng(0)
    for factor, drifted in ((1.0, False), (1.08, False), (1.2, True), (0.8, True)):
        timings = clean * factor * rng.normal(1, 0.05, len(tokens))
        assert made.drift({"image_tokens": tokens}, timings) == pytest.approx(factor - 1, abs=0.02)
        caplog.clear()
        assert made.drifted({"image_tokens": tokens}, timings) is drifted
        assert ("off the fitted cost model (tolerance 10.0 %): fit again" in caplog.text) is drifted
    assert made.drifted({"image_tokens": tokens}, clean * 1.08, tolerance=0.05)


def test_bad_timings_and_columns() -> None:
    tokens = np.array([1, 2, 3, 4, 5])
    amounts = {"image_tokens": tokens, "tokens": 2 * tokens + 7, "images": np.ones(5, dtype=np.int64)}
    for bad, shown in ((np.nan, "nan"), (np.inf, "inf"), (-1, "-1.0")):
        with pytest.raises(InvalidParameter, match=rf"finite and >= 0; timings_us\[2\] = {shown}\. Leave it out"):
            fit(amounts, [1, 2, bad, 4, 5])
    for odd in (["a"] * 5, [[1], [2, 3]]):
        with pytest.raises(InvalidParameter, match="timings_us must be a row of numbers"):
            fit(amounts, odd)
    with pytest.raises(InvalidParameter, match="must not be masked"):
        fit(amounts, np.ma.array(np.arange(5.0), mask=[False] * 4 + [True]))
    with pytest.raises(InvalidParameter, match=r"image_tokens must be finite; image_tokens\[4\] = nan"):
        fit({"image_tokens": np.array([1, 2, 3, 4, np.nan])}, [1, 2, 3, 4, 5])
    with pytest.raises(InvalidParameter, match=r"at least 4 timings; got shape \(3,\)\. Time more packs"):
        fit({"image_tokens": tokens[:3]}, [1, 2, 3])
    with pytest.raises(InvalidParameter, match=r'"image_tokens" must have one amount per timing; \(5,\) for \(6,\)'):
        fit(amounts, [1, 2, 3, 4, 5, 6])
    with pytest.raises(InvalidParameter, match='"images" is the same in every timed pack'):
        fit(amounts, tokens, columns=("images",))
    with pytest.raises(InvalidParameter, match='"tokens" is a combination of the columns before it'):
        fit(amounts, tokens, columns=("image_tokens", "tokens"))
    with pytest.raises(InvalidParameter, match='fit is asked for the column "pixels"; the packs have image_tokens'):
        fit(amounts, tokens, columns=("pixels",))
    images = np.array([0] * 8 + [1] * 2)
    with pytest.raises(InvalidParameter, match="too few of the timings agree with each other"):
        fit({"images": images}, [100] * 8 + [200, 400], columns=("images",))
    with pytest.raises(InvalidParameter, match="different names of amounts; got 'tokens'"):
        fit(amounts, tokens, columns="tokens")
    with pytest.raises(InvalidParameter, match='"fixed_us" is fitted anyway'):
        fit(amounts, tokens, columns=("fixed_us",))
