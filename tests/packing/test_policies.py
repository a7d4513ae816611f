"""Nothing is lost: what is in no pack is listed, with how many tokens and why."""

from __future__ import annotations

import numpy as np
import pytest

from packing import (
    BestFitDecreasing,
    CannotCut,
    LeftOverRow,
    Limits,
    NextFit,
    Oversize,
    Oversized,
    Packing,
    Padded,
    Portfolio,
    Reason,
    Samples,
    fewest_packs,
)


def pack(tokens: list[int], capacity: int, oversize: Oversize, align: int = 1) -> Packing:
    return BestFitDecreasing().pack(tokens, Limits(capacity, oversize=oversize, align=align))


def pieces(packing: Packing) -> list[tuple[int, int, int]]:
    """(sample, start, stop) of every piece, sorted."""
    starts = [0] * len(packing.sample) if packing.start is None else packing.start.tolist()
    return sorted(zip(packing.sample.tolist(), starts, (starts + packing.piece_tokens).tolist(), strict=True))


def test_overlong_samples_under_each_policy() -> None:
    with pytest.raises(Oversized, match=r"sample 0 takes 7 tokens, the limit is 4 \(1 too long in all\)") as caught:
        pack([7, 3, 2], 4, Oversize.ERROR)
    assert (caught.value.index, caught.value.amount, caught.value.limit) == (0, 7, 4)

    dropped = pack([7, 3, 2], 4, Oversize.DROP)
    assert len(dropped) == 2
    assert list(dropped.left_over) == [LeftOverRow(0, 7, Reason.DROPPED)]

    truncated = pack([7, 3, 2], 4, Oversize.TRUNCATE)
    assert len(truncated) == 3
    assert pieces(truncated) == [(0, 0, 4), (1, 0, 3), (2, 0, 2)]
    assert list(truncated.left_over) == [LeftOverRow(0, 3, Reason.TRUNCATED)]

    split = pack([7, 3, 2], 4, Oversize.SPLIT)
    assert len(split) == 4
    assert pieces(split) == [(0, 0, 4), (0, 4, 7), (1, 0, 3), (2, 0, 2)]
    assert list(split.left_over) == []

    isolated = pack([7, 3, 2], 4, Oversize.ISOLATE)
    assert [isolated[p].tolist() for p in range(3)] == [[0], [1], [2]]
    assert isolated.slots.tolist() == [7, 4, 4]


def test_the_default_loses_nothing_silently() -> None:
    with pytest.raises(Oversized):
        BestFitDecreasing().pack([7, 3, 2], 4)


def test_kept_and_lost_tokens_are_all_tokens() -> None:
    packing = pack([50, 120, 100, 0, 101], 100, Oversize.DROP)
    assert list(packing.left_over) == [
        LeftOverRow(1, 120, Reason.DROPPED),
        LeftOverRow(3, 0, Reason.EMPTY),
        LeftOverRow(4, 101, Reason.DROPPED),
    ]
    assert packing.pack_of_sample.tolist() == [1, -1, 0, -1, -1]  # 100 fits exactly
    assert int(packing.tokens.sum()) + int(packing.left_over.tokens.sum()) == 371


def test_isolated_packs_come_first_and_pay_for_themselves() -> None:
    packing = pack([100, 5000, 100], 4096, Oversize.ISOLATE)
    assert [packing[p].tolist() for p in range(len(packing))] == [[1], [0, 2]]
    assert packing.slots.tolist() == [5000, 4096]
    all_oversize = pack([30, 45], 20, Oversize.ISOLATE)
    assert [all_oversize[p].tolist() for p in range(len(all_oversize))] == [[0], [1]]
    assert all_oversize.fill == 1.0


def test_one_sample_above_the_capacity_is_named_or_isolated_and_the_bound_agrees() -> None:
    with pytest.raises(Oversized, match="sample 0 takes 5000 tokens, the limit is 4096"):
        BestFitDecreasing().pack([5000, 100, 100], 4096)
    for packer in (BestFitDecreasing(), NextFit(), Portfolio()):
        packing = packer.pack([5000, 100, 100], Limits(4096, oversize=Oversize.ISOLATE))
        assert [packing[p].tolist() for p in range(len(packing))] == [[0], [1, 2]]
        assert packing.slots.tolist() == [5000, 4096]
    assert 1 + fewest_packs(np.array([[100], [100]]), np.array([4096])) == 2  # the isolated one, and the others


def test_samples_without_tokens_are_listed_under_every_policy() -> None:
    for oversize in Oversize:
        packing = pack([5, 0, 3], 8, oversize)
        assert packing.pack_of_sample.tolist() == [0, -1, 0]
        assert list(packing.left_over) == [LeftOverRow(1, 0, Reason.EMPTY)]
        if oversize is not Oversize.ERROR:
            assert next(iter(pack([0, 9, 3], 8, oversize).left_over)) == LeftOverRow(0, 0, Reason.EMPTY)


def test_alignment_counts_against_the_capacity_and_not_as_tokens() -> None:
    packing = pack([7, 7, 7], 16, Oversize.ERROR, align=4)
    assert len(packing) == 2
    assert packing.tokens.sum() == 21
    with pytest.raises(Oversized, match="sample 0 takes 12 tokens, the limit is 10"):
        pack([9], 10, Oversize.ERROR, align=4)
    assert pieces(pack([9], 10, Oversize.SPLIT, align=4)) == [(0, 0, 8), (0, 8, 9)]
    assert pack([9], 10, Oversize.ISOLATE, align=4).slots.tolist() == [12]


def test_a_sample_with_images_is_not_cut() -> None:
    samples = Samples([50, 30], {"image_tokens": [32, 0]})
    text = r"sample 0 \(50 tokens, limit 30\) carries 32 image_tokens, whose place in it is unknown"
    for oversize in (Oversize.TRUNCATE, Oversize.SPLIT):
        with pytest.raises(CannotCut, match=text):
            BestFitDecreasing().pack(samples, Limits(30, oversize=oversize))
    first = Samples([50, 50], {"images": [0, 1], "supervised": [3, 0]})  # the first sample, not the first column
    with pytest.raises(CannotCut, match=r"sample 0 .* carries 3 supervised"):
        BestFitDecreasing().pack(first, Limits(30, oversize=Oversize.SPLIT))
    assert len(BestFitDecreasing().pack(samples, Limits(30, oversize=Oversize.DROP))) == 1


def test_a_sample_above_a_budget_is_oversize_too() -> None:
    samples = Samples([10, 10], {"images": [5, 1]})
    limits = Limits(30, budgets=(("images", 4),))
    with pytest.raises(Oversized, match="sample 0 takes 5 images, the limit is 4") as caught:
        NextFit().pack(samples, limits)
    assert caught.value.resource == "images"
    alone = NextFit().pack(samples, Limits(30, limits.budgets, oversize=Oversize.ISOLATE))
    assert [alone[p].tolist() for p in range(2)] == [[0], [1]]
    cut = Limits(30, limits.budgets, max_samples=9, oversize=Oversize.SPLIT)
    assert NextFit().pack(Samples([70, 10], {"images": [0, 1]}), cut).sums()["tokens"].tolist() == [30, 30, 20]


def test_padded_batches_of_pieces() -> None:
    packing = Padded().pack([7, 3, 2], Limits(4, oversize=Oversize.SPLIT))
    assert packing.slots.tolist() == [4, 3, 3, 2]
