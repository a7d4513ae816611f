"""Every packer: all samples once, no limit broken; and each rule exactly as its definition has it."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import (
    PACKERS,
    BestFit,
    BestFitDecreasing,
    CannotServe,
    Exact,
    FirstFit,
    FirstFitDecreasing,
    InvalidGroups,
    InvalidLimits,
    InvalidParameter,
    InvalidSamples,
    Limits,
    NextFit,
    NextFitDecreasing,
    Oversize,
    Packer,
    Padded,
    Pieces,
    Samples,
    WorstFit,
    WorstFitDecreasing,
)
from packing.arrays import Int32

from . import naive

SHORT = {"Exact": Exact(limit=0.01)}
OURS = [SHORT[name] if name in SHORT else PACKERS.get(name)() for name in PACKERS.names()]
WHOLE = [packer for packer in OURS if not packer.cuts]
lengths = st.lists(st.integers(1, 20), max_size=40)


def pack_of(packer: Packer, sizes: list[int], capacity: int) -> list[int]:
    packs: list[int] = packer.pack(sizes, capacity).pack_of_sample.tolist()
    return packs


@pytest.mark.parametrize("packer", OURS, ids=repr)
@given(
    sizes=st.lists(st.integers(0, 40), max_size=60), oversize=st.sampled_from(list(Oversize)), align=st.integers(1, 5)
)
def test_every_token_is_in_one_pack_or_listed(packer: Packer, sizes: list[int], oversize: Oversize, align: int) -> None:
    limits = Limits(20, align=align, oversize=oversize)
    if oversize is Oversize.ERROR:
        sizes = [size % (20 // align * align + 1) for size in sizes]
    packing = packer.pack(sizes, limits)
    assert int(packing.tokens.sum()) + int(packing.left_over.tokens.sum()) == sum(sizes)
    for pack in range(len(packing)):
        pieces = packing.piece_tokens[packing.offsets[pack] : packing.offsets[pack + 1]]
        assert len(pieces) > 0
        assert all(pieces > 0)
        if packing.slots[pack] > 20:  # an isolated one is alone, and pays for itself
            assert oversize is Oversize.ISOLATE
            assert len(pieces) == 1
            assert packing.slots[pack] == -(-pieces[0] // align) * align
        else:
            assert sum(-(-pieces // align) * align) <= packing.slots[pack] <= 20
    if oversize is not Oversize.SPLIT and not packer.cuts:
        assert sorted(packing.sample.tolist()) == sorted(set(packing.sample.tolist()))


@pytest.mark.parametrize("packer", OURS, ids=repr)
@given(sizes=lengths)
def test_packing_leaves_its_input_alone_and_is_repeatable(packer: Packer, sizes: list[int]) -> None:
    array = np.array(sizes, dtype=np.int64)
    first, second = packer.pack(array, 20), packer.pack(array.copy(), 20)
    assert array.tolist() == sizes
    assert first.offsets.tolist() == second.offsets.tolist()
    assert first.sample.tolist() == second.sample.tolist()


@given(sizes=lengths, capacity=st.integers(20, 300))
def test_each_rule_is_its_naive_form(sizes: list[int], capacity: int) -> None:
    in_order, falling = list(range(len(sizes))), naive.decreasing(sizes)
    assert pack_of(NextFit(), sizes, capacity) == naive.next_fit(sizes, capacity)
    assert pack_of(WorstFit(), sizes, capacity) == naive.worst_fit(sizes, in_order, capacity)
    assert pack_of(WorstFitDecreasing(), sizes, capacity) == naive.worst_fit(sizes, falling, capacity)
    next_fit_decreasing = [pack_of(NextFitDecreasing(), sizes, capacity)[i] for i in falling]
    assert next_fit_decreasing == naive.next_fit([sizes[i] for i in falling], capacity)
    assert pack_of(Padded(), sizes, capacity) == naive.padded(sizes, capacity)
    assert pack_of(FirstFit(), sizes, capacity) == naive.first_fit(sizes, in_order, capacity)
    assert pack_of(FirstFitDecreasing(), sizes, capacity) == naive.first_fit(sizes, falling, capacity)
    assert pack_of(BestFit(), sizes, capacity) == naive.best_fit(sizes, in_order, capacity)
    assert pack_of(BestFitDecreasing(), sizes, capacity) == naive.best_fit(sizes, falling, capacity)


@pytest.mark.parametrize("capacity", [8192, 10_000_019])
def test_each_rule_is_its_naive_form_on_2000_real_sizes(capacity: int) -> None:
    """The large capacity crosses the words of the bitset's summary."""
    rng = np.random.default_rng(0)
    sizes = np.clip(rng.lognormal(6.5, 1, 2000) * capacity / 8192, 16, capacity).astype(np.int64).tolist()
    falling = naive.decreasing(sizes)
    assert pack_of(FirstFitDecreasing(), sizes, capacity) == naive.first_fit(sizes, falling, capacity)
    assert pack_of(BestFitDecreasing(), sizes, capacity) == naive.best_fit(sizes, falling, capacity)
    assert pack_of(BestFit(), sizes, capacity) == naive.best_fit(sizes, list(range(2000)), capacity)


