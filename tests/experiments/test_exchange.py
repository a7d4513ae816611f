"""The commands that start ranks, small."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from experiments.cli import app


def test_exchange_shows_four_ways(tmp_path: Path) -> None:
    path = tmp_path / "exchange.json"
    arguments = ["exchange", "--steps", "10", "--mb", "0.1", "--compute-ms", "1", "--json", str(path)]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    off, synchronous, overlapped, bare = json.loads(path.read_text())["rows"]
    names = [row["name"] for row in (off, synchronous, overlapped, bare)]
    assert names == ["off", "synchronous", "overlapped", "bare all-to-all"]
    assert off["moved_mb"] == 0
    assert synchronous["moved_mb"] == overlapped["moved_mb"] > 0  # the same packs, the same plans
    assert overlapped["imbalance_after"] <= overlapped["imbalance_before"]
    assert all(name in result.stdout for name in names)
