"""States of loaders: what is resumed from them, and those that do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from balancers import Grid, RoundRobin
from dist import CannotResume
from packing import NextFit
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
        ({"carried": [3]}, "not a state of a BalancedLoader, version 2: it has the keys"),
        ({"carried": [(1, 2)]}, "not a state of a BalancedLoader, version 2: it has the keys"),
        ({"drawn": -1}, "not a state of a BalancedLoader, version 2: it has the keys"),
        ({"step": 2**62}, "not a state of a BalancedLoader, version 2: it has the keys"),
        ({"n_ranks": "1"}, "not a state of a BalancedLoader, version 2: it has the keys"),
        ({"micro_step": 1}, "the state is of micro-step 1 of a step of Settings(balancer="),
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
    for other, about in ((None, "it has the type NoneType"), ({1: 2, "step": 3}, "it has the keys ['1', 'step']")):
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
    told = f"RankDisagreement: step 0, agree: rank 0: {one}, rank 1: {two}. Nothing was moved."
    assert ranks.run(resumed_where_each_was, [1, 2]) == [told] * 2


def test_all_ranks_hear_of_a_source_that_fails_to_begin(ranks: Ranks) -> None:
    told = "RankFailed: step 0, source: rank 1 raised OSError: not yet"
    assert ranks.run(fails_to_begin) == [told, "OSError: not yet"]


def test_packs_carried_over_lead_one_pass(ranks: Ranks) -> None:
    """Also where a state brings them, and the pass that they lead is broken off."""
    assert ranks.run(broken_off_after_a_resume, [3, 5]) == [[0, 0, 0], [2, 0, 0]]


def test_a_state_survives_a_checkpoint_of_plain_values(tmp_path: Path) -> None:
    loader = alone([1, 2, 3])
    next(iter(loader))
    torch.save(loader.state_dict(), tmp_path / "state")
    resumed = alone([1, 2, 3])
    resumed.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    assert [batch.pack for batch in resumed] == [2, 3]
    with pytest.raises(CannotResume, match=r"version 2: it has the keys \['step'\]"):
        resumed.load_state_dict({"step": 3})


def test_packs_carried_over_are_weighed_anew_for_other_settings() -> None:
    grid = Grid(1, n_micro_steps=2)
    first = alone([1, 2, 3], grid=grid, at_end="carry", depth=1)
    assert [batch.pack for batch in first] == [1, 2]
    second = alone([4], grid=grid, at_end="carry", loads=lambda pack: {"load": 1, "n": pack}, amounts=["n"])
    second.load_state_dict(first.state_dict())
    third = alone([4], grid=grid, at_end="carry", loads=lambda pack: {"load": 1, "n": 9 * pack}, amounts=["n"])
    third.load_state_dict(second.state_dict())  # before they were weighed at all
    assert [(batch.pack, batch.totals["n"]) for batch in second] == [(3, 7), (4, 7)]
    assert [(batch.pack, batch.totals["n"]) for batch in third] == [(3, 63), (4, 63)]


def test_packs_carried_over_belong_to_their_rank() -> None:
    loader = alone([1, 2, 3], grid=Grid(1, n_micro_steps=2), at_end="carry")
    list(loader)
    state = loader.state_dict()
    assert state["drawn"] == 0
    with pytest.raises(CannotResume, match="is of 2 ranks, this loader has 1: packs carried over, 1 here, would"):
        loader.load_state_dict({**state, "n_ranks": 2})


class Packed(IterableDataset[list[int]]):
    """Twelve samples in packs of 3, 2, 4 and 3; each worker has its share of them."""

    def __iter__(self) -> Iterator[list[int]]:
        packing = NextFit().pack([4, 4, 4, 6, 6, 3, 3, 3, 3, 4, 4, 4], 12)
        worker = get_worker_info()
        for pack in range(
            0 if worker is None else worker.id, len(packing), 1 if worker is None else worker.num_workers
        ):
            yield packing[pack].tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_packs_of_samples_resume_behind_those_that_were_seen(workers: int) -> None:
    def packs() -> DataLoader[list[int]]:
        context = "fork" if workers else None
        return DataLoader(Packed(), batch_size=None, num_workers=workers, multiprocessing_context=context)

    first, second = alone(packs()), alone(packs())
    seen = [sample for batch in islice(first, 2) for sample in batch.pack]
    assert seen == [0, 1, 2, 3, 4]
    second.load_state_dict(first.state_dict())
    seen += [sample for batch in second for sample in batch.pack]
    assert seen == list(range(12))


@pytest.mark.parametrize("seeded", [False, True])
def test_skipping_in_a_new_order_is_warned_of(seeded: bool, caplog: pytest.LogCaptureFixture) -> None:
    def packs() -> DataLoader[int]:
        generator = torch.Generator().manual_seed(7) if seeded else None
        return DataLoader(range(8), batch_size=None, shuffle=True, generator=generator)  # type: ignore[arg-type]

    first, second = alone(packs()), alone(packs())
    seen = [batch.pack for batch in islice(first, 3)]
    second.load_state_dict(first.state_dict())
    seen += [batch.pack for batch in second]
    assert len(seen) == 8
    assert ("shuffles anew" in caplog.text) is not seeded
    assert not seeded or sorted(seen) == list(range(8))