@given(sizes=st.lists(st.integers(1, 12), max_size=8))
def test_textbook_guarantees(sizes: list[int]) -> None:
    best = naive.fewest_packs(sizes, 12)
    for simple in (NextFit(), NextFitDecreasing(), WorstFit(), WorstFitDecreasing()):
        assert len(simple.pack(sizes, 12)) <= max(2 * best - 1, 0)
    assert 10 * len(FirstFit().pack(sizes, 12)) <= 17 * best
    assert 10 * len(BestFit().pack(sizes, 12)) <= 17 * best
    assert 9 * len(FirstFitDecreasing().pack(sizes, 12)) <= 11 * best + 6
    assert 9 * len(BestFitDecreasing().pack(sizes, 12)) <= 11 * best + 36
    for packer in WHOLE:
        assert len(packer.pack(sizes, 12)) >= best
    assert len(Exact().pack(sizes, 12)) == best


ANY_FIT = (FirstFit(), FirstFitDecreasing(), BestFit(), BestFitDecreasing(), WorstFit(), WorstFitDecreasing())


@pytest.mark.parametrize("packer", ANY_FIT, ids=repr)
@given(sizes=st.lists(st.integers(1, 24), max_size=40))
def test_at_most_one_pack_is_half_empty(packer: Packer, sizes: list[int]) -> None:
    """No rule opens a pack for what fits into one that is open."""
    packing = packer.pack(sizes, 24)
    assert np.count_nonzero(2 * packing.tokens <= 24) <= 1


@given(sizes=st.lists(st.integers(1, 24), max_size=40))
def test_two_neighbours_of_next_fit_are_more_than_one_pack(sizes: list[int]) -> None:
    tokens = NextFit().pack(sizes, 24).tokens
    assert (tokens[:-1] + tokens[1:] > 24).all()


def test_rules_differ_where_the_textbooks_say() -> None:
    assert pack_of(NextFit(), [5, 7, 3, 5], 10) == [0, 1, 1, 2]
    assert pack_of(FirstFit(), [5, 7, 3, 5], 10) == [0, 1, 0, 2]
    assert pack_of(BestFit(), [5, 7, 3, 5], 10) == [0, 1, 1, 0]
    assert pack_of(FirstFitDecreasing(), [2, 3, 4, 5, 6], 10) == [1, 1, 0, 1, 0]
    assert pack_of(Padded(), [3, 4, 2, 9, 1], 10) == [0, 0, 1, 2, 3]
    assert Padded().pack([3, 4, 2, 9, 1], 10).slots.tolist() == [8, 2, 9, 1]
    assert Padded().pack([3, 4, 2, 9, 1], 10).fill == 19 / 20


def test_capacity_bounds_packs_where_the_mean_does_not() -> None:
    """ceil(60 / 10) = 6 is only a lower bound: no two of these fit together."""
    for packer in WHOLE:
        packing = packer.pack([6] * 10, 10)
        assert len(packing) == 10
        assert packing.tokens.max() == 6


def test_packs_are_skipped_by_their_samples() -> None:
    """Packs of 3, 2, 4 and 3 samples: after two of them five samples are seen, and the rest gives the other packs."""
    sizes = [4, 4, 4, 6, 6, 3, 3, 3, 3, 4, 4, 4]
    packing = NextFit().pack(sizes, 12)
    assert np.diff(packing.offsets).tolist() == [3, 2, 4, 3]
    seen = int(packing.offsets[2])
    assert seen == 5
    rest = NextFit().pack(sizes[seen:], 12)
    assert [*packing.sample[:seen].tolist(), *(seen + rest.sample).tolist()] == list(range(12))
    assert np.diff(rest.offsets).tolist() == [4, 3]


def test_an_exact_fit_fits() -> None:
    assert len(BestFitDecreasing().pack([4, 6, 10], 10)) == 2


def test_tiny_sets() -> None:
    for packer in OURS:
        assert len(packer.pack([], 100)) == 0
        assert packer.pack([], 100).fill == 0.0
        one = packer.pack([5], 100)
        assert len(one) == 1
        assert one.fill == (1.0 if packer == Padded() else 0.05)


def test_a_packing_of_many_small_samples_is_small() -> None:
    BestFitDecreasing().pack([1], 1)  # compiled before memory is watched
    sizes = np.full(50_000, 100)
    tracemalloc.start()
    packing = BestFitDecreasing().pack(sizes, 4096)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(packing) == 1250
    assert peak < 10_000_000


