"""Dealing packs to steps, and the figures of a comparison, against numbers worked out by hand."""

import re
from typing import Any

import pytest

from balancers import LPT, Barrier, Counts, InvalidGrid, KarmarkarKarp, Linear, RoundRobin, Zigzag
from experiments import Compare, NoFullStep, Refusal, Row, compare_balancers, deal, draw
from experiments.report import answer, as_json, bytes_text, on_packing, refusals, time_text
from packing import EvenstepError, InvalidParameter, NextFit, Oversize, Samples

FULL = Samples([100] * 5, {"image_tokens": [40, 0, 0, 10, 50]})  # five packs of capacity 100, one sample each


def small(**changes: Any) -> Compare:
    given: dict[str, Any] = {
        "packer": NextFit(),
        "capacity": 100,
        "n_ranks": 2,
        "n_micro_steps": 1,
        "cost": Linear(image_tokens=1),
    }
    return Compare(**{**given, **changes})


def test_full_steps_are_paid_for_and_the_rest_is_reported() -> None:
    dealt = deal(NextFit().pack(FULL, 100), 2, seed=0)
    assert (dealt.n_steps, dealt.slots, len(dealt.left_over), dealt.fill) == (2, 400, 1, 1.0)
    assert sorted([*dealt.steps.ravel(), *dealt.left_over]) == [0, 1, 2, 3, 4]


def test_fewer_packs_than_a_step_takes_make_no_step() -> None:
    dealt = deal(NextFit().pack([100], 100), 2, seed=0)
    assert (dealt.n_steps, dealt.slots, len(dealt.left_over), dealt.fill) == (0, 0, 1, 0.0)


def test_fill_counts_full_steps_only() -> None:
    dealt = deal(NextFit().pack([100, 60, 100, 60], 100), 3, seed=0)
    assert dealt.slots == 300
    assert dealt.fill == (320 - int(dealt.packing.tokens[dealt.left_over[0]])) / 300


def test_order_of_packs_depends_on_the_seed_alone() -> None:
    packing = NextFit().pack([100] * 40, 100)
    one, same, other = (deal(packing, 4, seed).steps.tolist() for seed in (1, 1, 2))
    assert one == same != other


def test_homes_loads_and_bytes_of_a_problem() -> None:
    config = small(packs_per_cell=2)
    dealt = deal(NextFit().pack(FULL, 100), config.packs_per_step, seed=0)
    (problem,) = dealt.problems(config)
    assert problem.home is not None
    assert problem.n_bytes is not None
    assert problem.home.tolist() == [0, 1, 0, 1]
    image_tokens = [int(FULL.columns["image_tokens"][pack]) for pack in dealt.steps[0]]
    assert problem.loads.tolist() == image_tokens
    assert problem.n_bytes.tolist() == [16 * 100 + 28 * 28 * 3 * 2 * each for each in image_tokens]


def test_steps_are_numbered_for_balancers_that_change_with_them() -> None:
    dealt = deal(NextFit().pack(FULL, 100), 2, seed=0)
    assert [problem.step for problem in dealt.problems(small())] == [0, 1]


def test_row_by_hand() -> None:
    """Loads 60, 40, 20, 0 in one step of 2 ranks x 2 packs: LPT gives (60, 0) and (40, 20), which is the optimum."""
    samples = Samples([100] * 4, {"image_tokens": [60, 40, 20, 0]})
    config = small(packs_per_cell=2, balancers=(RoundRobin(), LPT()))
    home, row = compare_balancers(config, samples).rows
    assert isinstance(home, Row)
    assert isinstance(row, Row)
    assert (row.cost, row.lower_bound, row.gap, row.imbalance, row.waste) == (60, 60, 0.0, 1.0, 0.0)
    assert row.step_ms == 3 * 60 / 1000
    assert (home.moved_packs, home.moved_bytes) == (0, 0)
    assert home.waste == 1 - 120 / (2 * home.cost)
    assert home.imbalance == 2 * home.cost / 120
    assert home.gap == home.cost / 60 - 1


def test_three_packs_make_no_step_of_32() -> None:
    text = (
        "3 packs are 0 full steps of 32 (4 ranks x 8 micro-steps x 1 packs per cell). Give more samples, or ask for "
        "fewer ranks or micro-steps."
    )
    with pytest.raises(NoFullStep, match=f"^{re.escape(text)}$"):
        compare_balancers(small(n_ranks=4, n_micro_steps=8), Samples([100] * 3))


