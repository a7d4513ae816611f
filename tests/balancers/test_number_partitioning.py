"""Free counts: filling bins, kicks, bounds that refute capacities, and the public instances with known optima."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancers import LPT, Auto, Barrier, Counts, Grid, Iterated, MinimumBinSlack, Multifit, Problem, Refine, Status
from balancers.dual_feasible import dual_feasible_bound
from balancers.minimum_bin_slack import fill
from balancers.references import step_optimum
from balancers.testing import FAMILIES
from packing import CannotServe, InvalidParameter

small_loads = st.lists(st.integers(1, 40), min_size=1, max_size=9)


def falling(loads: list[int]) -> np.ndarray:
    return np.array(sorted(loads, reverse=True), dtype=np.int64)


def test_filling_by_hand() -> None:
    """Capacity 10: 7 takes 3, 6 takes 4, 5 takes 5; first fit decreasing does the same, LPT makes 11."""
    loads = falling([7, 6, 5, 5, 4, 3])
    bin_of, peak, fits = fill(loads, 3, 10, 1000)
    assert (peak, fits) == (10, True)
    assert bin_of.tolist() == [0, 1, 2, 2, 1, 0]
    bin_of, peak, fits = fill(loads, 2, 10, 1000)  # one bin too few: 5 and 5 go where least is
    assert (peak, fits) == (15, False)
    assert np.bincount(bin_of, loads).tolist() == [15, 15]


@settings(max_examples=150)
@given(small_loads, st.integers(1, 3))
def test_the_first_bin_is_filled_as_full_as_can_be(loads: list[int], n_bins: int) -> None:
    values, capacity = falling(loads), max(loads) + 20
    bin_of, _, _ = fill(values, n_bins, capacity, 10**6)
    others = values[1:].tolist()
    sums = {sum(v for i, v in enumerate(others) if mask >> i & 1) for mask in range(2 ** len(others))}
    best = max(s for s in sums if s <= capacity - values[0])
    first = int(values[bin_of == 0].sum())
    assert first >= values[0] + best if n_bins == 1 else first == values[0] + best or (bin_of == 0).sum() > 0


@settings(max_examples=200)
@given(small_loads, st.integers(1, 4))
def test_small_problems_are_solved_and_bounds_hold(loads: list[int], n_ranks: int) -> None:
    problem = Problem(loads, n_ranks)
    best = step_optimum(problem)
    bound = dual_feasible_bound(falling(loads), n_ranks, problem.lower_bound, max(2 * best, 1))
    assert problem.lower_bound <= bound <= best
    for balancer in (MinimumBinSlack(), Iterated(kicks=5), Auto()):
        plan = balancer.plan(problem)
        assert best <= plan.cost <= LPT().plan(problem).cost
        assert plan.lower_bound <= best
    assert Auto().plan(problem).cost == best


def test_dual_feasible_functions_refute_what_the_mean_does_not() -> None:
    """Five loads of 6 on 4 ranks of 11: no two fit together. And 7 x 4 on 3: three of 4 need 12."""
    assert dual_feasible_bound(falling([6] * 5), 4, 8, 20) == 12
    assert dual_feasible_bound(falling([4] * 7), 3, 10, 20) == 12
    assert dual_feasible_bound(falling([2**60] * 2), 2, 2**60, 2**61) == 2**60  # too large to weigh: as it was
    assert dual_feasible_bound(falling([]), 3, 0, 5) == 0


def test_kicks_help_where_a_local_optimum_is_in_the_way() -> None:
    rng = np.random.default_rng(0)
    gained = 0
    for _ in range(10):
        problem = Problem(rng.integers(100, 200, 48), Grid(12, counts=Counts.EQUAL))
        refined, kicked = Refine(LPT()).plan(problem).cost, Iterated(Refine(LPT()), kicks=40).plan(problem).cost
        assert kicked <= refined
        gained += kicked < refined
    assert gained >= 4


def test_bad_parameters_and_problems_are_refused() -> None:
    for balancer in (MinimumBinSlack(), Multifit()):
        with pytest.raises(CannotServe, match=r"it does not count packs\. Use Counts\.FREE"):
            balancer.plan(Problem([1, 1], Grid(2, counts=Counts.EQUAL)))
    for step_only in (Iterated(), MinimumBinSlack(), Multifit()):
        with pytest.raises(CannotServe, match="it serves the barrier STEP, not MICRO_STEP"):
            step_only.plan(Problem([1, 1], Grid(2, 2, Barrier.MICRO_STEP)))
    with pytest.raises(InvalidParameter, match=r"Iterated\.kicks must be in"):
        Iterated(kicks=-1)
    with pytest.raises(InvalidParameter, match=r"MinimumBinSlack\.nodes must be an integer"):
        MinimumBinSlack(nodes=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", FAMILIES)
def test_auto_on_free_counts_of_every_family(family: str) -> None:
    loads = FAMILIES[family](np.random.default_rng(0), 200)
    plan = Auto().plan(Problem(loads, 20))
    assert plan.gap < 1e-4
    assert plan.cost <= MinimumBinSlack().plan(Problem(loads, 20)).cost


@pytest.mark.parametrize(
    ("family", "every", "solved"),
    [("berndt", 20, 0.9), ("frangioni", 25, 0.95), ("huebner", 4, 0.95), ("lehmann", 10, 0.8), ("planted", 16, 0.8)],
)
def test_public_instances_with_known_optima(data_folder: Path, family: str, every: int, solved: float) -> None:
    """A sample of each family: no bound above an optimum, no cost below, and most are solved."""
    with gzip.open(data_folder / "instances" / f"makespan-{family}.jsonl.gz", "rt") as file:
        instances = [json.loads(line) for line in file][::every]
    n_solved = 0
    for instance in instances:
        plan = Auto().plan(Problem(instance["jobs"], instance["machines"]))
        assert plan.lower_bound <= instance["optimum"] <= plan.cost, instance["name"]
        assert plan.status is not Status.OPTIMAL or plan.cost == instance["optimum"]
        n_solved += plan.cost == instance["optimum"]
    assert n_solved >= solved * len(instances)
