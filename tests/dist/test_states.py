"""States that do not fit, and passes that go on after something was raised."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch

from balancers import Counts, Grid, RoundRobin
from dist import CannotResume, StepRecord
from tests.ranks import Ranks

from .jobs import (
    alone,
    broken_off_after_a_resume,
    fails_to_begin,
    resumed_behind_the_end,
    resumed_where_each_was,
)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"carried": [3]}, "the state is none of this version"),
        ({"carried": [(1, 2)]}, "the state is none of this version"),
        ({"drawn": -1}, "the state is none of this version"),
        (
            {"micro_step": 1, "settings": "others"},
            "of micro-step 1 of a step of others; this loader, Settings(balancer=",
        ),
    ],
    ids=str,
)
def test_states_that_do_not_fit_are_refused(wrong: dict[str, object], text: str) -> None:
    loader = alone([1, 2, 3])
    with pytest.raises(CannotResume, match=re.escape(text)):
        loader.load_state_dict({**loader.state_dict(), **wrong})
    for other, about in ((None, "it has the type NoneType"), ({1: 2, "step": 3}, "it has ['1', 'step']")):
        with pytest.raises(CannotResume, match=re.escape(about)):
            loader.load_state_dict(other)  # type: ignore[arg-type]
    assert [batch.pack for batch in loader] == [1, 2, 3]


def test_a_step_that_was_begun_is_resumed_with_the_settings_that_planned_it() -> None:
    first = alone(range(8), grid=Grid(1, n_micro_steps=4))
    batches = iter(first)
    for micro_step in range(4):
        next(batches)
        other = alone(range(8), grid=Grid(1, n_micro_steps=2), balancer=RoundRobin())
        if micro_step < 3:
            with pytest.raises(CannotResume, match="Resume with the same settings, or save between steps"):
                other.load_state_dict(first.state_dict())
        else:
            other.load_state_dict(first.state_dict())
            assert [batch.pack for batch in other] == [4, 5, 6, 7]


def test_the_state_of_a_source_needs_a_source_that_takes_it() -> None:
    loader = alone([1, 2, 3])
    loader.load_state_dict({**loader.state_dict(), "source": {"read": 1}})
    with pytest.raises(CannotResume, match="a list has no load_state_dict to take it"):
        iter(loader)


class Moody:
    """A source that cannot be opened at first."""

    def __init__(self) -> None:
        self.moods = iter([OSError("not yet")])

    def __iter__(self) -> Iterator[int]:
        for mood in self.moods:
            raise mood
        return iter(range(5))


def test_a_source_that_fails_to_begin_is_resumed_when_it_does() -> None:
    first, second = alone(range(5)), alone(Moody())
    next(iter(first))
    second.load_state_dict(first.state_dict())
    with pytest.raises(OSError, match="not yet"):
        iter(second)
    assert [batch.pack for batch in second] == [1, 2, 3, 4]


@pytest.mark.parametrize("stop", [1, 2, 3, 6])
def test_a_source_that_ended_before_others_does_not_begin_again(ranks: Ranks, stop: int) -> None:
    results = ranks.run(resumed_behind_the_end, [2, 7], stop)
    for seeds in zip(*results, strict=True):
        assert sorted(seed for own in seeds for seed in own if seed >= 0) == [0, 1, *range(1000, 1007)]


def test_ranks_that_were_at_different_micro_steps_do_not_resume(ranks: Ranks) -> None:
    one, two = "begins at micro-step 1 of step 0", "begins at micro-step 2 of step 0"
    told = f"RankDisagreement: step 0, agree: ranks 0: {one}, ranks 1: {two}. Nothing was moved."
    assert ranks.run(resumed_where_each_was, [1, 2]) == [told] * 2


def test_all_ranks_hear_of_a_source_that_fails_to_begin(ranks: Ranks) -> None:
    told = "RankFailed: step 0, source: rank 1 raised OSError: not yet"
    assert ranks.run(fails_to_begin) == [told, "OSError: not yet"]


def test_packs_carried_over_lead_one_pass(ranks: Ranks) -> None:
    """Also where a state brings them, and the pass that they lead is broken off."""
    assert ranks.run(broken_off_after_a_resume, [3, 5]) == [[0, 0, 0], [2, 0, 0]]


def test_what_a_callback_raises_costs_no_pack() -> None:
    def refuse(record: StepRecord) -> None:
        if record.step == 0:
            raise ValueError("no more")

    loader = alone(range(6), grid=Grid(1, n_micro_steps=2), on_step=refuse)
    batches = iter(loader)
    with pytest.raises(ValueError, match="no more"):
        next(batches)
    assert [batch.pack for batch in batches] == list(range(6))


class Endless:
    """A source that says, as samplers do, that it has no length."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(5))

    def __len__(self) -> int:
        raise NotImplementedError


def test_a_source_may_refuse_to_tell_its_length() -> None:
    loader = alone(Endless())
    assert [batch.pack for batch in loader] == list(range(5))
    with pytest.raises(TypeError, match="this loader has no length: a source has none"):
        len(loader)


def test_dummies_are_whole_whatever_the_training_loop_does_to_packs() -> None:
    packs = [{"number": i, "labels": torch.ones(3)} for i in range(5)]
    loader = alone(packs, grid=Grid(1, 2, counts=Counts.EQUAL), packs_per_cell=4)
    weights: list[int] = []
    for batch in loader:
        for pack in batch.packs:
            assert isinstance(pack, dict)
            assert torch.equal(pack.pop("labels"), torch.ones(3))
        weights += batch.weights
    assert sorted(weights) == [0, 0, 0, 1, 1, 1, 1, 1]
