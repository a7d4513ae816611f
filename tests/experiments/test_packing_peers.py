"""Packing peers are compared on the same lengths, answers verified, with a reason wherever there are no figures."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from experiments import PackingPeer, PackingPeerRow, SkippedPeer, compare_with_packing_peer, packing_peers, peers
from experiments.cli import app
from experiments.packing_peers import PACKING_PEERS, Packs
from packing import BestFitDecreasing, FirstFitDecreasing


def best_fit(package: ModuleType, lengths: list[int], capacity: int) -> Packs:
    packing = BestFitDecreasing().pack(lengths, capacity)
    return [packing[pack].tolist() for pack in range(len(packing))]


def one_each(package: ModuleType, lengths: list[int], capacity: int) -> Packs:
    return [[sample] for sample in range(len(lengths))]


def all_in_one(package: ModuleType, lengths: list[int], capacity: int) -> Packs:
    return [range(len(lengths))]


def drops_one(package: ModuleType, lengths: list[int], capacity: int) -> Packs:
    return one_each(package, lengths, capacity)[1:]


EQUAL = PackingPeer("json", "fake", BestFitDecreasing(), best_fit, (50, 100))


def test_the_same_packs_have_the_ratio_one() -> None:
    rows = [*compare_with_packing_peer(EQUAL)]
    assert [row.case for row in rows] == ["50 samples", "100 samples"]
    for row in rows:
        assert isinstance(row, PackingPeerRow)
        assert row.packs_ratio == 1.0
        assert row.time_ratio == row.peer_us / row.ours_us > 0
    worse = next(compare_with_packing_peer(replace(EQUAL, pack=one_each)))
    assert isinstance(worse, PackingPeerRow)
    assert worse.packs_ratio > 2


def test_a_wrong_packing_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = "json fake must pack each of 50 samples once; it packed 49."
    assert [*compare_with_packing_peer(replace(EQUAL, pack=drops_one))] == [
        SkippedPeer("json", "fake", "50 samples", lost)
    ]
    (row,) = compare_with_packing_peer(replace(EQUAL, pack=all_in_one))
    assert isinstance(row, SkippedPeer)
    assert "tokens into a pack of 8192" in row.reason
    absent = replace(EQUAL, package="absent_peer")
    assert [*compare_with_packing_peer(absent)] == [SkippedPeer("absent_peer", "fake", "", "pip install absent_peer")]
    monkeypatch.setattr(packing_peers, "PATIENCE_US", 0.0)
    assert isinstance([*compare_with_packing_peer(EQUAL)][1], SkippedPeer)


def test_the_command_shows_packing_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", ())
    monkeypatch.setattr(packing_peers, "PACKING_PEERS", (EQUAL, replace(EQUAL, package="absent_peer")))
    path = tmp_path / "a.json"
    printed = CliRunner().invoke(app, ["peers", "--json", str(path)], catch_exceptions=False).stdout
    assert "BestFitDecreasing" in printed
    assert "pip install absent_peer" in printed
    assert [row["package"] for row in json.loads(path.read_text())["packing"]] == ["json", "json", "absent_peer"]


@pytest.mark.parametrize("peer", PACKING_PEERS, ids=lambda peer: f"{peer.package}-{peer.algorithm}")
def test_real_peers_pack_about_as_ours_do(peer: PackingPeer) -> None:
    if find_spec(peer.package) is None:
        pytest.skip(f"needs {peer.package}: pip install {peer.package}")
    for row in compare_with_packing_peer(replace(peer, sizes=(100,))):
        assert isinstance(row, PackingPeerRow), row
        assert row.packs_ratio == 1.0 if peer.ours == FirstFitDecreasing() else row.packs_ratio >= 1.0
