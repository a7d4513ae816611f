"""A comparison as JSON, as a table and as sentences."""

from __future__ import annotations

from dataclasses import asdict
from typing import TypeAlias

from rich import box
from rich.table import Table

from .compare import Comparison, Refusal, Row, image_token_cv

__all__ = ["Json", "answer", "as_json", "as_table", "bytes_text", "on_packing", "refusals", "time_text"]

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
        return (
            "None of these balancers serves this; try others (evenstep algorithms), another barrier, or other counts."
        )
    first, best = rows[0], min(rows, key=lambda row: row.cost)
    if best is first:
        others = "; nothing compared is faster" if len(rows) > 1 else ""
        return f"{_name(first)} takes {first.step_ms:,.0f} ms a step: ranks wait {first.waste:.1%} of the time{others}."
    return (
        f"{_name(best)} cuts the step from {first.step_ms:,.0f} ms ({_name(first)}) to {best.step_ms:,.0f} ms: "
        f"the ranks wait {best.waste:.1%} of the time instead of {first.waste:.1%}."
    )


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