def test_a_balancer_that_refuses_says_why() -> None:
    result = compare_balancers(small(barrier=Barrier.STAGE, balancers=(RoundRobin(), Zigzag())), FULL)
    assert isinstance(result.rows[0], Row)
    assert isinstance(result.rows[1], Refusal)
    assert refusals(result) == ["Zigzag() refuses: it serves the barrier MICRO_STEP and STEP, not STAGE."]
    rows: Any = as_json(result)["rows"]
    assert rows[1] == {
        "balancer": "Zigzag()",
        "reason": "it serves the barrier MICRO_STEP and STEP, not STAGE",
    }


def test_zero_loads_give_zeros_and_ones() -> None:
    config = small(balancers=(RoundRobin(),))
    (row,) = compare_balancers(config, Samples([100] * 4, {"image_tokens": [0] * 4})).rows
    assert isinstance(row, Row)
    assert (row.cost, row.gap, row.imbalance, row.waste, row.step_ms) == (0, 0.0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"packs_per_cell": 0}, InvalidParameter),
        ({"seed": -1}, InvalidParameter),
        ({"balancers": ()}, InvalidParameter),
        ({"n_ranks": 0}, InvalidGrid),
    ],
)
def test_bad_configs_are_refused_at_once(changes: dict[str, Any], error: type[EvenstepError]) -> None:
    with pytest.raises(error):
        small(**changes)


def test_default_comparison_finds_what_it_is_for() -> None:
    result = compare_balancers(Compare(), draw(100_000).samples)
    rows = {row.balancer: row for row in result.rows if isinstance(row, Row)}
    assert list(rows)[:5] == ["RoundRobin()", "Zigzag()", "LPT()", "KarmarkarKarp()", "Auto()"]
    least = rows["LeastMovement(Auto(), tolerance_ppm=10000)"]
    assert least.cost <= 1.01 * rows["Auto()"].cost
    assert least.moved_bytes < 0.3 * rows["Auto()"].moved_bytes
    assert rows["RoundRobin()"].waste > 0.30
    assert rows["RoundRobin()"].moved_packs == 0
    assert rows["LPT()"].waste < 0.01
    assert rows["KarmarkarKarp()"].gap < 0.01
    assert rows["Auto()"].gap < 0.0001
    assert result.dealt.packing.fill > 0.999
    assert answer(result).startswith("Auto cuts the step from ")


def test_two_runs_differ_only_in_what_is_measured() -> None:
    one, two = results = [as_json(compare_balancers(Compare(n_ranks=8), draw(10_000).samples)) for _ in range(2)]
    for result in results:
        assert list(result) == ["packing", "steps", "left_over_packs", "rows", "config"]
        rows: Any = result["rows"]
        for row in rows:
            assert set(row.pop("measured")) == {"plan_us_mean", "plan_us_max"}
            assert (
                " ".join(row) == "balancer cost lower_bound gap imbalance waste moved_packs moved_bytes step_ms digest"
            )
    assert one == two


def test_samples_left_over_are_reported() -> None:
    config = small(oversize=Oversize.DROP, counts=Counts.FREE, balancers=(KarmarkarKarp(),))
    result = compare_balancers(config, Samples([100, 101, 100, 150], {"image_tokens": [0, 1, 0, 2]}))
    packing = as_json(result)["packing"]
    assert packing == {
        "samples": 4,
        "packs": 2,
        "fill": 1.0,
        "slots": 200,
        "image_token_cv": 0.0,
        "left_over_samples": 2,
        "left_over_tokens": 251,
    }
    assert on_packing(result) == (
        "4 samples in 2 packs of 100 tokens: fill 1.0000, CV of image tokens per pack 0.000. 1 steps of 2 packs. "
        "Left over: 0 packs, 2 samples."
    )


def test_times_and_bytes_are_shown_in_readable_units() -> None:
    assert [time_text(us) for us in (85, 1_340, 2_400_000)] == ["85 us", "1.3 ms", "2.40 s"]
    assert [bytes_text(n) for n in (0, 7, 1_400, 131_000, 999_600, 4.2e9, 2e12)] == [
        "0 B", "7 B", "1.4 kB", "131 kB", "1.0 MB", "4.2 GB", "2.0 TB",
    ]  # fmt: skip
