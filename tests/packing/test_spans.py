"""Images are never cut: pieces end in front of them, and carry exactly those that lie in them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import (
    BestFitDecreasing,
    Buffered,
    CannotCut,
    EvenPacking,
    InvalidSamples,
    LeftOverRow,
    Limits,
    NextFit,
    Oversize,
    Packing,
    Reason,
    Samples,
    Spans,
)

Parts = list[tuple[int, int]]  # of a sample: tokens of text, tokens of the image behind it


def with_images(per_sample: list[Parts]) -> Samples:
    """Samples of text and images in turn; parts of 0 tokens are not there."""
    spans, tokens = [], []
    for parts in per_sample:
        place, own = 0, []
        for text, image in parts:
            if image:
                own.append((place + text, place + text + image))
            place += text + image
        spans.append(own)
        tokens.append(place)
    return Samples(tokens, spans=Spans.of(spans))


def pieces(packing: Packing) -> list[tuple[int, int, int]]:
    starts = np.zeros_like(packing.sample) if packing.start is None else packing.start
    return sorted(zip(packing.sample.tolist(), starts.tolist(), (starts + packing.piece_tokens).tolist(), strict=True))


@pytest.mark.parametrize("oversize", [Oversize.DROP, Oversize.TRUNCATE, Oversize.SPLIT])
def test_an_image_that_fits_in_no_pack_takes_its_sample_along(oversize: Oversize) -> None:
    """10 tokens of text, an image of 32 and 8 of text in packs of 30: never 20 of the 32."""
    packing = NextFit().pack(with_images([[(10, 32), (8, 0)], [(5, 7)]]), Limits(30, oversize=oversize))
    reason = Reason.DROPPED if oversize is Oversize.DROP else Reason.UNCUTTABLE
    assert list(packing.left_over) == [LeftOverRow(0, 50, reason)]
    assert packing.sums()["image_tokens"].tolist() == [7]
    assert packing.sums()["images"].tolist() == [1]


def test_a_piece_ends_in_front_of_the_image_that_does_not_fit() -> None:
    samples = with_images([[(10, 25), (8, 3), (40, 0)]])  # images at 10 to 35 and 43 to 46, 86 tokens in all
    split = NextFit().pack(samples, Limits(30, oversize=Oversize.SPLIT))
    assert pieces(split) == [(0, 0, 10), (0, 10, 40), (0, 40, 70), (0, 70, 86)]
    assert split.sums()["image_tokens"].tolist() == [0, 25, 3, 0]
    assert split.sums()["images"].tolist() == [0, 1, 1, 0]
    assert (split.n_cut_samples, split.n_cut_spans) == (1, 0)
    truncated = NextFit().pack(samples, Limits(30, oversize=Oversize.TRUNCATE))
    assert pieces(truncated) == [(0, 0, 10)]
    assert list(truncated.left_over) == [LeftOverRow(0, 76, Reason.TRUNCATED)]


def test_budgets_of_images_cut_too() -> None:
    samples = with_images([[(2, 4), (2, 4), (2, 4), (2, 0)]])  # 20 tokens, 3 images of 4
    by_count = Limits(100, (("images", 2),), oversize=Oversize.SPLIT)
    by_tokens = Limits(100, (("image_tokens", 7),), oversize=Oversize.SPLIT)
    assert pieces(NextFit().pack(samples, by_count)) == [(0, 0, 14), (0, 14, 20)]
    assert pieces(NextFit().pack(samples, by_tokens)) == [(0, 0, 8), (0, 8, 14), (0, 14, 20)]
    for budget in (("images", 0), ("image_tokens", 3)):
        nothing = NextFit().pack(samples, Limits(100, (budget,), oversize=Oversize.SPLIT))
        assert list(nothing.left_over) == [LeftOverRow(0, 20, Reason.UNCUTTABLE)]


def test_what_has_no_known_place_is_not_cut() -> None:
    spans = Spans.of([[(0, 3)]])
    samples = Samples([9], {"supervised": [4]}, spans)
    with pytest.raises(CannotCut, match="carries 4 supervised, whose place in it is unknown"):
        NextFit().pack(samples, Limits(5, oversize=Oversize.SPLIT))
    with pytest.raises(CannotCut, match=r"carries 3 image_tokens, .* Give Samples\(spans=...\) for images; else use"):
        NextFit().pack(Samples([9], {"image_tokens": [3]}), Limits(5, oversize=Oversize.SPLIT))
    assert len(NextFit().pack(Samples([5], {"supervised": [4]}, spans), Limits(5, oversize=Oversize.SPLIT))) == 1


parts = st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=5), max_size=8)


@given(
    per_sample=parts,
    oversize=st.sampled_from([Oversize.DROP, Oversize.TRUNCATE, Oversize.SPLIT]),
    capacity=st.integers(4, 16),
    align=st.integers(1, 3),
    budgets=st.sampled_from([(), (("images", 2),), (("image_tokens", 8),), (("image_tokens", 12), ("images", 1))]),
)
def test_no_image_is_cut_and_no_token_lost(
    per_sample: list[Parts], oversize: Oversize, capacity: int, align: int, budgets: tuple[tuple[str, int], ...]
) -> None:
    samples = with_images(per_sample)
    assert samples.spans is not None
    packing = NextFit().pack(samples, Limits(capacity, budgets, align=align, oversize=oversize))
    assert packing.n_cut_spans == 0
    lost = {row.sample: row.tokens for row in packing.left_over}
    assert set(np.flatnonzero(samples.tokens == 0)) <= set(lost)
    kept = dict.fromkeys(range(len(samples)), 0)
    images = image_tokens = 0
    for sample, start, stop in pieces(packing):
        assert kept[sample] == start  # pieces follow each other from the beginning
        kept[sample] = stop
        own = slice(*samples.spans.offsets[sample : sample + 2])
        for a, b in zip(samples.spans.start[own], samples.spans.stop[own], strict=True):
            assert b <= start or stop <= a or start <= a < b <= stop
            images += start <= a < b <= stop
            image_tokens += (b - a) * (start <= a < b <= stop)
    assert all(kept[i] + lost.get(i, 0) == samples.tokens[i] for i in kept)
    sums = packing.sums()
    assert (sums["images"].sum(), sums["image_tokens"].sum()) == (images, image_tokens)
    for name, most in budgets:
        assert sums[name].max(initial=0) <= most


@given(parts, st.data())
def test_amounts_of_any_pieces(per_sample: list[Parts], data: st.DataObject) -> None:
    """Also of pieces that cut an image: each side has its tokens, and it counts where it begins."""
    samples = with_images([[(1, 0)], *per_sample])
    assert samples.spans is not None
    sample = data.draw(st.integers(0, len(samples) - 1))
    n = int(samples.tokens[sample])
    start, stop = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    own = slice(*samples.spans.offsets[sample : sample + 2])
    ranges = [range(a, b) for a, b in zip(samples.spans.start[own], samples.spans.stop[own], strict=True)]
    piece = [np.array([each]) for each in (sample, start, stop)]
    inside = samples.spans.inside(samples.tokens, *piece)
    assert inside["image_tokens"].tolist() == [sum(start <= place < stop for each in ranges for place in each)]
    assert inside["images"].tolist() == [sum(start <= each.start < stop for each in ranges)]
    cut = samples.spans.cut_by(samples.tokens, piece[0], piece[1])
    assert len(cut) == sum(each.start < start < each.stop for each in ranges)


def test_soft_targets_and_streams_know_pieces() -> None:
    samples = with_images([[(2, 8), (2, 8)], [(10, 0)]])
    packing = EvenPacking(("images",)).pack(samples, Limits(10, oversize=Oversize.SPLIT))
    assert sorted(packing.sums()["images"].tolist()) == [0, 1, 1]
    stream = Buffered(BestFitDecreasing(), Limits(10, oversize=Oversize.SPLIT), 4)
    stream.push(samples)
    packing = stream.flush()
    assert sorted(packing.sums()["images"].tolist()) == [0, 1, 1]
    assert packing.samples.columns["images"].tolist() == [2, 0]


def test_spans_are_checked_and_fill_in_the_columns() -> None:
    samples = Samples([5, 0, 9], {"images": [1, 0, 2]}, Spans([0, 1, 1, 3], [0, 2, 4], [5, 4, 9]))
    for each in (samples, pickle.loads(pickle.dumps(samples))):
        assert each.columns["image_tokens"].tolist() == [5, 0, 7]
        assert isinstance(each.spans, Spans)
        assert each.spans.owner.tolist() == [0, 2, 2]
        with pytest.raises(ValueError, match="read-only"):
            each.columns["images"][0] = 1
    assert len(Spans.of([])) == 0
    for arguments, text in (
        (([0, 2], [0], [1]), r"spans.offsets must begin at 0, .* got \[0, 2\] for 1 starts and 1 stops"),
        (([0, 1], [0], [0]), "spans of a sample must not be empty; span 0, of sample 0, is 0 to 0"),
        (([0, 0, 2], [0, 1], [2, 3]), "spans of a sample must follow each other; span 1, of sample 1, is 1 to 3"),
        (([0, 1], [-1], [2]), r"spans.start must be >= 0; spans.start\[0\] = -1"),
    ):
        with pytest.raises(InvalidSamples, match=text):
            Spans(*arguments)
    for columns, spans, text in (
        ({}, [[(0, 2)]], "one row per sample; 1 for 2"),
        ({}, [[], [(0, 6)]], "span 0 ends at 6, sample 1 has 5 tokens"),
        (
            {"image_tokens": [0, 1]},
            [[], [(0, 2)]],
            "image_tokens must be what the spans say; sample 1 has 1, its spans 2",
        ),
    ):
        with pytest.raises(InvalidSamples, match=text):
            Samples([5, 5], columns, Spans.of(spans))
