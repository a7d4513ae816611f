"""Results as JSON, as tables and as sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from inspect import getdoc
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rich import box
from rich.table import Table

from packing import MissingExtra
from packing.registry import Registry

from .bench import Timing
from .compare import Comparison, Refusal, Row, image_token_cv
from .even import EvenRow
from .gaps import Gap
from .optima import Packed, Solved
from .packing_peers import FacedPacker
from .peers import Faced, Missed
from .reproduce import ReproducedRow

__all__ = [
    "Json",
    "algorithms_table",
    "answer",
    "as_json",
    "as_table",
    "bins_table",
    "chaos_table",
    "even_table",
    "exchange_table",
    "gaps_table",
    "on_packing",
    "optima_table",
    "packing_peers_table",
    "peers_table",
    "refusals",
    "reproduced_table",
    "timings_table",
]

if TYPE_CHECKING:
    from .exchange import Way  # which loads torch

T = TypeVar("T")
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | None"


def as_json(comparison: Comparison) -> dict[str, Json]:
    """Return the comparison as plain values; but for ``measured`` in the rows they depend on config and samples alone.

    ``packing``: all packs. ``steps``: full steps. ``left_over_packs``: packs behind the last full step. ``rows``: the
    fields of `Row`, or ``balancer`` and ``reason`` where one refused. ``config``: the fields of `Compare`.
    """
    config, dealt, packing = comparison.config, comparison.dealt, comparison.dealt.packing
    return {
        "packing": {
            "samples": len(packing.samples),
            "packs": len(packing),
            "fill": packing.fill,
            "slots": int(packing.slots.sum()),
            "image_token_cv": image_token_cv(packing),
            "left_over_samples": len(packing.left_over),
            "left_over_tokens": int(packing.left_over.tokens.sum()),
        },
        "steps": dealt.n_steps,
        "left_over_packs": len(dealt.left_over),
        "rows": [asdict(row) for row in comparison.rows],
        "config": {
            "balancers": [repr(balancer) for balancer in config.balancers],
            "packer": repr(config.packer),
            "capacity": config.capacity,
            "oversize": config.oversize.value,
            "n_ranks": config.n_ranks,
            "n_micro_steps": config.n_micro_steps,
            "packs_per_cell": config.packs_per_cell,
            "barrier": config.barrier.value,
            "counts": config.counts.value,
            "cost": repr(config.cost),
            "seed": config.seed,
        },
    }


def as_table(comparison: Comparison) -> Table:
    """Return a row per balancer, figures per step."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("balancer", overflow="fold", min_width=12)
    for name in (
        "cost\nms",
        "gap\n%",
        "max /\nmean",
        "waste\n%",
        "packs\nmoved",
        "bytes\nmoved",
        "plan\ntime",
        "step\nms",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    n_steps = comparison.dealt.n_steps
    for row in comparison.rows:
        table.add_row(row.balancer, *(_cells(row, n_steps) if isinstance(row, Row) else ["-"] * 8))
    return table


def refusals(comparison: Comparison) -> list[str]:
    """Return a sentence for each balancer that refused."""
    return [f"{row.balancer} refuses: {row.reason}." for row in comparison.rows if isinstance(row, Refusal)]


def on_packing(comparison: Comparison) -> str:
    """Return the line that says what was balanced."""
    dealt, packing = comparison.dealt, comparison.dealt.packing
    return (
        f"{len(packing.samples):,} samples in {len(packing):,} packs of {packing.limits.capacity:,} tokens: fill "
        f"{packing.fill:.4f}, CV of image tokens per pack {image_token_cv(packing):.3f}. {dealt.n_steps:,} steps "
        f"of {dealt.steps.shape[1]:,} packs. Left over: {len(dealt.left_over):,} packs, "
        f"{len(packing.left_over):,} samples."
    )


def answer(comparison: Comparison) -> str:
    """Return the answer in a sentence: the cheapest balancer against the first."""
    rows = [row for row in comparison.rows if isinstance(row, Row)]
    if not rows:
        return "No balancer serves this; try another barrier or other counts."
    first, best = rows[0], min(rows, key=lambda row: row.cost)
    if best is first:
        others = "; nothing compared is faster" if len(rows) > 1 else ""
        return f"{_name(first)} takes {first.step_ms:,.0f} ms a step: ranks wait {first.waste:.1%} of the time{others}."
    return (
        f"{_name(best)} cuts the step from {first.step_ms:,.0f} ms ({_name(first)}) to {best.step_ms:,.0f} ms: "
        f"the ranks wait {best.waste:.1%} of the time instead of {first.waste:.1%}."
    )


def timings_table(timings: Iterable[Timing]) -> Table:
    """Return a row per timing, with a line between cases and algorithms."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("case", "algorithm"):
        table.add_column(name)
    for name in ("n", "time", "growth", "sorts", "quality"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = list(timings)
    for row, after in pairwise([*rows, None]):
        assert row is not None, "only the last one is None, and it is no row"
        table.add_row(
            row.case,
            row.algorithm,
            f"{row.n:,}",
            time_text(row.us),
            "" if row.growth is None else f"{row.growth:.2f}",
            f"{row.sorts:,.1f}",
            f"{row.quality:.4f}",
            end_section=after is not None and (row.case, row.algorithm) != (after.case, after.algorithm),
        )
    return table


def even_table(rows: Iterable[EvenRow], n_ranks: Iterable[int]) -> Table:
    """Return even packings as a table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("samples", "seed", "packer"):
        table.add_column(name, no_wrap=True)
    wastes = (f"{kind}\n{n}" for kind in ("dealt", "step", "micro") for n in n_ranks)
    for name in ("fill", "CV", "x floor", "att.\nCV", "us", *wastes):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.mixture,
            str(row.seed),
            row.packer,
            f"{row.fill:.4f}",
            f"{row.cv:.3f}",
            f"{row.multiple:.2f}",
            f"{row.attention_cv:.2f}",
            f"{row.us:.1f}",
            *("-" if each is None else f"{each:.4f}" for each in (*row.dealt, *row.waste, *row.micro_waste)),
        )
    return table


