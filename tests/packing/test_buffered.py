"""Streams: what comes out does not depend on how it is pushed, nor on a stop in between."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import (
    BestFitDecreasing,
    Buffered,
    CannotServe,
    EvenPacking,
    Exact,
    InvalidParameter,
    InvalidSamples,
    LeftOverRow,
    Limits,
    NextFit,
    Oversize,
    Oversized,
    Packer,
    Packing,
    Portfolio,
    Reason,
    Samples,
    Spans,
)

Pack = list[tuple[int, int]]  # (arrival, tokens) of each piece


def packs(packing: Packing) -> list[Pack]:
    pairs = list(zip(packing.arrivals.tolist(), packing.piece_tokens.tolist(), strict=True))
    return [pairs[a:b] for a, b in pairwise(packing.offsets.tolist())]


def left_over(packing: Packing) -> list[tuple[int, int, Reason]]:
    assert packing.arrival is not None
    return [(int(packing.arrival[row.sample]), row.tokens, row.reason) for row in packing.left_over]


def stream(buffered: Buffered, sizes: list[int], cuts: list[int]) -> tuple[list[Pack], list[tuple[int, int, Reason]]]:
    """All packs and left-over samples of ``sizes``, pushed in the parts that ``cuts`` make."""
    edges = [0, *sorted(cut for cut in cuts if cut < len(sizes)), len(sizes)]
    out = [buffered.push(sizes[a:b]) for a, b in pairwise(edges)]
    out.append(buffered.flush())
    return [pack for each in out for pack in packs(each)], [row for each in out for row in left_over(each)]


sizes = st.lists(st.integers(0, 30), max_size=60)


@pytest.mark.parametrize("packer", [BestFitDecreasing(), NextFit(), EvenPacking(rounds=2)], ids=repr)
@settings(max_examples=40)
@given(
    sizes=sizes,
    cuts=st.lists(st.integers(0, 60), max_size=4),
    size=st.integers(1, 12),
    oversize=st.sampled_from([Oversize.DROP, Oversize.TRUNCATE, Oversize.SPLIT, Oversize.ISOLATE]),
)
def test_packs_do_not_depend_on_how_the_stream_is_pushed(
    packer: Packer, sizes: list[int], cuts: list[int], size: int, oversize: Oversize
) -> None:
    limits = Limits(20, oversize=oversize)
    at_once = stream(Buffered(packer, limits, size), sizes, [])
    assert at_once == stream(Buffered(packer, limits, size), sizes, cuts)
    assert at_once == stream(Buffered(packer, limits, size), sizes, list(range(len(sizes))))
    tokens = dict.fromkeys(range(len(sizes)), 0)
    for arrival, n in [*(piece for pack in at_once[0] for piece in pack), *(row[:2] for row in at_once[1])]:
        tokens[arrival] += n
    assert list(tokens.values()) == sizes


@settings(max_examples=40)
@given(sizes=sizes, stop=st.integers(0, 60), size=st.integers(1, 12))
def test_a_stream_resumes_exactly(sizes: list[int], stop: int, size: int) -> None:
    limits = Limits(20, oversize=Oversize.SPLIT)
    first, second, whole = (Buffered(EvenPacking(rounds=2), limits, size) for _ in range(3))
    before = packs(first.push(sizes[:stop]))
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    after = [*packs(second.push(sizes[stop:])), *packs(second.flush())]
    assert before + after == [*packs(whole.push(sizes)), *packs(whole.flush())]


def test_the_fuller_half_leaves_when_the_buffer_is_full() -> None:
    """Best fit packs 9, 8, 6 | 4 as (6, 4), (9), (8): two of three leave, and 8 waits for 2."""
    buffered = Buffered(BestFitDecreasing(), 10, 4)
    assert packs(buffered.push([9, 8, 6])) == []
    assert len(buffered) == 3
    assert packs(buffered.push([4])) == [[(0, 9)], [(2, 6), (3, 4)]]
    assert packs(buffered.push([2])) == []
    assert packs(buffered.flush()) == [[(1, 8), (4, 2)]]
    assert packs(buffered.flush()) == []


def test_no_sample_grows_old() -> None:
    """Samples of 7 find no partner among samples of 5, but leave in time all the same."""
    size = 20
    buffered = Buffered(BestFitDecreasing(), 10, size)
    arrived, oldest = 0, 0
    for _ in range(40):
        packing = buffered.push([7, *[5] * 9])
        arrived += 10
        assert buffered.arrived == arrived
        oldest = max(oldest, arrived - int(packing.arrivals.min(initial=arrived)))
    assert 2 * size < oldest <= 4 * size + 10  # a push is seen as a whole


def test_what_a_policy_leaves_over_is_listed_once_with_its_arrival() -> None:
    buffered = Buffered(BestFitDecreasing(), Limits(10, oversize=Oversize.TRUNCATE), 3)
    assert left_over(buffered.push([5, 0])) == [(1, 0, Reason.EMPTY)]
    packing = buffered.push([17, 3, 9])
    assert left_over(packing) == [(2, 7, Reason.TRUNCATED)]
    rest = buffered.flush()
    assert left_over(rest) == []
    assert sorted(chain(*packs(packing), *packs(rest))) == [(0, 5), (2, 10), (3, 3), (4, 9)]
    assert next(iter(packing.left_over)) == LeftOverRow(packing.arrival.tolist().index(2), 7, Reason.TRUNCATED)  # type: ignore[union-attr]


def test_sums_are_those_of_the_samples() -> None:
    buffered = Buffered(EvenPacking(("images",)), 10, 4)
    packing = buffered.push(Samples([5, 5, 9, 2], {"images": [1, 2, 3, 4]}))
    rest = buffered.flush()
    assert packing.sums()["images"].sum() + rest.sums()["images"].sum() == 10
    assert packing.limits == Limits(10)
    assert {**packing.sums()}.keys() == {**rest.sums()}.keys()


rows = st.lists(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=3), min_size=1, max_size=20)


@settings(max_examples=40)
@given(
    rows=rows,
    cuts=st.lists(st.integers(0, 20), max_size=3),
    size=st.integers(1, 8),
    oversize=st.sampled_from([Oversize.TRUNCATE, Oversize.SPLIT]),
    stop=st.integers(0, 20),
)
def test_pieces_of_a_sample_have_the_images_that_lie_in_them(
    rows: list[list[tuple[int, int]]], cuts: list[int], size: int, oversize: Oversize, stop: int
) -> None:
    """Each sample is a sequence of (text, image); the stream is stopped and resumed once."""
    spans = []
    for row in rows:
        ends = np.cumsum([0, *(text + image for text, image in row)]).tolist()
        spans.append([(end - image, end) for (_, image), end in zip(row, ends[1:], strict=True)])
    tokens = [sum(map(sum, row)) + 1 for row in rows]
    samples = Samples(tokens, {}, Spans.of(spans))
    edges = [0, *sorted({cut for cut in [*cuts, stop] if cut < len(rows)}), len(rows)]
    buffered, out = Buffered(Portfolio(), Limits(12, (("images", 2),), oversize=oversize), size), []
    for a, b in pairwise(edges):
        out.append(buffered.push(Samples(tokens[a:b], {}, Spans.of(spans[a:b]))))
        state = buffered.state_dict()
        buffered = Buffered(buffered.packer, buffered.limits, size)
        buffered.load_state_dict(json.loads(json.dumps(state)))
    out.append(buffered.flush())
    for packing in out:
        sample, start, stop_at = packing.arrivals, packing.start, packing.stop
        if start is None or stop_at is None:
            start, stop_at = np.zeros_like(sample), packing.piece_tokens
        for name in ("images", "image_tokens"):
            held = samples.amounts(name, sample, start, stop_at)
            assert packing.sums()[name].tolist() == [held[a:b].sum() for a, b in pairwise(packing.offsets.tolist())]
            whole = packing.samples.columns[name]
            assert packing.arrival is not None
            assert whole.tolist() == samples.columns[name][packing.arrival].tolist()
        assert packing.sums()["images"].max(initial=0) <= 2
        assert pickle.loads(pickle.dumps(packing)).sums()["images"].tolist() == packing.sums()["images"].tolist()
    assert sum(int(packing.tokens.sum() + packing.left_over.tokens.sum()) for packing in out) == sum(tokens)


def test_a_column_may_have_any_name() -> None:
    buffered = Buffered(NextFit(), 10, 4)
    buffered.push(Samples([5, 3], {"start": [1, 2], "entered": [0, 4]}))
    packing = buffered.flush()
    assert (packing.sums()["start"].tolist(), packing.sums()["entered"].tolist()) == ([3], [4])


def test_nothing_is_taken_by_a_push_that_is_refused() -> None:
    buffered = Buffered(EvenPacking(("images",)), 10, 4)
    buffered.push(Samples([5], {"images": [1]}))
    with pytest.raises(Oversized):
        buffered.push(Samples([5, 11], {"images": [1, 0]}))
    with pytest.raises(CannotServe, match='the target "images"'):
        buffered.push([5])
    with pytest.raises(InvalidSamples, match="same columns, images; got images, video"):
        buffered.push(Samples([5], {"images": [1], "video": [0]}))
    assert len(buffered) == 1
    assert packs(buffered.flush()) == [[(0, 5)]]


def test_nothing_is_taken_by_a_push_that_fails_while_it_packs() -> None:
    """The bytes of three samples together are beyond int64; each alone is not."""
    buffered = Buffered(NextFit(), 10, 3)
    sample = Samples([5], {"n_bytes": [2**61 - 1]})
    buffered.push(sample)
    buffered.push(sample)
    before = buffered.state_dict()
    with pytest.raises(InvalidSamples, match=r"the sum of n_bytes must be below 2\*\*62"):
        buffered.push(Samples([5], {"n_bytes": [9]}))
    after = buffered.state_dict()
    assert {**before, "pieces": None} == {**after, "pieces": None}
    assert packs(buffered.flush()) == [[(0, 5), (1, 5)]]


def test_one_pack_of_many_short_samples_does_not_hold_up_the_stream() -> None:
    """999 samples of one token are never urgent beside full packs, and would be packed anew for each of these."""
    buffered = Buffered(BestFitDecreasing(), 8192, 1000)
    buffered.push(np.append(np.ones(999, np.int64), np.full(1_000, 8192)))
    assert buffered.state_dict()["call"] < 2 * 32


def test_the_first_push_with_samples_fixes_the_columns() -> None:
    buffered = Buffered(NextFit(), 10, 4)
    assert packs(buffered.push([])) == []
    assert packs(buffered.push(Samples([5, 0], {"images": [1, 0]}))) == []
    with pytest.raises(InvalidSamples, match="same columns, images; got none"):
        buffered.push([5])
    assert buffered.flush().sums()["images"].tolist() == [1]
    assert packs(buffered.push([])) == []  # no samples have any columns
    lost = Buffered(NextFit(), 10, 4)
    assert left_over(lost.push(Samples([0], {"images": [0]}))) == [(0, 0, Reason.EMPTY)]
    with pytest.raises(InvalidSamples, match="same columns, images; got none"):
        lost.push([5])


def test_a_packer_may_be_made_for_fewer_samples_than_one_push_brings() -> None:
    at_once, one_by_one = Buffered(Exact(), 10, 5), Buffered(Exact(), 10, 5)
    sizes = [1 + i % 7 for i in range(1_001)]
    assert packs(at_once.push(sizes)) == [pack for size in sizes for pack in packs(one_by_one.push([size]))]


def test_two_streams_are_not_equal() -> None:
    assert Buffered(NextFit(), 10, 4) != Buffered(NextFit(), 10, 4)
    with pytest.raises(InvalidParameter, match=r"packer must be a packer, such as BestFitDecreasing\(\); got 'nf'"):
        Buffered("nf", 10, 4)  # type: ignore[arg-type]


def test_a_state_fits_its_own_stream_only() -> None:
    with pytest.raises(InvalidParameter, match=r"a state has packer, limits, .*; got packer\."):
        Buffered(NextFit(), 10, 4).load_state_dict({"packer": "NextFit()"})  # type: ignore[typeddict-item]
    state = Buffered(NextFit(), 10, 4).state_dict()
    with pytest.raises(InvalidParameter, match=r"a stream with packer NextFit\(\); this one has BestFitDecreasing\(\)"):
        Buffered(BestFitDecreasing(), 10, 4).load_state_dict(state)
    with pytest.raises(InvalidParameter, match="buffer_size 4; this one has 5"):
        Buffered(NextFit(), 10, 5).load_state_dict(state)
    with pytest.raises(InvalidParameter, match="buffer_size must be in"):
        Buffered(NextFit(), 10, 0)
    damaged = {**state, "pieces": {"entered": ["0"]}}
    with pytest.raises(
        InvalidParameter, match=r"pieces\['entered'\] must be integers; .* Pass what state_dict\(\) gave"
    ):
        Buffered(NextFit(), 10, 4).load_state_dict(damaged)  # type: ignore[arg-type]


def test_memory_does_not_grow_with_the_stream() -> None:
    buffered = Buffered(BestFitDecreasing(), 4_096, 1_000)
    chunk = np.random.default_rng(0).integers(1, 3_000, 5_000)
    peaks = []
    tracemalloc.start()
    for _ in range(8):
        tracemalloc.reset_peak()
        for _ in range(4):
            buffered.push(chunk)
        peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert max(peaks[4:]) < 1.15 * max(peaks[:4])
