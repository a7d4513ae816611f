"""Instances with known optima: read, solved, and what contradicts them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from balancers import LPT, Auto
from experiments import BadInstance, Instance, read_instances, solve

GRAHAM = {"name": "graham-3", "machines": 3, "optimum": 9, "jobs": [5, 5, 4, 4, 3, 3, 3]}
EVEN = {"name": "even", "machines": 2, "optimum": 4, "jobs": [4, 2, 2]}


def test_shares_and_gaps_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "makespan-mine.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, (GRAHAM, EVEN))).encode()))
    instances = read_instances(path)
    assert instances[0] == Instance("graham-3", 3, 9, (5, 5, 4, 4, 3, 3, 3))
    greedy, auto = solve(LPT(), "mine", instances), solve(Auto(), "mine", instances)
    assert (greedy.n, greedy.solved, greedy.proven) == (2, 0.5, 0.5)
    assert greedy.gap == pytest.approx((11 / 9 - 1) / 2)
    assert (auto.solved, auto.proven, auto.gap) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"name": "x"}\n', "row 1 must be an object with name, machines, optimum and jobs: 'machines'"),
        (json.dumps(EVEN) + "\n[1]\n", "row 2 must be an object"),
        ("", "no instances"),
    ],
)
def test_files_that_hold_none_are_named(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(BadInstance, match=text):
        read_instances(path)
    with pytest.raises(BadInstance, match="cannot be read"):
        read_instances(tmp_path / "absent.jsonl")


def test_a_wrong_optimum_is_found_out() -> None:
    for optimum in (8, 12):
        with pytest.raises(BadInstance, match=f"graham-3: the optimum is listed as {optimum}, but Plan"):
            solve(Auto(), "mine", [Instance("graham-3", 3, optimum, (5, 5, 4, 4, 3, 3, 3))])
