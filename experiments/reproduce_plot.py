"""Fill against waiting: hard budgets, even packing, and packing for fill alone."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .plot import BUSY, FAINT, TEXT
from .reproduce import ReproducedRow

__all__ = ["draw_front"]

HARD, EVEN = "#c2603a", "#2f8f5b"


def draw_front(rows: Sequence[ReproducedRow]) -> bytes:
    """Return a PNG of 1200 x 450 pixels: a panel per mixture, of the rows with a waste."""
    known = [row for row in rows if row.dealt_waste is not None]
    mixtures = [*dict.fromkeys(row.mixture for row in known)]
    figure = Figure(figsize=(12, 4.5), dpi=100, layout="constrained", facecolor="white")
    axes = figure.subplots(1, max(len(mixtures), 1), squeeze=False)[0]
    for axis, mixture in zip(axes, mixtures, strict=False):
        _draw(axis, mixture, [row for row in known if row.mixture == mixture])
    png = BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})  # the same bytes from the same figures
    return png.getvalue()


def _draw(axis: Axes, mixture: str, rows: Sequence[ReproducedRow]) -> None:
    hard = [row for row in rows if row.budget is not None]
    axis.plot(*_points(hard), color=HARD, marker="o", label="hard budget, best of five packers")
    for row in hard:
        place = (100 * row.fill, 100 * (row.dealt_waste or 0))
        axis.annotate(f"{row.budget:,}", place, (7, 3), textcoords="offset points", fontsize=8, color=FAINT)
    for name, colour, label in (("EvenPacking", EVEN, "even packing"), ("BestFit", BUSY, "fill only")):
        chosen = [row for row in rows if row.budget is None and row.packer.startswith(name)]
        axis.plot(*_points(chosen), color=colour, marker="D", linestyle="none", markersize=9, label=label)
    axis.set_title(mixture, color=TEXT, fontsize=12)
    axis.set_xlabel("fill, %", color=TEXT)
    axis.set_ylabel("waiting without exchange, %", color=TEXT)
    axis.set_ylim(bottom=0)
    axis.margins(x=0.12)
    axis.legend(frameon=False, fontsize=9)
    axis.tick_params(colors=FAINT, length=0)
    axis.spines[["top", "right"]].set_visible(False)


def _points(rows: Sequence[ReproducedRow]) -> tuple[list[float], list[float]]:
    return [100 * row.fill for row in rows], [100 * (row.dealt_waste or 0) for row in rows]
