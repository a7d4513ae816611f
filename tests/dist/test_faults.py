"""Whatever goes wrong on one rank ends all ranks in time, with an error that names rank, step and phase."""

from __future__ import annotations

import re
import signal

import pytest

from tests.ranks import Ranks

from .faults import (
    Told,
    Unportable,
    Wrong,
    disagree,
    forked,
    holder_dies,
    holder_dies_between,
    memory_is_short,
    planning_takes_longer_than_the_group_waits,
    train,
)

OVERLAP = pytest.mark.parametrize("overlap", [True, False], ids=["beside", "inline"])


@OVERLAP
def test_an_exception_of_the_source_comes_after_what_was_good(ranks: Ranks, overlap: bool) -> None:
    other, own = ranks.run(train, "raise", -1, 20.0, 2, overlap)
    assert (own.steps, own.kind, own.text) == (5, "KeyError", "'item 5'")
    assert "source" in own.frames.split()  # the traceback leads to the line that raised
    assert (other.steps, other.kind, other.ranks) == (5, "RankFailed", (1,))
    assert other.text == "step 5, source: rank 1 raised KeyError: 'item 5'"
    assert max(own.seconds, other.seconds) < 5


@OVERLAP
def test_a_pack_that_cannot_travel_is_named(ranks: Ranks, overlap: bool) -> None:
    other, own = ranks.run(train, "unknown", -1, 20.0, 2, overlap)
    assert (own.kind, other.kind) == ("CannotCarry", "RankFailed")
    assert own.text.startswith("pack['tensor'] is a builtins.object, which does not travel")
    assert "step 5, source: rank 1 raised CannotCarry: pack['tensor'] is" in other.text


@OVERLAP
def test_a_planner_that_raises_is_named(ranks: Ranks, overlap: bool) -> None:
    other, own = ranks.run(train, "nothing", -1, 20.0, 2, overlap, Wrong("raise"))
    assert (own.steps, own.kind, own.text) == (3, "ArithmeticError", "no plan today")
    assert "assign" in own.frames.split()
    assert (other.steps, other.kind, other.text) == (
        3,
        "RankFailed",
        "step 3, plan: rank 1 raised ArithmeticError: no plan today",
    )


@OVERLAP
def test_a_planner_that_exits_ends_all(ranks: Ranks, overlap: bool) -> None:
    other, own = ranks.run(train, "nothing", -1, 20.0, 2, overlap, Wrong("exit"))
    assert (own.steps, own.kind, own.text) == (3, "SystemExit", "3")
    assert "assign" in own.frames.split()
    assert (other.steps, other.kind, other.text) == (3, "RankFailed", "step 3, plan: rank 1 raised SystemExit: 3")


@OVERLAP
def test_a_planner_that_raises_stop_iteration_is_not_taken_for_the_end(ranks: Ranks, overlap: bool) -> None:
    other, own = ranks.run(train, "nothing", -1, 20.0, 2, overlap, Wrong("end"))
    assert (own.steps, own.kind) == (3, "RuntimeError")
    assert own.text == "the source, the balancer or on_step raised StopIteration."
    assert (other.steps, other.kind, other.text) == (3, "RankFailed", "step 3, plan: rank 1 raised StopIteration: ")


def test_different_plans_raise_the_same_error_and_nothing_moves(ranks: Ranks) -> None:
    told = ranks.run(train, "nothing", -1, 20.0, 2, True, Wrong("swap"), 3)
    assert [each.steps for each in told] == [3, 3]
    assert {each.kind for each in told} == {"RankDisagreement"}
    assert len({each.text for each in told}) == 1
    assert told[0].text.startswith("step 3, plan: plans differ: rank 0 planned ")
    assert told[0].text.endswith("Nothing was moved.")


def test_a_balancer_that_differs_between_machines_plans_on_rank_0(ranks: Ranks) -> None:
    told = ranks.run(train, "nothing", -1, 20.0, 2, True, Unportable("swap"), 3)
    assert [(each.steps, each.kind) for each in told] == [(40, "nothing")] * 2


def test_slow_planning_is_no_fault(ranks: Ranks) -> None:
    told = ranks.run(planning_takes_longer_than_the_group_waits)
    assert [(each.steps, each.kind) for each in told] == [(40, "nothing")] * 2


