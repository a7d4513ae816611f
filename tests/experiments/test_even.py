"""The figures of even packing, on few samples."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from experiments import Even, InvalidWorkload, even_rows
from experiments.cli import app
from experiments.even import packed_row
from packing import BestFitDecreasing, EvenPacking, Samples

PACKERS = (("best fit", BestFitDecreasing()), ("even", EvenPacking(("image_tokens",))))


def test_rows_are_repeatable_and_above_the_floor() -> None:
    config = Even(packers=PACKERS, mixtures=(("M4", (0, 0.5, 0.5)),), n_samples=2_000, n_ranks=(8,))
    rows = [*even_rows(config)]
    assert [row.packer for row in rows] == ["best fit", "even", "even, stream", "hard budget"]
    assert len(rows) == config.n_rows
    for row, again in zip(rows, even_rows(config), strict=True):
        assert (row.fill, row.cv, row.dealt, row.waste) == (again.fill, again.cv, again.dealt, again.waste)
        assert row.dealt[0] is not None
        assert row.waste[0] is not None
        assert row.least[0] is not None
        assert 0 <= row.least[0] <= row.waste[0] + 1e-12
        assert row.waste[0] <= row.dealt[0]
        assert 0.9 < row.fill <= 1
        assert row.cv >= row.floor
    assert rows[1].cv < 0.3 * rows[0].cv


def test_whole_tiles_force_some_waste() -> None:
    """16 packs hold 17 tiles: one of two ranks has nine."""
    samples = Samples([600] * 16, {"image_tokens": [512, *[256] * 15]})
    config = Even(n_ranks=(2,), capacity=1_000)
    row = packed_row(config, "", 0, "", samples, [BestFitDecreasing().pack(samples, 1_000)], 0)
    mean, most = 8 * 60_000 + 8.5 * 256 * 280, 8 * 60_000 + 9 * 256 * 280
    assert row.waste[0] == pytest.approx(1 - mean / most)
    assert row.least[0] == pytest.approx(1 - mean / most)
    assert row.window_waste == (None,)


def test_two_steps_together_need_not_lose_what_whole_tiles_force_on_each() -> None:
    """Two steps of 17 tiles on two ranks: 8 on each rank in one, 9 in the other."""
    samples = Samples([600] * 32, {"image_tokens": [512, *[256] * 30, 512]})
    config = Even(n_ranks=(2,), capacity=1_000)
    row = packed_row(config, "", 0, "", samples, [BestFitDecreasing().pack(samples, 1_000)], 0)
    assert row.window_waste == (0.0,)


def test_too_few_packs_for_a_step_have_no_waste() -> None:
    config = Even(packers=PACKERS[:1], mixtures=(("M3", (0, 0.2, 0.8)),), n_samples=20)
    assert all(row.dealt == row.waste == row.micro_waste == (None, None) for row in even_rows(config))


def test_samples_come_from_three_files(tmp_path: Path) -> None:
    files = []
    for k in range(3):
        files.append(tmp_path / f"{k}.parquet")
        pq.write_table(pa.table({"tokens": [100 + k, 9_000], "image_tokens": [50 * k, 0]}), files[-1])
    config = Even(packers=PACKERS[:1], files=tuple(files), n_samples=100, mixtures=(("M2", (0.4, 0.1, 0.5)),))
    row = next(even_rows(config))
    assert row.fill == pytest.approx((40 * 100 + 10 * 101 + 50 * 102) / 2 / 8192)
    with pytest.raises(InvalidWorkload, match="one file for each of vlm, vqa, text; got 2"):
        next(even_rows(Even(files=tuple(files[:2]))))


def test_files_without_a_usable_sample_are_named(tmp_path: Path) -> None:
    for name, tokens in (("long", 9_000), ("short", 100), ("empty", 0)):
        pq.write_table(pa.table({"tokens": [tokens], "image_tokens": [0]}), tmp_path / f"{name}.parquet")
    for names, n_samples, text in (
        (("short", "short", "long"), 100, r"long\.parquet: no sample has at most 8192 tokens"),
        (("empty", "empty", "empty"), 100, r"100 samples .* have no tokens\. Draw more"),
        (("short", "short", "short"), 1, r"1 samples in shares of \(0\.4, 0\.1, 0\.5\) .* have no tokens"),
    ):
        files = tuple(tmp_path / f"{name}.parquet" for name in names)
        config = Even(files=files, n_samples=n_samples, mixtures=(("M2", (0.4, 0.1, 0.5)),))
        with pytest.raises(InvalidWorkload, match=text):
            next(even_rows(config))


def test_the_command_prints_a_table(tmp_path: Path) -> None:
    path = tmp_path / "even.json"
    result = CliRunner().invoke(app, ["even", "--samples", "200", "--json", str(path)])
    assert result.exit_code == 0, result.output
    assert "floor" in result.output
    assert '"multiple"' in path.read_text()
