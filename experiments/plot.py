"""How much does each rank work and wait in a typical step, before and after balancing?"""

from __future__ import annotations

from io import BytesIO

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from balancers import Plan, Problem, RoundRobin

from .compare import Comparison, Row

__all__ = ["draw_loads", "typical_step"]

BUSY, WAITING, TEXT, FAINT = "#3b6fb5", "#f6d9cc", "#22272e", "#8a929c"


def typical_step(comparison: Comparison) -> Problem:
    """Return the step in which the waste of `RoundRobin` is the median (the lower one of two)."""
    problems = list(comparison.dealt.problems(comparison.config))
    waste = [RoundRobin().plan(problem).waste for problem in problems]
    return problems[int(np.argsort(waste, kind="stable")[(len(problems) - 1) // 2])]


def draw_loads(comparison: Comparison) -> bytes:
    """Return a PNG of 1200 x 450 pixels: the load of every rank, at home and under each balancer that moves packs."""
    plans = _plans(comparison, typical_step(comparison))
    figure = Figure(figsize=(12, 4.5), dpi=100, facecolor="white", layout="constrained")
    axes = figure.subplots(1, len(plans), sharey=True, squeeze=False)[0]
    for axis, (title, plan) in zip(axes, plans, strict=True):
        _draw(axis, title, plan)
    axes[0].set_ylim(0, 1.12 * max(plan.cost for _, plan in plans) / 1e6 or 1)
    axes[0].set_ylabel("forward time in one step, s", color=TEXT)
    axes[0].legend(loc="lower left", frameon=True, framealpha=0.9, edgecolor="none", fontsize=9)
    png = BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})  # the same bytes from the same figures
    return png.getvalue()


def _plans(comparison: Comparison, problem: Problem) -> list[tuple[str, Plan]]:
    """Return the plan of home, then those of the balancers that differ from it."""
    home = problem.home
    assert home is not None, "Dealt.problems gives every pack a home"
    plans = [("as loaded", Plan(problem, home))]
    for balancer, row in zip(comparison.config.balancers, comparison.rows, strict=True):
        if isinstance(row, Row):
            plan = balancer.plan(problem)
            if not np.array_equal(plan.cell, home):
                plans.append((type(balancer).__name__, plan))
    return plans


def _draw(axis: Axes, title: str, plan: Plan) -> None:
    seconds, end = plan.rank_load / 1e6, plan.cost / 1e6
    n_ranks, mean = len(seconds), float(seconds.mean())
    edges = np.arange(n_ranks + 1) - 0.5
    axis.stairs(np.full(n_ranks, end), edges, fill=True, color=WAITING, label="waiting")
    axis.stairs(seconds, edges, fill=True, color=BUSY, label="busy")
    axis.axhline(end, color=TEXT, linewidth=1.2)
    axis.axhline(mean, color=TEXT, linewidth=1, linestyle=(0, (4, 3)))
    axis.annotate(
        f"step ends: {end:.2f} s", (n_ranks - 1, end), (0, 4), textcoords="offset points", ha="right", color=TEXT
    )
    axis.set_title(f"{title}\nwaste {plan.waste:.1%}", color=TEXT, fontsize=12)
    axis.set_xlim(-0.5, n_ranks - 0.5)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axis.set_xlabel(f"rank (mean {mean:.2f} s)", color=TEXT)
    axis.tick_params(colors=FAINT, length=0)
    axis.spines[:].set_visible(False)