def reproduced_table(rows: Iterable[ReproducedRow]) -> Table:
    """Return a row per way to pack, under a title for each mixture and question."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("packer", overflow="fold")
    for name in ("budget", "alone\n%", "fill\n%", "bound\n%", "CV", "waste\ndealt", "waste\nplanned"):
        table.add_column(name, justify="right", no_wrap=True)
    title = ""
    for row in rows:
        if title != f"{row.mixture}: {row.question}":
            table.add_section()
            title = f"{row.mixture}: {row.question}"
            table.add_row(title)
        shares = (f"{100 * share:.2f}" for share in (row.alone, row.fill, row.ceiling))
        wastes = ("" if waste is None else f"{waste:.4f}" for waste in (row.dealt_waste, row.planned_waste))
        budget = "" if row.budget is None else f"{row.budget:,}"
        table.add_row(f"  {row.packer}", budget, *shares, f"{row.cv:.3f}", *wastes)
    return table


def optima_table(results: Iterable[Solved]) -> Table:
    """Return a row per family and balancer."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("family", "balancer"):
        table.add_column(name)
    for name in ("n", "solved\n%", "proven\n%", "gap\n%", "mean\nms", "max\nms"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in results:
        shares = (f"{100 * share:.1f}" for share in (row.solved, row.proven))
        times = (f"{row.gap:.4%}".removesuffix("%"), f"{row.ms_mean:.1f}", f"{row.ms_max:.1f}")
        table.add_row(row.family, row.balancer, str(row.n), *shares, *times)
    return table


def gaps_table(rows: Iterable[Gap]) -> Table:
    """Return a row per case and balancer."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("case", "balancer"):
        table.add_column(name)
    for name in ("gap %\nmean", "gap %\nmax", "proven\n%", "totals\n%", "ms\nmean", "ms\nmax", "sorts"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        shares = (row.gap_mean, row.gap_max, row.proven, row.totals_max)
        gap_mean, gap_max, proven, totals = (100 * share for share in shares)
        figures = f"{gap_mean:.4f}", f"{gap_max:.4f}", f"{proven:.0f}", f"{totals:.3f}"
        times = f"{row.ms_mean:.2f}", f"{row.ms_max:.2f}", f"{row.sorts:.0f}"
        table.add_row(row.case, row.balancer, *figures, *times)
    return table


def bins_table(results: Iterable[Packed]) -> Table:
    """Return a row per family and packer."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("family", "packer"):
        table.add_column(name)
    for name in ("n", "solved\n%", "proven\n%", "gap\n%", "bound\ngap %", "mean\nms", "max\nms"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in results:
        shares = (f"{100 * share:.1f}" for share in (row.solved, row.proven))
        gaps = (f"{100 * gap:.4f}" for gap in (row.gap, row.bound_gap))
        table.add_row(row.family, row.packer, str(row.n), *shares, *gaps, f"{row.ms_mean:.1f}", f"{row.ms_max:.1f}")
    return table


def peers_table(rows: Iterable[Faced | Missed]) -> Table:
    """Return a row per peer and case, with a line between peers; why there is none stands where ours would."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("peer", overflow="fold")
    table.add_column("loads", no_wrap=True)
    table.add_column("ours", overflow="fold")
    for name in ("peer\ntime", "time /\nours", "cost /\nours", "time /\nAuto", "cost /\nAuto"):
        table.add_column(name, justify="right", no_wrap=True)
    before = None
    for row in rows:
        peer = f"{row.package} {row.algorithm}"
        if before not in (None, peer):
            table.add_section()
        before = peer
        if isinstance(row, Missed):
            table.add_row(peer, row.case, row.reason, *["-"] * 5)
            continue
        ratios = ((row.time_ratio, row.cost_ratio), (row.auto_time_ratio, row.auto_cost_ratio))
        figures = (
            text for time, cost in ratios for text in (f"{time:,.2f}" if time < 10 else f"{time:,.0f}", f"{cost:.4f}")
        )
        table.add_row(peer, row.case, row.ours.removesuffix("()"), time_text(row.peer_us), *figures)
    return table


def packing_peers_table(rows: Iterable[FacedPacker | Missed]) -> Table:
    """Return a row per packing peer and size; why there is none stands where ours would."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("peer", "lengths", "ours"):
        table.add_column(name, overflow="fold")
    for name in ("peer\ntime", "our\ntime", "time /\nours", "packs /\nours"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        peer = f"{row.package} {row.algorithm}"
        if isinstance(row, Missed):
            table.add_row(peer, row.case, row.reason, *["-"] * 4)
            continue
        times = (time_text(row.peer_us), time_text(row.ours_us), f"{row.time_ratio:,.1f}")
        table.add_row(peer, row.case, row.ours.removesuffix("()"), *times, f"{row.packs_ratio:.4f}")
    return table


def algorithms_table(registry: Registry[T]) -> Table:
    """Return the name and the first line of the docstring of every algorithm in ``registry``."""
    table = Table(f"{registry.kind}s", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in registry.names():
        table.add_row(name, _first_line(registry, name))
    return table


def time_text(us: float) -> str:
    """``85 us``, ``1.3 ms``, ``2.40 s``."""
    if us < 1_000:
        return f"{us:.0f} us"
    return f"{us / 1_000:.1f} ms" if us < 1_000_000 else f"{us / 1_000_000:.2f} s"


def bytes_text(n_bytes: float) -> str:
    """``0 B``, ``131 kB``, ``4.2 GB``: three digits, powers of ten."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.5:
            return f"{n_bytes:.0f} {unit}" if n_bytes >= 10 or unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1_000
    return f"{n_bytes:.1f} TB"


def _cells(row: Row, n_steps: int) -> list[str]:
    return [
        f"{row.cost / n_steps / 1_000:,.1f}",
        f"{row.gap:.3%}".removesuffix("%"),
        f"{row.imbalance:.4f}",
        f"{row.waste:.2%}".removesuffix("%"),
        f"{row.moved_packs / n_steps:,.1f}",
        bytes_text(row.moved_bytes / n_steps),
        time_text(row.measured.plan_us_mean),
        f"{row.step_ms:,.1f}",
    ]


def _name(row: Row) -> str:
    return row.balancer.removesuffix("()")


def _first_line(registry: Registry[T], name: str) -> str:
    try:
        return (getdoc(registry.get(name)) or "").partition("\n")[0]
    except MissingExtra as error:
        return str(error)


def exchange_table(ways: Iterable[Way]) -> Table:
    """Return the ways of delivering packs side by side; a bare all-to-all has only bytes and time."""
    table = Table("", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("step ms", "exposed", "plan", "exchange", "meet", "moved MB", "MB/s", "imbalance", "RSS MB"):
        table.add_column(name, justify="right", no_wrap=True)
    for way in ways:
        cells = [f"{value:,.1f}" for value in way[1:8]]
        if not way.step_ms:
            cells[:3], cells[4] = [""] * 3, ""
        rest = [f"{way.imbalance_before:.3f} > {way.imbalance_after:.3f}", f"{way.rss_growth_mb:+.1f}"]
        table.add_row(way.name, *cells, *(rest if way.step_ms else ("", "")))
    return table


def chaos_table(rows: Iterable[tuple[str, str, int, int, float, str]]) -> Table:
    """Return a row per fault: trials, problems, the longest that a survivor waited for its error, and the errors."""
    table = Table("fault", "workers", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("trials", "problems", "slowest s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what survivors were told")
    for fault, workers, trials, problems, slowest, kinds in rows:
        table.add_row(fault, workers, str(trials), str(problems), f"{slowest:.2f}", kinds)
    return table
