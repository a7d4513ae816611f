"""Many steps, many passes, stops and resumes: nothing is lost and nothing is left behind."""

from __future__ import annotations

import pytest

from tests.ranks import Ranks

from .lasting import (
    beside_training,
    carried,
    closed_and_kept,
    closed_by_many_threads,
    many_passes,
    of_one_pair,
    of_pairs,
    random_state_after,
    resume,
    until,
)


def test_it_runs_beside_collectives_of_the_trainer_and_leaves_nothing(ranks: Ranks) -> None:
    results = ranks.run(beside_training, 50, 200, timeout=150)
    assert results[0][2] == results[1][2]  # the same loads were summed in the same micro-steps
    for before, after, _ in results:
        assert (after.threads, after.files) == (before.threads, before.files)
        assert after.keys <= before.keys + 4  # a verdict may be waiting to be read
        assert after.rss_kb - before.rss_kb < 5_000


def test_random_states_are_those_without_balancing(ranks: Ranks) -> None:
    assert ranks.run(random_state_after, "off", 20) == ranks.run(random_state_after, "balance", 20)


def test_passes_that_break_off_leave_nothing_and_the_next_is_whole(ranks: Ranks) -> None:
    results = ranks.run(many_passes, 30)
    for before, after, _ in results:
        assert after.threads <= before.threads
        assert after.files <= before.files
        assert after.keys <= before.keys + 12
    found = [seed for _, _, rest in results for seed in rest if seed >= 0]
    assert sorted(found) == [*range(37), *range(1000, 1036)]


def test_any_thread_may_close(ranks: Ranks) -> None:
    assert ranks.run(closed_by_many_threads, 15) == [[], []]


def test_loaders_that_were_closed_hold_nothing(ranks: Ranks) -> None:
    for before, after in ranks.run(closed_and_kept, 5):
        assert after.threads <= before.threads
        assert after.files <= before.files


@pytest.mark.parametrize("stop", [(0, 1), (5, 1), (5, 0), (11, 0)], ids=str)
@pytest.mark.parametrize("shared", [False, True], ids=["skipped", "stateful"])
def test_both_runs_together_see_every_pack_once(ranks: Ranks, stop: tuple[int, int], shared: bool) -> None:
    first = ranks.run(until, stop, None, shared)
    second = ranks.run(resume, [each.state for each in first], shared)
    seen = [seed for each in (*first, *second) for seed in each.seeds]
    expected = range(48) if shared else [*range(24), *range(1000, 1024)]
    assert sorted(seen) == sorted(expected)
    pulled = min(2 * 2 + 2 * stop[0] + stop[1] + 1, 24)  # two steps ahead of the micro-step that was asked for
    assert [each.dropped for each in second] == [0, 0]
    assert sum(each.dropped for each in first) == 2 * pulled - sum(len(each.seeds) for each in first)


def test_another_number_of_ranks_needs_a_source_that_can_re_shard(ranks: Ranks) -> None:
    first = ranks.run(until, (5, 1), None, True)
    second = ranks.run(resume, [each.state for each in first], True, n=3)
    assert sorted(seed for each in (*first, *second) for seed in each.seeds) == list(range(48))
    plain = ranks.run(until, (5, 1), None, False)
    for each in ranks.run(resume, [each.state for each in plain], False, n=3):
        assert "the state is of 2 ranks, micro-step 0, this loader has 3" in each.refusal


def test_packs_left_over_lead_the_next_pass(ranks: Ranks) -> None:
    results = ranks.run(carried, 2, n=4)
    assert [found[0][0] for found in results] == [1, 1, 0, 0]
    assert sum(len(found[0][1]) for found in results) == 8
    second = [seed for found in results for seed in found[1][1]]
    assert {2, 1002} <= set(second)  # 2 lead, then 10 more of which 8 - 2 fit in two whole steps
    assert len(second) == 8


def test_two_groups_balance_side_by_side(ranks: Ranks) -> None:
    results = ranks.run(of_pairs, n=4)
    assert sorted(results[0] + results[1]) == [*range(6), *range(1000, 1006)]
    assert sorted(results[2] + results[3]) == [*range(2000, 2006), *range(3000, 3006)]


def test_a_group_of_some_ranks_builds_loaders_again_whatever_other_groups_they_are_in(ranks: Ranks) -> None:
    assert ranks.run(of_one_pair, 4, n=3) == [[3] * 4, [3] * 4, []]
