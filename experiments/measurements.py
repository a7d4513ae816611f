"""Measurements as tables: a row for each."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import getdoc
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from rich import box
from rich.markup import escape
from rich.table import Table

from packing import EvenstepError
from packing.registry import Registry

from .bench import Timing
from .even import EvenRow
from .gaps import Gap
from .optima import Packed, Solved
from .packing_peers import PackingPeerRow
from .peers import PeerRow, SkippedPeer
from .report import time_text
from .reproduce import ReproducedRow

__all__ = [
    "algorithms_table",
    "bins_table",
    "chaos_table",
    "even_table",
    "exchange_table",
    "gaps_table",
    "optima_table",
    "packing_peers_table",
    "peers_table",
    "reproduced_table",
    "timings_table",
]

if TYPE_CHECKING:
    from .exchange import ExchangeRow  # which loads torch

T = TypeVar("T")


def timings_table(timings: Iterable[Timing]) -> Table:
    """Return a row per timing, with a line between cases and algorithms."""
    table = _table(("case", "algorithm"), ("n", "time", "growth", "sorts", "quality"))
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
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for name in ("of", "seed", "packer"):
        table.add_column(name, no_wrap=True)
    wastes = (f"{kind}\n{n}" for kind in ("dealt", "step", "least", "two", "micro") for n in n_ranks)
    for name in ("fill", "CV", "x\nfloor", "att.\nCV", "us", *wastes):
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
            *(
                "-" if waste is None else f"{100 * waste:.1f}"
                for waste in (*row.dealt, *row.waste, *row.least, *row.window_waste, *row.micro_waste)
            ),
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
    table = _table(("family", "balancer"), ("n", "solved\n%", "proven\n%", "gap\n%", "mean\nms", "max\nms"))
    for row in results:
        shares = (f"{100 * share:.1f}" for share in (row.solved, row.proven))
        times = (f"{row.gap:.4%}".removesuffix("%"), f"{row.ms_mean:.1f}", f"{row.ms_max:.1f}")
        table.add_row(row.family, row.balancer, str(row.n), *shares, *times)
    return table


def gaps_table(rows: Iterable[Gap]) -> Table:
    """Return a row per case and balancer."""
    table = _table(
        ("case", "balancer"), ("gap %\nmean", "gap %\nmax", "proven\n%", "totals\n%", "ms\nmean", "ms\nmax", "sorts")
    )
    for row in rows:
        shares = (row.gap_mean, row.gap_max, row.proven, row.totals_max)
        gap_mean, gap_max, proven, totals = (100 * share for share in shares)
        figures = f"{gap_mean:.4f}", f"{gap_max:.4f}", f"{proven:.0f}", f"{totals:.3f}"
        times = f"{row.ms_mean:.2f}", f"{row.ms_max:.2f}", f"{row.sorts:.0f}"
        table.add_row(row.case, row.balancer, *figures, *times)
    return table


def bins_table(results: Iterable[Packed]) -> Table:
    """Return a row per family and packer."""
    table = _table(
        ("family", "packer"), ("n", "solved\n%", "proven\n%", "gap\n%", "bound\ngap %", "mean\nms", "max\nms")
    )
    for row in results:
        shares = (f"{100 * share:.1f}" for share in (row.solved, row.proven))
        gaps = (f"{100 * gap:.4f}" for gap in (row.gap, row.bound_gap))
        table.add_row(row.family, row.packer, str(row.n), *shares, *gaps, f"{row.ms_mean:.1f}", f"{row.ms_max:.1f}")
    return table


def peers_table(rows: Iterable[PeerRow | SkippedPeer]) -> Table:
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
        if isinstance(row, SkippedPeer):
            table.add_row(peer, row.case, row.reason, *["-"] * 5)
            continue
        ratios = ((row.time_ratio, row.cost_ratio), (row.auto_time_ratio, row.auto_cost_ratio))
        figures = (
            text for time, cost in ratios for text in (f"{time:,.2f}" if time < 10 else f"{time:,.0f}", f"{cost:.4f}")
        )
        table.add_row(peer, row.case, row.ours.removesuffix("()"), time_text(row.peer_us), *figures)
    return table


def packing_peers_table(rows: Iterable[PackingPeerRow | SkippedPeer]) -> Table:
    """Return a row per packing peer and size; why there is none stands where ours would."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("peer", "lengths", "ours"):
        table.add_column(name, overflow="fold")
    for name in ("peer\ntime", "our\ntime", "time /\nours", "packs /\nours"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        peer = f"{row.package} {row.algorithm}"
        if isinstance(row, SkippedPeer):
            table.add_row(peer, row.case, row.reason, *["-"] * 4)
            continue
        times = (time_text(row.peer_us), time_text(row.ours_us), f"{row.time_ratio:,.1f}")
        table.add_row(peer, row.case, row.ours.removesuffix("()"), *times, f"{row.packs_ratio:.4f}")
    return table


def exchange_table(rows: Iterable[ExchangeRow]) -> Table:
    """Return the rows of delivering packs side by side; bare collectives have only time, and bytes if they carry
    packs."""
    table = Table("", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("step ms", "exposed", "plan", "exchange", "meet", "moved MB", "MB/s", "imbalance", "RSS MB"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        texts = [f"{value:,.{digits}f}" for value, digits in zip(row[1:8], (1, 2, 2, 2, 2, 1, 1), strict=True)]
        if row.step_ms:
            rest = f"{row.imbalance_before:.3f} > {row.imbalance_after:.3f}", f"{row.rss_growth_mb:+.1f}"
            table.add_row(row.name, *texts, *rest)
        else:
            table.add_row(row.name, *(text if value else "" for text, value in zip(texts, row[1:8], strict=True)))
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


def algorithms_table(registry: Registry[T]) -> Table:
    """Return the name and the first paragraph of the docstring of every algorithm in ``registry``."""
    table = Table(f"{registry.kind}s", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in registry.names():
        table.add_row(name, escape(_first_paragraph(registry, name)))  # an extra is named in brackets: evenstep[ilp]
    return table


def _first_paragraph(registry: Registry[T], name: str) -> str:
    try:
        return (getdoc(registry.get(name)) or "").partition("\n\n")[0].replace("\n", " ")
    except EvenstepError as error:  # an extra that is not installed, or a broken plug-in
        return str(error)


def _table(texts: Iterable[str], figures: Iterable[str]) -> Table:
    """Return an empty table: columns of texts, then of figures."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in texts:
        table.add_column(name)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table
