"""Passes over an epoch that are saved between any two items, and resumed in another process."""

from __future__ import annotations

import json
import re
from collections import deque
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancers import LPT, Auto, Counts, Grid, Linear
from dist import BalancedBatchSampler, BalancedLoader, BalancedSampler, CannotResume
from dist.sampler_iterator import SamplerIterator

from .jobs import alone

GRID = Grid(2, n_micro_steps=2, counts=Counts.EQUAL)
TOKENS = np.random.default_rng(0).integers(1, 60, 50)
COST = Linear(fixed_us=10, tokens=1)


def batches(rank: int = 0, **options: Any) -> BalancedBatchSampler:
    given = {"grid": GRID, "limits": 100, "cost": COST, "balancer": LPT(), "rank": rank, **options}
    return BalancedBatchSampler(TOKENS, **given)


def samples(rank: int = 0, **options: Any) -> BalancedSampler:
    given = {"grid": GRID, "balancer": LPT(), "batch_size": 3, "rank": rank, **options}
    return BalancedSampler(TOKENS, **given)


SET_VITAL = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # which torchdata calls
BOTH = pytest.mark.parametrize("sampler", [batches, samples], ids=["batches", "samples"])


@pytest.fixture
def stateful_data_loader() -> Any:
    module = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata: pip install torchdata")
    return module.StatefulDataLoader


@BOTH
@given(yielded=st.integers(0, 60), epoch=st.integers(0, 3))
def test_a_pass_goes_on_behind_any_item(sampler: Any, yielded: int, epoch: int) -> None:
    first = sampler()
    first.set_epoch(epoch)
    whole = list(first)
    begun = iter(first)
    taken = list(islice(begun, yielded))
    state = json.loads(json.dumps(begun.state_dict()))  # plain values
    assert state["epoch"] == epoch
    assert state["yielded"] == len(taken)
    resumed = iter(sampler())  # of epoch 0
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    assert taken + list(resumed) == whole
    assert list(begun) == whole[len(taken) :]  # asking for the state changed nothing


@BOTH
def test_an_iterator_that_has_begun_takes_a_state_too(sampler: Any) -> None:
    first = sampler()
    whole, begun = list(first), iter(first)
    state = begun.state_dict()
    assert list(islice(begun, 5)) == whole[:5]
    begun.load_state_dict(state)
    assert list(begun) == whole


@BOTH
def test_the_state_with_an_item_is_that_of_its_delivery_however_far_a_reader_is_ahead(sampler: Any) -> None:
    """As StatefulDataLoader does it: the state is asked for with each item, and kept until that item is delivered."""
    whole, begun = list(sampler()), iter(sampler())
    ahead = deque((item, begun.state_dict()) for item in islice(begun, 4))
    delivered = []
    for _ in range(6):
        item, state = ahead.popleft()
        delivered.append(item)
        ahead.extend((item, begun.state_dict()) for item in islice(begun, 1))
    resumed = iter(sampler())
    resumed.load_state_dict(state)
    assert delivered + list(resumed) == whole


@BOTH
def test_all_ranks_have_the_same_state(sampler: Any) -> None:
    begun = [iter(sampler(rank)) for rank in range(2)]
    assert next(begun[0]) != next(begun[1])
    assert begun[0].state_dict() == begun[1].state_dict()


@BOTH
def test_other_settings_resume_only_between_epochs(sampler: Any) -> None:
    begun = iter(sampler())
    before = begun.state_dict()
    next(begun)
    others: list[dict[str, Any]] = [
        {"seed": 1},
        {"grid": Grid(1, counts=Counts.EQUAL)},
        {"balancer": Auto()},
        {"at_end": "repeat"},
    ]
    others += [{"packs_per_cell": 2}, {"limits": 99}] if sampler is batches else [{"batch_size": 2}]
    for other in others:
        resumed = iter(sampler(**other))
        resumed.load_state_dict(before)
        with pytest.raises(CannotResume, match=r"after item 1 of an epoch of .*Resume with the same settings, or save"):
            resumed.load_state_dict(begun.state_dict())
        assert list(resumed) == list(sampler(**other))


def test_anything_but_a_state_is_refused() -> None:
    begun = iter(batches())
    state = begun.state_dict()
    without_epoch = {key: value for key, value in state.items() if key != "epoch"}
    for wrong in (None, {}, without_epoch, {**state, "version": 0}, {**state, "yielded": -1}, {**state, "epoch": "3"}):
        text = re.escape(f"not a state of a sampler's iterator, version 1: {wrong!r}.")
        with pytest.raises(CannotResume, match=f"^{text}$"):
            begun.load_state_dict(wrong)  # type: ignore[arg-type]
    assert begun.state_dict() == state


def test_steps_that_were_trained_on_are_not_planned_again() -> None:
    planned = []

    def items(epoch: int, yielded: int) -> Any:
        planned.append((epoch, yielded))
        return iter(range(yielded, 10))

    resumed = SamplerIterator(items, "", 0, 0)
    resumed.load_state_dict({"version": 1, "epoch": 2, "yielded": 8, "settings": ""})
    assert planned == []
    assert list(resumed) == [8, 9]
    assert planned == [(2, 8)]


def test_samplers_say_what_they_are() -> None:
    assert repr(samples(rank=1)) == (
        f"BalancedSampler(50 loads of {TOKENS.sum()} in all, batch_size=3, grid={GRID!r}, balancer=LPT(), seed=0, "
        "at_end='drop', rank=1)"
    )
    assert repr(batches()).startswith(
        f"BalancedBatchSampler(Samples(50 samples, {TOKENS.sum()} tokens), limits=Limits("
    )


@SET_VITAL
@BOTH
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [0, 1, 4])
def test_a_stateful_data_loader_resumes_where_training_was(
    stateful_data_loader: Any, sampler: Any, workers: int, stop: int
) -> None:
    def loader(of: Any) -> Any:
        how = {"batch_sampler": of} if sampler is batches else {"sampler": of, "batch_size": 3}
        context = "fork" if workers else None
        return stateful_data_loader(
            list(range(50)), collate_fn=list, num_workers=workers, multiprocessing_context=context, **how
        )

    own = sampler()
    own.set_epoch(2)
    whole = list(loader(own))
    first = loader(own)
    taken = list(islice(first, stop))
    second = loader(sampler())
    second.load_state_dict(first.state_dict())
    assert taken + list(second) == whole


@SET_VITAL
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [0, 1, 2, 5, 14])
def test_a_balanced_loader_resumes_by_the_state_of_such_a_data_loader(
    stateful_data_loader: Any, workers: int, stop: int
) -> None:
    def loader() -> BalancedLoader[Any]:
        sampler = batches(grid=Grid(1, n_micro_steps=2, counts=Counts.EQUAL))
        context = "fork" if workers else None
        source = stateful_data_loader(
            list(range(50)),
            batch_sampler=sampler,
            collate_fn=list,
            num_workers=workers,
            multiprocessing_context=context,
        )
        return alone(source, grid=Grid(1, n_micro_steps=2), loads=sum)

    whole = [batch.pack for batch in loader()]
    assert len(whole) == 14
    first, second = loader(), loader()
    taken = [batch.pack for batch in islice(first, stop)]
    second.load_state_dict(first.state_dict())
    assert taken + [batch.pack for batch in second] == whole
    assert [batch.pack for batch in second] == whole
