"""Samplers: every sample once over all ranks, equally many batches everywhere, nothing communicated."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from balancers import ILP, LPT, Auto, Barrier, Counts, Grid, LeastMovement, Linear
from dist import BalancedBatchSampler, BalancedSampler, InvalidLoader
from packing import Concatenate, Limits, Oversize, Oversized, Packer, Samples, Spans

AtEnd: TypeAlias = Literal["drop", "repeat"]

COST = Linear(fixed_us=10, tokens=1)


def batch_samplers(n_ranks: int, n_samples: int, **options: object) -> list[BalancedBatchSampler]:
    tokens = np.random.default_rng(n_samples).integers(1, 60, n_samples)
    grid = Grid(n_ranks, n_micro_steps=2, counts=Counts.EQUAL)
    return [
        BalancedBatchSampler(tokens, grid=grid, limits=100, cost=COST, balancer=Auto(), rank=rank, **options)  # type: ignore[arg-type]
        for rank in range(n_ranks)
    ]


@given(st.integers(1, 4), st.integers(0, 80), st.sampled_from(["drop", "repeat"]))
def test_all_ranks_together_see_every_sample(n_ranks: int, n_samples: int, at_end: AtEnd) -> None:
    samplers = batch_samplers(n_ranks, n_samples, at_end=at_end)
    batches = [list(sampler) for sampler in samplers]
    assert len({len(each) for each in batches}) == 1
    assert all(len(each) == len(sampler) for each, sampler in zip(batches, samplers, strict=True))
    seen = sorted(sample for each in batches for batch in each for sample in batch)
    left_over = samplers[0].left_over.tolist()
    if at_end == "drop":
        assert sorted(seen + left_over) == list(range(n_samples))
    else:
        assert seen == sorted([*range(n_samples), *left_over])
    assert all(batch for each in batches for batch in each)


def test_an_epoch_is_shuffled_by_its_number_alone() -> None:
    (one, two) = batch_samplers(2, 50), batch_samplers(2, 50)
    np.random.seed(1)
    for sampler in (*one, *two):
        sampler.set_epoch(3)
    assert list(one[0]) == list(two[0])
    one[0].set_epoch(4)
    assert list(one[0]) != list(two[0])


def test_arguments_that_are_not_algorithms_or_plan_otherwise_elsewhere_are_refused() -> None:
    def sampler(**wrong: Any) -> BalancedBatchSampler:
        given = {"grid": 2, "limits": 100, "cost": COST, "balancer": LPT(), "rank": 0, **wrong}
        return BalancedBatchSampler([5] * 9, **given)

    for wrong, message in (
        ({"balancer": "LPT"}, "balancer must be a Balancer; got 'LPT'. BALANCERS.parse makes one of a text"),
        ({"cost": 3}, r"cost must be a Linear; got 3\."),
        ({"packer": "next_fit"}, r"packer must be a Packer; got 'next_fit'\. PACKERS.parse makes one of a text\."),
        ({"balancer": LeastMovement(ILP())}, r"LeastMovement\(ILP\(.*\)\) may plan otherwise on another machine. Use"),
    ):
        with pytest.raises(InvalidLoader, match=message):
            sampler(**wrong)
    sampler(balancer=ILP(), grid=1)


@given(st.integers(0, 120), st.sampled_from(["drop", "repeat"]))
def test_a_window_of_steps_loses_nothing(n_samples: int, at_end: AtEnd) -> None:
    tokens = np.random.default_rng(n_samples).integers(1, 60, n_samples)
    grid = Grid(2, n_micro_steps=2, counts=Counts.EQUAL, n_steps=3)
    samplers = [
        BalancedBatchSampler(tokens, grid=grid, limits=100, cost=COST, balancer=Auto(), at_end=at_end, rank=rank)
        for rank in range(2)
    ]
    batches = [list(sampler) for sampler in samplers]
    assert [len(each) for each in batches] == [len(sampler) for sampler in samplers] == [2 * samplers[0].n_steps] * 2
    seen = sorted(sample for each in batches for batch in each for sample in batch)
    left_over = samplers[0].left_over.tolist()
    everything = sorted(seen + left_over) if at_end == "drop" else seen
    assert everything == sorted([*range(n_samples), *(left_over if at_end == "repeat" else [])])


@given(st.integers(0, 60), st.integers(0, 3))
def test_resuming_inside_an_epoch_begins_behind_what_was_trained_on(done: int, epoch: int) -> None:
    batches, _ = batch_samplers(2, 50)
    grid = Grid(2, n_micro_steps=2, counts=Counts.EQUAL)
    samples = BalancedSampler(range(40), grid=grid, balancer=LPT(), batch_size=3, rank=1)
    for sampler, size in ((batches, 1), (samples, 3)):
        sampler.set_epoch(epoch)
        whole = list(sampler)
        sampler.set_epoch(epoch, done=done)
        assert list(sampler) == whole[done * size :]
        assert list(sampler) == whole  # only once
    with pytest.raises(InvalidLoader, match=r"done must be in \[0, .*; got -1"):
        batches.set_epoch(0, done=-1)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_goes_on_as_it_began_whatever_is_asked_about_others(workers: int) -> None:
    """And a DataLoader resumes inside of it, though it asks for two iterators where it has workers."""
    sampler, _ = batch_samplers(2, 50)
    sampler.set_epoch(1)
    whole = list(sampler)
    sampler.set_epoch(1, done=2)
    loader = DataLoader(
        Lengths(), batch_sampler=sampler, num_workers=workers, multiprocessing_context="fork" if workers else None
    )
    batches = iter(loader)
    found = [next(batches).tolist()]
    sampler.set_epoch(2)
    assert len(sampler)
    assert [*found, *(batch.tolist() for batch in batches)] == whole[2:]


def test_234_packs_on_4_ranks_are_59_steps_with_2_repeated_or_58_with_2_left_over() -> None:
    def sampler(at_end: AtEnd, rank: int) -> BalancedBatchSampler:
        grid = Grid(4, counts=Counts.EQUAL)
        return BalancedBatchSampler(
            [100] * 234, grid=grid, limits=100, cost=COST, balancer=LPT(), at_end=at_end, rank=rank
        )

    expected: list[tuple[AtEnd, int]] = [("repeat", 59), ("drop", 58)]
    for at_end, steps in expected:
        samplers = [sampler(at_end, rank) for rank in range(4)]
        assert [len(each) for each in samplers] == [steps] * 4
        assert [len(list(each)) for each in samplers] == [steps] * 4
        assert [len(each.left_over) for each in samplers] == [2] * 4


def test_10_samples_on_3_ranks_make_equal_steps() -> None:
    """Never 2, 1, 1."""
    expected: list[tuple[AtEnd, int, int]] = [("drop", 1, 4), ("repeat", 2, 2)]
    for at_end, steps, left_over in expected:
        grid = Grid(3, counts=Counts.EQUAL)
        samplers = [
            BalancedSampler([5] * 10, grid=grid, balancer=LPT(), batch_size=2, at_end=at_end, rank=rank)
            for rank in range(3)
        ]
        assert [each.n_steps for each in samplers] == [steps] * 3
        assert {len(each.left_over) for each in samplers} == {left_over}
        assert [len(list(each)) for each in samplers] == [2 * steps] * 3


def test_ranks_are_evener_than_as_shuffled() -> None:
    loads = np.random.default_rng(0).lognormal(4, 1, 4_000).astype(np.int64)
    grid = Grid(4, counts=Counts.EQUAL)
    samplers = [BalancedSampler(loads, grid=grid, balancer=LPT(), batch_size=8, rank=rank) for rank in range(4)]
    sums = np.array([loads[list(each)].reshape(-1, 8).sum(axis=1) for each in samplers])
    plain = np.random.default_rng(1).permutation(loads)[: sums.size * 8].reshape(4, -1, 8).sum(axis=2)
    assert sums.max(axis=0).sum() < 0.85 * plain.max(axis=0).sum()


class Lengths(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_takes_a_batch_sampler(workers: int) -> None:
    for sampler in batch_samplers(2, 50):
        batches = DataLoader(
            Lengths(), batch_sampler=sampler, num_workers=workers, multiprocessing_context="fork" if workers else None
        )
        for epoch in range(2):
            sampler.set_epoch(epoch)
            assert [batch.tolist() for batch in batches] == list(sampler)
            assert len(batches) == len(sampler)


def test_samples_that_fit_in_no_pack_are_listed() -> None:
    limits = Limits(10, oversize=Oversize.DROP)
    samples = Samples([5, 20, 5])
    sampler = BalancedBatchSampler(samples, grid=1, limits=limits, cost=COST, balancer=LPT())
    assert [sorted(batch) for batch in sampler] == [[0, 2]]
    assert [int(sampler.order[row.sample]) for row in sampler.packing.left_over] == [1]


def test_samples_are_whole_and_those_too_long_are_named_by_their_number() -> None:
    def sampler(oversize: Oversize, packer: Packer | None = None) -> BalancedBatchSampler:
        limits = Limits(10, oversize=oversize)
        return BalancedBatchSampler([5] * 40 + [20], grid=1, limits=limits, cost=COST, balancer=LPT(), packer=packer)

    for oversize in (Oversize.SPLIT, Oversize.TRUNCATE):
        with pytest.raises(InvalidLoader, match=f"a sampler yields whole samples, which {oversize} cuts"):
            sampler(oversize)
    with pytest.raises(InvalidLoader, match=r"which Concatenate\(.*\) cuts"):
        sampler(Oversize.DROP, Concatenate())
    with pytest.raises(Oversized, match="sample 40 takes 20 tokens"):
        sampler(Oversize.ERROR)


def test_images_of_samples_are_known() -> None:
    samples = Samples([9, 9], spans=Spans.of([[(1, 8)], []]))
    sampler = BalancedBatchSampler(samples, grid=1, limits=9, cost=Linear(image_tokens=1), balancer=LPT())
    assert sorted(sampler.packing.sums()["image_tokens"].tolist()) == [0, 7]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InvalidLoader, match=r"the grid has 4 ranks, the job 1\. Say which rank this is"):
        BalancedSampler([1, 2], grid=4, balancer=LPT(), batch_size=1)
    with pytest.raises(InvalidLoader, match=r"batches of one size need Grid\(counts=Counts.EQUAL\)"):
        BalancedSampler([1, 2], grid=Grid(2), balancer=LPT(), batch_size=1, rank=0)
    with pytest.raises(InvalidLoader, match=r"Grid\(n_ranks=2\) lets a micro-step have no pack.*counts=\(1, 1\)"):
        BalancedBatchSampler([1, 2], grid=Grid(2), limits=9, cost=COST, balancer=LPT(), rank=0)
    staged = Grid(1, 2, Barrier.STAGE, Counts.EQUAL, ("vision", "language"))
    text = (
        r"one load of each pack or sample; the grid has the stages \('vision', 'language'\)\. Use BalancedLoader, whose"
    )
    with pytest.raises(InvalidLoader, match=text):
        BalancedBatchSampler([1, 2], grid=staged, limits=9, cost=COST, balancer=Auto())
    with pytest.raises(InvalidLoader, match=text):
        BalancedSampler([1, 2], grid=staged, balancer=Auto(), batch_size=1)
    with pytest.raises(InvalidLoader, match=r"packs_per_cell must be in .*; got 0"):
        BalancedBatchSampler([1, 2], grid=1, limits=9, cost=COST, balancer=LPT(), packs_per_cell=0)
    with pytest.raises(InvalidLoader, match=r"batch_size must be an integer; got 1\.5"):
        BalancedSampler([1, 2], grid=1, balancer=LPT(), batch_size=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidLoader, match="packer must be a Packer; got 0"):
        BalancedBatchSampler([1], grid=1, limits=9, cost=COST, balancer=LPT(), packer=0)  # type: ignore[arg-type]
    with pytest.raises(InvalidLoader, match="loads must be a rectangular array of integers"):
        BalancedSampler([[1], [2, 3]], grid=1, balancer=LPT(), batch_size=1)
    with pytest.raises(InvalidLoader, match='at_end of a sampler must be "drop" or "repeat"; got \'pad\''):
        BalancedSampler([1], grid=1, balancer=LPT(), batch_size=1, at_end="pad")  # type: ignore[arg-type]