@pytest.mark.parametrize(("how", "depth"), [("kill", 1), ("kill", 3), ("stop", 2), ("sleep", 3)])
def test_a_rank_that_is_gone_is_named_in_time(ranks: Ranks, how: str, depth: int) -> None:
    outcomes = ranks.outcomes(train, how, 10, 1.0, depth, n=3, timeout=15, hang=how != "kill")
    assert outcomes[1].result is None
    for survivor in (outcomes[0].result, outcomes[2].result):
        assert isinstance(survivor, Told)
        assert survivor.kind in ("ExchangeTimeout", "RankLost")
        assert survivor.ranks == (1,), survivor.text
        assert survivor.seconds < 1 + 5
        assert 11 <= survivor.steps <= 11 + depth


@pytest.mark.parametrize(
    ("at_step", "depth", "overlap"), [(4, 1, True), (11, 3, True), (7, 1, False)], ids=["early", "late", "inline"]
)
def test_the_rank_that_holds_the_store_is_named_when_it_dies(
    ranks: Ranks, at_step: int, depth: int, overlap: bool
) -> None:
    outcomes = ranks.outcomes(holder_dies, at_step, 20.0, depth, overlap, n=3, timeout=40)
    assert outcomes[0].exit_code == -signal.SIGKILL
    for survivor in (outcomes[1].result, outcomes[2].result):
        assert isinstance(survivor, Told)
        assert (survivor.kind, survivor.ranks) == ("RankLost", (0,)), survivor.text
        assert "the rendezvous store is gone, which rank 0 usually holds" in survivor.text
        assert at_step <= survivor.steps <= at_step + 1 + depth  # verdicts that nobody had read are gone too
        assert int(re.findall(r"^step (\d+), \w+: ", survivor.text)[0]) == survivor.steps
        assert survivor.seconds < 5  # whatever the timeout is


@pytest.mark.parametrize(("when", "where"), [("construction", "construction"), ("pass", "begin")])
def test_a_store_that_is_gone_before_the_first_step_is_named(ranks: Ranks, when: str, where: str) -> None:
    outcomes = ranks.outcomes(holder_dies_between, when, n=3, timeout=40)
    assert outcomes[0].exit_code == -signal.SIGKILL
    for survivor in (outcomes[1].result, outcomes[2].result):
        assert survivor is not None
        kind, text, named, seconds = survivor
        assert (kind, named) == ("RankLost", (0,)), text
        assert text.startswith(f"step 0, {where}: the rendezvous store is gone, which rank 0 usually holds. ")
        assert seconds < 5  # whatever the timeout is


def test_a_rank_that_breaks_off_is_named(ranks: Ranks) -> None:
    other, own = ranks.run(train, "break", 10, 20.0, 1)
    assert (own.steps, own.kind) == (11, "nothing")
    assert (other.kind, other.ranks) == ("RankClosed", (1,))
    assert "rank 1 closed its loader" in other.text


def test_a_fault_of_its_own_inside_a_transfer_is_named(ranks: Ranks) -> None:
    other, own = ranks.run(memory_is_short)
    text = "you tried to allocate 64 bytes"
    assert (own.steps, own.kind, own.text) == (1, "RuntimeError", text)  # in step 0 nothing moves
    assert (other.steps, other.kind, other.ranks) == (1, "RankFailed", (1,))
    assert other.text == f"step 1, exchange: rank 1 raised RuntimeError: {text}"


def test_loaders_that_differ_are_refused_before_anything_is_built(ranks: Ranks) -> None:
    told = ranks.run(disagree, "arguments")
    assert {kind for kind, _ in told} == {"RankDisagreement"}
    assert len({text for _, text in told}) == 1
    assert "Wrong()" in told[0][1]
    assert "LPT()" in told[0][1]
    assert {kind for kind, _ in ranks.run(disagree, "order")} == {"RankDisagreement"}


def test_a_rank_that_builds_no_loader_is_named(ranks: Ranks) -> None:
    kind, text = ranks.run(disagree, "missing")[0]
    assert kind == "ExchangeTimeout"
    assert "step 0, construction: waited in vain for rank 1 (not seen yet), after 1 s" in text


def test_a_grid_of_another_size_is_refused_with_both_numbers(ranks: Ranks) -> None:
    text = "the grid has 4 ranks, the group 2. Give the group of data parallelism."
    assert ranks.run(disagree, "grid") == [("InvalidLoader", text)] * 2


@OVERLAP
def test_a_forked_child_is_refused_and_the_pass_of_its_parent_is_whole(ranks: Ranks, overlap: bool) -> None:
    results = ranks.run(forked, overlap)
    assert sorted(seed for found, _ in results for seed in found) == [*range(8), *range(1000, 1008)]
    assert [refused for _, refused in results] == [2, 2]
