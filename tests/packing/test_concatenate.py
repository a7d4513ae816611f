"""The stream method fills every pack, and tells what it cuts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import (
    BestFitDecreasing,
    Buffered,
    CannotCut,
    CannotServe,
    Concatenate,
    InvalidParameter,
    Limits,
    Portfolio,
    Samples,
    Spans,
)


def test_by_hand() -> None:
    """5, 7 and 3 tokens in packs of 6: 5 + 1, 6, 3; an image over the tokens 0 to 4 of the second is cut."""
    samples = Samples([5, 0, 7, 3], spans=Spans.of([[(0, 5)], [], [(0, 4)], [(0, 3)]]))
    packing = Concatenate().pack(samples, 6)
    assert packing.tokens.tolist() == [6, 6, 3]
    assert packing.sample.tolist() == [0, 2, 2, 3]
    assert packing.start is not None
    assert packing.start.tolist() == [0, 0, 1, 0]
    assert (packing.n_cut_samples, packing.n_cut_spans) == (1, 1)
    assert packing.sums()["image_tokens"].tolist() == [6, 3, 3]
    assert packing.sums()["images"].tolist() == [2, 0, 1]  # a cut one counts where it begins
    assert [row.sample for row in packing.left_over] == [1]


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(4, 12), st.integers(1, 4))
def test_the_stream_is_cut_and_nothing_else(sizes: list[int], capacity: int, align: int) -> None:
    packing = Concatenate().pack(sizes, Limits(capacity, align=align))
    tokens = [(i, place) for i, size in enumerate(sizes) for place in range(size)]
    assert packing.start is not None
    assert packing.stop is not None
    pieces = zip(packing.sample.tolist(), packing.start.tolist(), packing.stop.tolist(), strict=True)
    assert [(i, place) for i, start, stop in pieces for place in range(start, stop)] == tokens
    if align == 1:
        assert packing.tokens[:-1].tolist() == [capacity] * max(len(packing) - 1, 0)
    uncut = len({i for i, size in enumerate(sizes) if size}) - packing.n_cut_samples
    assert uncut == sum(packing.piece_tokens == [sizes[i] for i in packing.sample])


def test_what_has_no_known_place_is_not_cut() -> None:
    samples = Samples([4, 4], {"images": [1, 1]})
    with pytest.raises(CannotCut, match=r"sample 1 \(4 tokens, limit 6\) carries 1 images, whose place in it is unkn"):
        Concatenate().pack(samples, 6)
    assert Concatenate().pack(samples, 4).sums()["images"].tolist() == [1, 1]


def test_who_needs_whole_samples_refuses_it() -> None:
    with pytest.raises(CannotServe, match="cuts samples wherever a pack ends, and needs no buffer"):
        Buffered(Concatenate(), 8, 4)
    with pytest.raises(InvalidParameter, match=r"packs whole samples; Concatenate\(\) cuts them"):
        Portfolio((BestFitDecreasing(), Concatenate()))
