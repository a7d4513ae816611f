"""What a trainer takes from a pack: boundaries, positions, segments, and denominators of the loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import (
    BestFitDecreasing,
    Buffered,
    InvalidSamples,
    Limits,
    NextFit,
    Oversize,
    Samples,
    count_supervised,
    loss_weights,
)


def test_padding_is_a_segment_or_left_out_and_no_boundary_repeats() -> None:
    full = NextFit().pack([512, 512], 1024).layout(0)
    assert full.cu_seqlens.tolist() == full.cu_tokens.tolist() == [0, 512, 1024]
    assert full.cu_seqlens.dtype == np.int32
    packing = NextFit().pack([5, 0, 3], 10)
    assert packing.layout(0).samples.tolist() == [0, 2]  # the empty sample is listed as left over
    assert packing.layout(0).cu_seqlens.tolist() == [0, 5, 8, 10]
    assert packing.layout(0, padding_segment=False).cu_seqlens.tolist() == [0, 5, 8]
    assert packing.layout(-1).padding.tolist() == [False] * 8 + [True] * 2


def test_alignment_keeps_true_and_padded_boundaries() -> None:
    layout = NextFit().pack([7, 7, 7], Limits(17, align=4)).layout(0)
    assert layout.cu_seqlens.tolist() == [0, 8, 16, 17]
    assert layout.cu_tokens.tolist() == [0, 7, 14, 15]
    assert layout.lengths.tolist() == [7, 7]
    assert layout.position_ids.tolist() == [*range(7), 0, *range(7), 0, 0]
    assert layout.segment_ids.tolist() == [1] * 7 + [0] + [2] * 7 + [0, 0]
    assert (layout.longest, layout.n_slots) == (8, 17)


def test_an_isolated_pack_is_as_long_as_it_is() -> None:
    packing = NextFit().pack([9, 2], Limits(8, align=4, oversize=Oversize.ISOLATE))
    assert packing.layout(0).cu_seqlens.tolist() == [0, 12]
    assert packing.layout(0).cu_tokens.tolist() == [0, 9]
    with pytest.raises(IndexError, match="pack 2 of 2"):
        packing.layout(2)


def test_pieces_and_arrivals_are_named() -> None:
    limits = Limits(4, oversize=Oversize.SPLIT)
    cut = NextFit().pack([6, 1], limits).layout(1)
    assert (cut.samples.tolist(), cut.start.tolist(), cut.stop.tolist()) == ([0, 1], [4, 0], [6, 1])
    assert cut.position_ids.tolist() == [0, 1, 0, 0]
    stream = Buffered(NextFit(), limits, 2)
    assert [stream.push([4, 4]).layout(0).samples.tolist(), stream.push([3]).layout(0).samples.tolist()] == [[0], [1]]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 4), st.booleans())
def test_every_layout_agrees_with_its_boundaries(sizes: list[int], align: int, padding_segment: bool) -> None:
    packing = BestFitDecreasing().pack(sizes, Limits(12, align=align))
    for pack in range(len(packing)):
        layout = packing.layout(pack, padding_segment=padding_segment)
        assert layout.cu_seqlens[0] == layout.cu_tokens[0] == 0
        assert (np.diff(layout.cu_seqlens) > 0).all()
        assert (np.diff(layout.cu_tokens) > 0).all()
        assert layout.cu_seqlens[-1] <= layout.n_slots == 12
        assert int((~layout.padding).sum()) == packing.tokens[pack] == layout.lengths.sum()
        for k, (sample, length) in enumerate(zip(layout.samples, layout.lengths, strict=True)):
            places = np.flatnonzero(layout.segment_ids == k + 1)
            assert length == sizes[sample] == len(places)
            assert places.tolist() == list(range(layout.cu_seqlens[k], layout.cu_seqlens[k] + length))
            assert layout.position_ids[places].tolist() == list(range(length))
        assert not layout.position_ids[layout.padding].any()


def test_boundary_labels_are_not_subtracted_twice() -> None:
    """Three samples of 3, 2 and 4 tokens whose first label is masked already have 6 labels to learn, not 3 or 4."""
    offsets = [0, 3, 5, 9]
    masked = [-100, 7, 7, -100, 7, -100, 7, 7, 7]
    assert count_supervised(masked, offsets).tolist() == [2, 1, 3]
    assert count_supervised([7] * 9, offsets).tolist() == [2, 1, 3]
    assert count_supervised([], [0]).tolist() == []
    assert count_supervised([7, 7], [0, 0, 2, 2]).tolist() == [0, 1, 0]
    packing = NextFit().pack(Samples([3, 2, 4], {"supervised": count_supervised(masked, offsets)}), 5)
    assert packing.sums()["supervised"].tolist() == [3, 3]
    with pytest.raises(InvalidSamples, match=r"offsets must fit the labels, of shape \(2,\); got \[0, 3\]"):
        count_supervised([7, 7], [0, 3])
    with pytest.raises(InvalidSamples, match="labels must be one row, those of all samples end to end"):
        count_supervised([[7, 7], [7]], [0, 2, 3])


def test_the_mean_loss_does_not_depend_on_the_grouping() -> None:
    """Losses 8 over 4 tokens, 1 over 1 and 3 over 3: 1.5 a token, while the mean of means is 1.33."""
    for groups in ([[0], [1], [2]], [[0, 1], [2]], [[0, 1, 2]], [[0, 2], [1]]):
        loss = [sum((8, 1, 3)[i] for i in group) for group in groups]
        tokens = [sum((4, 1, 3)[i] for i in group) for group in groups]
        assert loss_weights(tokens) @ (np.array(loss) / tokens) == pytest.approx(1.5)


def test_nothing_to_learn_weighs_nothing() -> None:
    assert loss_weights([0, 6, 2]).tolist() == [0.0, 0.75, 0.25]
    assert loss_weights([0, 0]).tolist() == [0.0, 0.0]
    assert loss_weights([]).tolist() == []