def test_budgets_and_counts_are_kept_by_next_fit_and_refused_by_the_others() -> None:
    samples = Samples([10] * 6, {"image_tokens": [3, 3, 1, 0, 4, 0]})
    limits = Limits(100, budgets=(("image_tokens", 4),))
    assert NextFit().pack(samples, limits).pack_of_sample.tolist() == [0, 1, 1, 1, 2, 2]
    assert NextFit().pack(samples, Limits(100, max_samples=4)).pack_of_sample.tolist() == [0, 0, 0, 0, 1, 1]
    assert Padded().pack(samples, Limits(1000, max_samples=4)).slots.tolist() == [40, 20]
    with pytest.raises(CannotServe, match=r"one limit, the tokens\. Use NextFit for budgets"):
        BestFitDecreasing().pack(samples, limits)
    with pytest.raises(CannotServe, match="Use FirstFitDecreasing"):
        BestFit().pack([1], 2**28)
    assert len(FirstFit().pack([2**30] * 5, 2**31 - 1)) == 5
    with pytest.raises(InvalidLimits, match=r'budget for "video", but .* \(they have image_tokens\)'):
        NextFit().pack(samples, Limits(100, budgets=(("video", 4),)))


class Answers(Packer):
    """Gives a fixed answer."""

    def __init__(self, answer: object) -> None:
        object.__setattr__(self, "answer", answer)

    def group(self, pieces: Pieces) -> Int32:
        return np.array(self.answer)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return "Answers()"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([0, 0], r"Answers\(\) must return one integer per piece, shape \(3,\); got int64, shape \(2,\)\."),
        ([0.0, 0.0, 1.0], "one integer per piece"),
        ([0, -1, 0], "must number packs 0, 1, 2, ...; got -1 to 0"),
        ([0, 2, 2], "left pack 1 of 3 empty"),
        ([0, 9, 2], "must number packs"),
        ([0, 0, 0], "put 12 into pack 0; limit 0 of 1 is 10"),
    ],
)
def test_a_wrong_answer_of_a_packer_is_an_error(answer: list[int], text: str) -> None:
    with pytest.raises(InvalidGroups, match=text):
        Answers(answer).pack([4, 4, 4], 10)


def test_what_is_packed_stays_read_only_and_travels() -> None:
    packing = FirstFitDecreasing().pack([5, 4, 0, 3], 7)
    for each in (packing, pickle.loads(pickle.dumps(packing)), copy.deepcopy(packing)):
        assert each.sums()["tokens"].tolist() == [5, 7]
        for array in (each.offsets, each.sample, each.slots, each.tokens, each.left_over.sample):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_squares_are_counted_only_where_they_fit() -> None:
    packing = NextFit().pack([2**32], Limits(8, oversize=Oversize.ISOLATE))
    assert packing.fill == 1.0
    with pytest.raises(InvalidSamples, match="a piece has 4294967296 tokens; squares are counted up to 2147483647"):
        packing.sums()


def test_sums_are_what_packs_hold() -> None:
    samples = Samples([5, 4, 3, 2], {"image_tokens": [4, 0, 2, 0]})
    packing = FirstFitDecreasing().pack(samples, 7)
    assert [packing[0].tolist(), packing[1].tolist()] == [[0, 3], [1, 2]]
    assert packing[-1].tolist() == [1, 2]
    assert {name: values.tolist() for name, values in packing.sums().items()} == {
        "packs": [1, 1],
        "samples": [2, 2],
        "tokens": [7, 7],
        "tokens_squared": [29, 25],
        "image_tokens": [4, 2],
    }
    assert packing.sum_of("image_tokens").tolist() == [4, 2]
    assert packing.sum_of("tokens_squared").tolist() == [29, 25]
    with pytest.raises(InvalidParameter, match='no column "imgs" to sum; there are tokens_squared, image_tokens'):
        packing.sum_of("imgs")
    assert packing.fill == 1.0
    with pytest.raises(IndexError, match="pack 2 of 2"):
        packing[2]
    with pytest.raises(TypeError, match=r"takes the number of one pack, an integer; got slice\(0, 1, None\) \(slice\)"):
        packing[0:1]  # type: ignore[index]
    assert packing[np.int64(1)].tolist() == packing[-1].tolist()  # type: ignore[index]
    assert repr(packing) == "Packing(2 packs, fill 1.0000, 0 samples left over)"


@pytest.mark.parametrize("call", ["a", 1.5, -1, 2**63])
def test_a_call_is_a_number(call: object) -> None:
    with pytest.raises(InvalidParameter, match="call must be"):
        NextFit().pack([1], 10, call)  # type: ignore[arg-type]
