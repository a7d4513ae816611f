"""Instances with known optima: read, solved, and what contradicts them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from balancers import LPT, Auto
from experiments import BadInstance, BinInstance, Instance, bin_bounds, read_instances, solve, solve_bins
from experiments.cli import app
from packing import BestFitDecreasing, ColumnGeneration, Packer

GRAHAM = {"name": "graham-3", "machines": 3, "optimum": 9, "jobs": [5, 5, 4, 4, 3, 3, 3]}
EVEN = {"name": "even", "machines": 2, "optimum": 4, "jobs": [4, 2, 2]}


def test_shares_and_gaps_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "makespan-mine.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, (GRAHAM, EVEN))).encode()))
    instances = [each for each in read_instances(path) if isinstance(each, Instance)]
    assert instances[0] == Instance("graham-3", 3, 9, (5, 5, 4, 4, 3, 3, 3))
    greedy, auto = solve(LPT(), "mine", instances), solve(Auto(), "mine", instances)
    assert (greedy.n, greedy.solved, greedy.proven) == (2, 0.5, 0.5)
    assert greedy.gap == pytest.approx((11 / 9 - 1) / 2)
    assert (auto.solved, auto.proven, auto.gap) == (1.0, 1.0, 0.0)


BINS = {"name": "five", "capacity": 10, "lower": 2, "upper": 2, "lengths": [4, 4, 3, 3, 3, 3]}


def test_bin_packing_by_hand(tmp_path: Path) -> None:
    """Best fit decreasing pairs the fours; 4 + 3 + 3 twice is the optimum, and the mean shows it."""
    path = tmp_path / "binpacking-mine.jsonl"
    path.write_text(json.dumps(BINS))
    instances = [each for each in read_instances(path) if isinstance(each, BinInstance)]
    assert instances == [BinInstance("five", 10, 2, 2, (4, 4, 3, 3, 3, 3))]
    bounds = bin_bounds(instances)
    greedy = solve_bins(BestFitDecreasing(), "mine", instances, bounds)
    best = solve_bins(ColumnGeneration(), "mine", instances, bounds)
    assert (greedy.solved, greedy.proven, greedy.gap, greedy.bound_gap) == (0.0, 0.0, 0.5, 0.0)
    assert (best.solved, best.proven, best.gap, best.bound_gap) == (1.0, 1.0, 0.0, 0.0)


def test_wrong_numbers_of_packs_are_found_out() -> None:
    with pytest.raises(BadInstance, match="five: 1 packs are listed, but at least 2 are needed"):
        bin_bounds([BinInstance("five", 10, 1, 1, (4, 4, 3, 3, 3, 3))])
    wrong = [BinInstance("five", 10, 4, 4, (4, 4, 3, 3, 3, 3))]
    with pytest.raises(BadInstance, match="needs 3 packs, but the lower bound is listed as 4"):
        solve_bins(BestFitDecreasing(), "mine", wrong, bin_bounds(wrong))
    for lengths, longest in (((5, 11), 11), ((), 0)):
        with pytest.raises(BadInstance, match=f"odd: the longest piece must be 1 to 10, the capacity; it is {longest}"):
            bin_bounds([BinInstance("odd", 10, 2, 2, lengths)])


@pytest.mark.parametrize(
    ("family", "packer", "solved"),
    [
        ("falkenauer-u", ColumnGeneration(), 1.0),
        ("schwerin-1", ColumnGeneration(), 1.0),
        ("falkenauer-t", ColumnGeneration(), 0.9),
    ],
)
def test_public_bin_packing_instances_are_solved(data_folder: Path, family: str, packer: Packer, solved: float) -> None:
    path = data_folder / "instances" / f"binpacking-{family}.jsonl.gz"
    instances = [each for each in read_instances(path) if isinstance(each, BinInstance)][::8]
    result = solve_bins(packer, family, instances, bin_bounds(instances))
    assert result.solved >= solved
    assert result.proven >= solved


@pytest.mark.parametrize("family", ["berndt", "frangioni", "huebner", "lehmann", "planted"])
def test_public_makespan_instances_are_solved_and_proven(data_folder: Path, family: str) -> None:
    path = data_folder / "instances" / f"makespan-{family}.jsonl.gz"
    instances = [each for each in read_instances(path) if isinstance(each, Instance)][::3]
    result = solve(Auto(), family, instances)
    assert result.solved >= 0.95
    assert result.proven >= 0.9


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"name": "x"}\n', "row 1 must be an object with name, machines, optimum and jobs: 'machines'"),
        (json.dumps(EVEN) + "\n[1]\n", "row 2 must be an object"),
        (
            json.dumps(BINS) + "\n" + json.dumps(EVEN),
            "row 2 must be an object with name, capacity, lower, upper and lengths",
        ),
        ("{", "row 1 must be an object"),
        ("[" * 100_000, "row 1 must be an object"),
        (json.dumps(EVEN | {"optimum": "4"}), "row 1 must be an object with .* and jobs: '4' is not an integer"),
        (json.dumps(BINS | {"capacity": 1e3}), "row 1 must be an object with .* and lengths: 1000.0 is not an integer"),
        (
            json.dumps(BINS | {"lengths": [4, None]}),
            "row 1 must be an object with .* and lengths: None is not an integer",
        ),
        ("", "no instances"),
    ],
)
def test_files_without_instances_are_named(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(BadInstance, match=text):
        read_instances(path)
    with pytest.raises(BadInstance, match="cannot be read"):
        read_instances(tmp_path / "absent.jsonl")


@pytest.mark.parametrize("damage", [lambda whole: whole[:40], lambda whole: whole[:20] + b"x" * 40])
def test_a_damaged_archive_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(damage(gzip.compress(json.dumps(GRAHAM).encode())))
    with pytest.raises(BadInstance, match=r"a\.jsonl\.gz: cannot be read"):
        read_instances(path)


def test_options_that_find_nothing_to_solve_are_named(tmp_path: Path) -> None:
    path = tmp_path / "makespan-mine.jsonl"
    path.write_text(json.dumps(EVEN))
    with patch("experiments.optima.solve", side_effect=AssertionError("solved before it was checked")):
        result = CliRunner().invoke(app, ["optima", str(path), "--packer", "NextFit"])
    assert "--packer has nothing to solve" in str(result.exception)
    assert CliRunner().invoke(app, ["optima", str(path), "--balancer", "LPT"]).exit_code == 0


def test_a_wrong_optimum_is_found_out() -> None:
    for optimum in (8, 12):
        with pytest.raises(BadInstance, match=f"graham-3: the optimum is listed as {optimum}, but Plan"):
            solve(Auto(), "mine", [Instance("graham-3", 3, optimum, (5, 5, 4, 4, 3, 3, 3))])
