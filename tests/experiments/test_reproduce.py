"""The figures of hard budgets and even packing, on few samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.cli import app
from experiments.reproduce import Reproduce, ReproducedRow, reproduce
from experiments.reproduce_plot import draw_front


@pytest.fixture(scope="module")
def rows() -> list[ReproducedRow]:
    return [*reproduce(Reproduce(n_samples=8_000, n_ranks=8, buffers=(100, 1_000)))]


def fills(rows: list[ReproducedRow], question: str, mixture: str) -> dict[str, float]:
    return {row.packer: row.fill for row in rows if (row.question, row.mixture) == (question, mixture)}


def test_padding_wastes_half_and_packing_hardly_anything(rows: list[ReproducedRow]) -> None:
    for mixture in ("M1", "M2"):
        padded, flushed, whole = fills(rows, "padding or packing", mixture).values()
        assert 0.4 < 1 - padded < 0.55
        assert 0.99 < flushed < whole


def test_a_budget_below_the_need_has_a_ceiling_that_no_buffer_lifts(rows: list[ReproducedRow]) -> None:
    chosen = [row for row in rows if row.question == "a budget below the need"]
    assert {row.budget for row in chosen} == {2816}
    assert max(row.ceiling for row in chosen) < 0.72
    assert all(row.fill <= row.ceiling for row in rows if row.budget)
    assert max(row.fill for row in chosen) > 0.96 * chosen[0].ceiling
    thousands = next(row for row in chosen if row.packer == "VectorFirstFit(open_packs=1000)")
    assert thousands.fill < 0.7


def test_at_the_mean_need_the_packer_is_to_blame(rows: list[ReproducedRow]) -> None:
    found = fills(rows, "a budget of the mean need", "M2")
    assert found["NextFit()"] < 0.72
    assert found["VectorDotProduct(rule='rest')"] > found["NextFit()"] + 0.2


def test_tiles_make_3000_a_budget_of_2816(rows: list[ReproducedRow]) -> None:
    found = [row for row in rows if row.question == "tiles round a budget down"]
    fill = {(row.packer, row.budget): row.fill for row in found}
    assert fill["NextFit()", 3000] == fill["NextFit()", 2816]


def test_even_packing_is_as_full_as_best_fit_and_as_even_as_a_budget(rows: list[ReproducedRow]) -> None:
    front = [row for row in rows if row.mixture == "M2" and row.dealt_waste is not None]
    even, best_fit = front[-3], front[-1]
    assert even.fill > best_fit.fill - 0.005
    assert even.cv < 0.4 * best_fit.cv
    for row in front:  # no budget is as full and lets ranks wait as little
        assert row.budget is None or row.fill < even.fill or (row.dealt_waste or 0) > (even.dealt_waste or 0)


def test_the_command_writes_table_figures_and_picture(tmp_path: Path) -> None:
    figures, picture = tmp_path / "a.json", tmp_path / "a.png"
    arguments = ["reproduce", "--samples", "300", "--json", str(figures), "--plot", str(picture)]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "M1: padding or packing" in result.stdout
    assert json.loads(figures.read_text())["rows"][0]["dealt_waste"] is None
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_front_is_a_png_of_1200_x_450_and_the_same_every_time(rows: list[ReproducedRow]) -> None:
    content = draw_front(rows)
    assert (int.from_bytes(content[16:20]), int.from_bytes(content[20:24])) == (1200, 450)
    assert content == draw_front(rows)
