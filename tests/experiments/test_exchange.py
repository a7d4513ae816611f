"""The commands that start ranks, small."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from experiments.cli import app


def _exchanged(path: Path, *options: str) -> dict[str, dict[str, float]]:
    """Return the figures of a short run by the name of their row, once they were printed."""
    arguments = ["exchange", "--steps", "10", "--mb", "0.1", "--compute-ms", "1", "--json", str(path), *options]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    rows = {row.pop("name"): row for row in json.loads(path.read_text())["rows"]}
    assert list(rows) == ["off", "synchronous", "overlapped", "bare all-to-all", "bare all-gather"]
    assert all(name in result.stdout for name in rows)
    return rows


def test_exchange_shows_ways_of_delivering_beside_bare_collectives(tmp_path: Path) -> None:
    rows = _exchanged(tmp_path / "exchange.json")
    assert rows["off"]["moved_mb"] == rows["bare all-gather"]["moved_mb"] == 0
    assert rows["synchronous"]["moved_mb"] == rows["overlapped"]["moved_mb"] > 0  # the same packs, the same plans
    assert rows["bare all-to-all"]["moved_mb"] > 0
    assert rows["overlapped"]["imbalance_after"] < rows["overlapped"]["imbalance_before"]


def test_packs_of_equal_loads_stay_where_they_are(tmp_path: Path) -> None:
    rows = _exchanged(tmp_path / "exchange.json", "--spread", "0")
    assert [row["moved_mb"] for row in rows.values()] == [0] * 5
    assert [row["imbalance_before"] for row in rows.values()] == [1] * 3 + [0] * 2
