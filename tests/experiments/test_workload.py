"""The drawn samples look like the real ones, and are the same ones for the same seed."""

import re
from typing import Any

import numpy as np
import pytest

from experiments import InvalidWorkload, draw
from experiments.compare import image_token_cv
from packing import BestFitDecreasing

# mean tokens, share of image tokens, fill, CV of image tokens per pack: of the real samples, measured once
REAL = [
    ({"vlm": 1.0}, 1_545, 0.520, 0.9991, 0.461),
    ({"vlm": 0.4, "vqa": 0.1, "text": 0.5}, 1_407, 0.298, 0.9996, 0.874),
]


@pytest.mark.parametrize(("shares", "mean", "image_share", "fill", "cv"), REAL, ids=["images", "mixture"])
def test_draw_is_within_3_percent_of_the_real_samples(
    shares: dict[str, float], mean: float, image_share: float, fill: float, cv: float
) -> None:
    samples = draw(100_000, shares).samples
    packing = BestFitDecreasing().pack(samples, 8192)
    image_tokens = samples.columns["image_tokens"]
    assert samples.tokens.mean() == pytest.approx(mean, rel=0.03)
    assert image_tokens.sum() / samples.tokens.sum() == pytest.approx(image_share, rel=0.03)
    assert packing.fill == pytest.approx(fill, abs=0.0005)
    assert image_token_cv(packing) == pytest.approx(cv, rel=0.03)


def test_families_get_exactly_their_shares_of_the_samples() -> None:
    source = draw(1_000, {"vlm": 4, "vqa": 1, "text": 5}, seed=3).source
    assert source is not None
    assert np.char.startswith(source, "vlm-").sum() == 400
    assert np.isin(source, ["ai2d", "chartqa", "synthdog"]).sum() == 100
    assert (source == "conv").sum() == 500


def test_samples_are_whole_and_short_enough() -> None:
    samples = draw(20_000, longest=2_000).samples
    image_tokens, images = samples.columns["image_tokens"], samples.columns["images"]
    assert samples.tokens.min() >= 1
    assert samples.tokens.max() <= 2_000
    assert ((images == 0) == (image_tokens == 0)).all()


def test_vqa_images_are_tiles_of_256_tokens() -> None:
    columns = draw(1_000, {"vqa": 1.0}).samples.columns
    assert (columns["image_tokens"] == 256 * columns["images"]).all()


def test_one_seed_gives_one_workload_and_leaves_the_global_random_state_alone() -> None:
    before = repr(np.random.get_state(legacy=False))
    one, same, other = (draw(500, seed=seed).samples.tokens.tolist() for seed in (7, 7, 8))
    assert one == same != other
    assert repr(np.random.get_state(legacy=False)) == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n_samples": 0}, "at least 1 sample must be drawn; got 0."),
        ({"shares": {"audio": 1.0}}, 'no family "audio"; there are vlm, vqa, text, short_text.'),
        ({"shares": {"vlm": -1.0}}, "shares must be finite and >= 0; that of vlm is -1.0."),
        ({"shares": {"vlm": float("nan")}}, "shares must be finite and >= 0; that of vlm is nan."),
        ({"shares": {"vlm": 0.0}}, "some share must be above 0."),
        ({"shares": {"vlm": 1e308, "vqa": 1e308}}, "shares must have a finite sum; give smaller ones."),
        ({"seed": -1}, f"seed must be in [0, {2**62 - 1}]; got -1."),
        ({"longest": 1}, "hardly any sample of vlm has at most 1 tokens. Allow longer ones."),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidWorkload, match=f"^{re.escape(text)}$"):
        draw(**{"n_samples": 10, **arguments})
