"""Peers are compared on equal terms: the same loads, answers verified, and a reason wherever there are no figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console
from typer.testing import CliRunner

from balancers import LPT
from experiments import Peer, PeerRow, SkippedPeer, compare_with_peer, packing_peers, peers
from experiments.cli import app
from experiments.measurements import peers_table
from experiments.peers import PEERS, Parts

SIZES = ((2, 3), (4, 3))


def greedy(package: ModuleType, loads: list[int], n_ranks: int) -> Parts:
    """LPT in plain Python; the package is whatever the peer names."""
    parts: list[list[int]] = [[] for _ in range(n_ranks)]
    for pack in sorted(range(len(loads)), key=lambda pack: -loads[pack]):
        min(parts, key=lambda part: sum(loads[each] for each in part)).append(pack)
    return parts


def everything_on_one(package: ModuleType, loads: list[int], n_ranks: int) -> Parts:
    return [list(range(len(loads)))]


def fake(partition: Callable[[ModuleType, list[int], int], Parts] = greedy, package: str = "json") -> Peer:
    return Peer(package, "fake", LPT(), partition, SIZES)


def test_an_equal_algorithm_has_the_cost_ratio_one() -> None:
    rows = [*compare_with_peer(fake())]
    assert [row.case for row in rows] == ["uniform 2 x 3", "uniform 4 x 3", "lognormal 2 x 3", "lognormal 4 x 3"]
    for row in rows:
        assert isinstance(row, PeerRow)
        assert (row.package, row.algorithm, row.ours, row.cost_ratio) == ("json", "fake", "LPT()", 1.0)
        assert row.auto_cost_ratio >= 1.0
        assert row.time_ratio == row.peer_us / row.ours_us > 0


def test_a_worse_algorithm_is_measured_by_its_own_cost() -> None:
    """All packs on one of two ranks cost their sum; at 2 x 3 LPT comes to half of it but for less than one pack."""
    row = next(compare_with_peer(fake(everything_on_one)))
    assert isinstance(row, PeerRow)
    assert 1.5 < row.cost_ratio <= row.auto_cost_ratio <= 2.0


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([[0, 1], [2, 3]], "json fake must give each of 6 packs one rank; it gave 4."),
        ([[0, 1, 2], [3, 4, 4]], "json fake must give each of 6 packs one rank; it gave 6."),
        ([[0], [1], [2, 3, 4, 5]], "json fake must use cells 0 to 1; cell[2] = 2."),
    ],
)
def test_a_wrong_answer_is_told_and_ends_the_sizes(parts: list[list[int]], text: str) -> None:
    rows = [*compare_with_peer(fake(lambda package, loads, n_ranks: parts))]
    assert rows == [SkippedPeer("json", "fake", f"{kind} 2 x 3", text) for kind in ("uniform", "lognormal")]


def test_a_size_beyond_patience_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PATIENCE_US", 0.0)
    rows = [*compare_with_peer(fake())]
    assert [row.case for row in rows if isinstance(row, SkippedPeer)] == ["uniform 4 x 3", "lognormal 4 x 3"]
    assert [row.reason for row in rows if isinstance(row, SkippedPeer)] == ["would take about 0 s"] * 2


def test_an_absent_peer_says_how_to_install_it() -> None:
    assert [*compare_with_peer(fake(package="absent_peer"))] == [
        SkippedPeer("absent_peer", "fake", "", "pip install absent_peer")
    ]


def test_a_peer_that_lacks_what_it_needs_is_not_called_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_peer.py").write_text("import absent_peer")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="absent_peer"):
        next(compare_with_peer(fake(package="broken_peer")))


def test_the_table_shows_ratios_and_reasons() -> None:
    rows: list[PeerRow | SkippedPeer] = [
        PeerRow("json", "fake", "uniform 2 x 3", "LPT()", 1500.0, 100.0, 15.0, 1.25, 0.5, 1.5),
        SkippedPeer("absent_peer", "fake", "", "pip install absent_peer"),
    ]
    console = Console(width=110)
    with console.capture() as capture:
        console.print(peers_table(rows))
    lines = [line.split() for line in capture.get().splitlines()]
    assert ["json", "fake", "uniform", "2", "x", "3", "LPT", "1.5", "ms", "15", "1.2500", "0.50", "1.5000"] in lines
    assert ["absent_peer", "fake", "pip", "install", "absent_peer", *"-----"] in lines


def test_the_command_writes_what_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", (fake(), fake(package="absent_peer")))
    monkeypatch.setattr(packing_peers, "PACKING_PEERS", ())
    path = tmp_path / "a.json"
    printed = CliRunner().invoke(app, ["peers", "--json", str(path)], catch_exceptions=False).stdout
    rows = json.loads(path.read_text())["rows"]
    assert [row["package"] for row in rows] == ["json"] * 4 + ["absent_peer"]
    assert rows[0]["cost_ratio"] == 1.0
    assert "pip install absent_peer" in printed


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: f"{peer.package}-{peer.algorithm}")
def test_real_peers_partition_as_ours_do(peer: Peer) -> None:
    """Nine packs on three ranks: the same algorithm comes to the same cost, and nothing beats an exact search."""
    if find_spec(peer.package) is None:
        pytest.skip(f"needs {peer.package}: pip install {peer.package}")
    few = Peer(peer.package, peer.algorithm, peer.ours, peer.partition, ((3, 3),))
    for row in compare_with_peer(few):
        assert isinstance(row, PeerRow), row
        match peer.algorithm:
            case "multifit":  # bisects from other limits; both stay within 13/11 of the optimum
                assert 0.84 < row.cost_ratio < 1.19
            case "complete_karmarkar_karp":  # prunes by the difference of the parts, not by the largest
                assert row.cost_ratio >= 1.0
            case _:
                assert row.cost_ratio == 1.0
