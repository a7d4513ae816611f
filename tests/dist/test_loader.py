"""The loader: nothing is lost, ranks end together, totals do not depend on the plan."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from balancers import LPT, Auto, Barrier, Counts, KarmarkarKarp, LeastMovement, RoundRobin
from tests.ranks import Ranks

from .jobs import Pack, carried_on, counted, everything, left_over, recorded

Rows = list[tuple[int, int, list[int], dict[str, int]]]


def all_seeds(counts: Sequence[int]) -> list[int]:
    return sorted(1000 * rank + i for rank, n in enumerate(counts) for i in range(n))


def delivered(results: Sequence[Rows]) -> list[int]:
    return sorted(seed for rows in results for _, _, seeds, _ in rows for seed in seeds if seed >= 0)


@pytest.mark.parametrize("overlap", [True, False], ids=["beside", "inline"])
@pytest.mark.parametrize("mode", ["off", "shadow", "balance"])
def test_every_pack_arrives_once_and_all_ranks_make_the_same_steps(ranks: Ranks, mode: str, overlap: bool) -> None:
    counts = [12, 12]
    results = ranks.run(
        everything,
        counts,
        {"n_micro_steps": 2, "mode": mode, "overlap": overlap, "loads": counted, "amounts": ("tokens", "samples")},
    )
    assert delivered(results) == all_seeds(counts)
    steps = [[(step, micro_step) for step, micro_step, _, _ in rows] for rows in results]
    assert steps == [[(step, micro_step) for step in range(6) for micro_step in range(2)]] * 2
    for step in range(6):
        loads = [Pack.of(seed).load for rows in results for s, _, seeds, _ in rows if s == step for seed in seeds]
        expected = {"packs": 4, "tokens": 10 * sum(loads), "samples": 4}
        assert [totals for rows in results for s, _, _, totals in rows if s == step] == [expected] * 4
    if mode != "balance":
        assert all(
            seed // 1000 == rank for rank, rows in enumerate(results) for _, _, seeds, _ in rows for seed in seeds
        )


@pytest.mark.parametrize(
    ("balancer", "options"),
    [
        (Auto(), {"counts": Counts.FREE, "n_micro_steps": 2}),
        (KarmarkarKarp(), {"counts": Counts.WITHIN_ONE, "packs_per_cell": 3}),
        (LeastMovement(LPT()), {"counts": Counts.EQUAL, "packs_per_cell": 2, "n_micro_steps": 2}),
        (Auto(), {"counts": (1, 3), "packs_per_cell": 2, "barrier": Barrier.MICRO_STEP, "n_micro_steps": 2}),
        (RoundRobin(), {"counts": Counts.PADDED, "n_micro_steps": 3}),
    ],
    ids=lambda value: repr(value) if not isinstance(value, dict) else "",
)
def test_any_balancer_and_count_rule_loses_no_pack(ranks: Ranks, balancer: object, options: dict[str, object]) -> None:
    counts = [13, 9, 12]
    results = ranks.run(everything, counts, {"balancer": balancer, **options}, n=3)
    assert delivered(results) == all_seeds(counts)
    assert len({tuple((step, micro_step) for step, micro_step, _, _ in rows) for rows in results}) == 1
    assert all(seeds for rows in results for _, _, seeds, _ in rows)  # every rank has something to run, if a dummy


@pytest.mark.parametrize(("at_end", "steps", "lost"), [("pad", 7, 0), ("min", 5, 3), ("carry", 5, 3)])
def test_ranks_with_5_7_6_packs_end_together(ranks: Ranks, at_end: str, steps: int, lost: int) -> None:
    counts = [5, 7, 6]
    results = ranks.run(everything, counts, {"at_end": at_end}, n=3)
    assert [len(rows) for rows in results] == [steps] * 3
    assert len(delivered(results)) == sum(counts) - lost
    dummies = [seed for rows in results for _, _, seeds, _ in rows for seed in seeds if seed < 0]
    assert len(dummies) == 3 * steps - sum(counts) + lost


@pytest.mark.parametrize(
    ("at_end", "left"),
    [("pad", [(0, 0)] * 3), ("min", [(0, 0), (2, 0), (1, 0)]), ("carry", [(0, 0), (0, 2), (0, 1)])],
)
def test_what_is_left_of_5_7_6_packs_is_counted(ranks: Ranks, at_end: str, left: list[tuple[int, int]]) -> None:
    assert ranks.run(left_over, [5, 7, 6], at_end, n=3) == left


def test_packs_that_were_never_loaded_are_not_counted(ranks: Ranks) -> None:
    """With depth 2, the end of step 5 finds three packs loaded and not delivered."""
    assert ranks.run(left_over, [5, 90], "min") == [(0, 0), (3, 0)]


def test_packs_that_lead_a_pass_and_are_not_reached_lead_the_next(ranks: Ranks) -> None:
    assert ranks.run(carried_on, [9, 0]) == [[5, 5], [0, 0]]


def test_what_moves_is_counted_over_all_ranks_and_what_is_sent_by_each(ranks: Ranks) -> None:
    steps = [*zip(*ranks.run(recorded, [12, 12, 12], n=3), strict=True)]
    assert len(steps) == 4
    assert any(record.moved_packs for step in steps for record in step)
    for step in steps:
        first = step[0]
        for record in step:
            shared = (record.packs, record.cost_before, record.cost_after, record.moved_packs, record.moved_bytes)
            assert shared == (9, first.cost_before, first.cost_after, first.moved_packs, first.moved_bytes)
        assert sum(record.sent_bytes for record in step) == first.moved_bytes
        assert sum(record.received_bytes for record in step) == first.moved_bytes


def test_a_rank_without_any_pack_runs_copies_of_weight_zero(ranks: Ranks) -> None:
    results = ranks.run(everything, [1, 0], {})
    assert delivered(results) == [0]
    assert [len(seeds) for rows in results for _, _, seeds, _ in rows] == [1, 1]


@pytest.mark.parametrize("transport", ["host", "device"])
def test_ranks_may_wait_for_ever(ranks: Ranks, transport: str) -> None:
    results = ranks.run(everything, [3, 3], {"timeout": float("inf"), "device": "cpu", "transport": transport})
    assert delivered(results) == all_seeds([3, 3])
