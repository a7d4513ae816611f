"""Distance from the bound over seeds, on cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from balancers import LPT, Counts, Grid, RoundRobin
from experiments import Gaps, measure_gaps
from experiments import gaps as module
from experiments.gaps import CASES, Case
from packing import InvalidParameter


def test_rows_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """[3, 3, 2, 2] on two ranks: the bound is 5; LPT meets it, in turn it costs 5 too; [3, 2, 3, 2] in turn costs 6."""
    loads = {0: [3, 3, 2, 2], 1: [3, 2, 3, 2]}
    case = Case(lambda seed, n: np.array(loads[seed])[:n], Grid(2, counts=Counts.EQUAL), 2, 2)
    monkeypatch.setattr(module, "CASES", {"mine": case})
    greedy, in_turn = measure_gaps(Gaps(balancers=(LPT(), RoundRobin())))
    assert (greedy.case, greedy.balancer, greedy.n_seeds) == ("mine", "LPT()", 2)
    assert (greedy.gap_mean, greedy.gap_max, greedy.proven, greedy.totals_max) == (0, 0, 1, 0)
    assert (in_turn.gap_mean, in_turn.gap_max) == pytest.approx((0.1, 0.2))
    assert in_turn.proven == 0.5
    assert in_turn.totals_max == pytest.approx(0.2)
    assert 0 < greedy.ms_mean <= greedy.ms_max
    assert greedy.sorts > 0


def test_unknown_cases_are_named() -> None:
    with pytest.raises(InvalidParameter, match='no case "mine"; there are images, 64 x 8; images, 256 x 16;'):
        Gaps(cases=("images, 64 x 8", "mine"))


@pytest.mark.parametrize("name", [name for name in CASES if "128" in name or "64 x 8" in name])
def test_a_case_fills_its_grid(name: str) -> None:
    case = CASES[name]
    problem = case.problem(3)
    assert problem.n_packs == case.packs_per_cell * case.grid.n_cells
    assert np.array_equal(problem.loads, case.problem(3).loads)
    assert not np.array_equal(problem.loads, case.problem(4).loads)
