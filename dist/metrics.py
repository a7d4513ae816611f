"""One record per step: what balancing gained, what moved, and how long the training loop really waited."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packing.lazy import missing_extra

if TYPE_CHECKING:
    from .executor import Delivery
    from .settings import Settings

__all__ = ["Span", "StepRecord", "record_of", "write_parquet", "write_trace"]


class Span(NamedTuple):
    """A stretch of time on one thread of this rank, in microseconds of the machine's monotonic clock."""

    name: str  # "pack", "meet", "agree", "plan", "exchange", "unpack"; "wait", "compute", "source" of the training loop
    start_us: int
    duration_us: int


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """A step as this rank saw it.

    Costs, packs, dummies and what moved are of all ranks; bytes sent and received, times and the queue are of this one.

    ``before``: as the packs were loaded; ``after``: as the plan has them, also in shadow mode, where nothing moves.
    Imbalance is n_ranks x cost / busy time (1.0 is perfect), waste is 1 - 1 / imbalance. ``exposed_us``: how long the
    training loop waited for the step; ``source_us``: how long it spent in the source since the last step.
    """

    step: int
    rank: int
    mode: str
    packs: int
    dummies: int
    cost_before: int
    cost_after: int
    imbalance_before: float
    imbalance_after: float
    waste_before: float
    waste_after: float
    moved_packs: int
    moved_bytes: int
    sent_bytes: int
    received_bytes: int
    meet_us: int
    plan_us: int
    exchange_us: int
    exposed_us: int
    source_us: int
    queue_depth: int  # steps that were ready when this one was asked for
    spans: tuple[Span, ...] = field(default=(), repr=False)


def record_of(delivery: Delivery, settings: Settings, rank: int, ready: int, spans: tuple[Span, ...]) -> StepRecord:
    """Return the record of a step that was just taken; ``ready`` steps were waiting."""
    gains, n_ranks = delivery.gains, settings.grid.n_ranks

    def took(*names: str) -> int:
        return sum(span.duration_us for span in spans if span.name in names)

    def waste(cost: int, busy: int) -> float:
        return 1 - busy / (n_ranks * cost) if cost else 0.0

    def imbalance(cost: int, busy: int) -> float:
        return n_ranks * cost / busy if busy else 1.0

    return StepRecord(
        step=delivery.step,
        rank=rank,
        mode=settings.mode.value,
        packs=gains.packs,
        dummies=gains.dummies,
        cost_before=gains.cost_before,
        cost_after=gains.cost_after,
        imbalance_before=imbalance(gains.cost_before, gains.busy_before),
        imbalance_after=imbalance(gains.cost_after, gains.busy_after),
        waste_before=waste(gains.cost_before, gains.busy_before),
        waste_after=waste(gains.cost_after, gains.busy_after),
        moved_packs=gains.moved_packs,
        moved_bytes=gains.moved_bytes,
        sent_bytes=gains.sent_bytes,
        received_bytes=gains.received_bytes,
        meet_us=took("meet"),
        plan_us=took("plan"),
        exchange_us=took("pack", "exchange", "unpack"),
        exposed_us=took("wait"),
        source_us=took("source"),
        queue_depth=ready,
        spans=spans,
    )


def write_trace(path: Path | str, records: Iterable[StepRecord]) -> None:
    """Write the spans of ``records``, of any ranks, as a trace for Perfetto or chrome://tracing.

    A process is a rank; its two threads are the training loop and the exchange.
    """
    events: list[dict[str, object]] = []
    for record in records:
        for span in record.spans:
            thread = "training loop" if span.name in ("wait", "compute", "source") else "exchange"
            events.append(
                {
                    "name": span.name,
                    "ph": "X",
                    "ts": span.start_us,
                    "dur": span.duration_us,
                    "pid": record.rank,
                    "tid": thread,
                    "args": {"step": record.step},
                }
            )
    Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))


def write_parquet(path: Path | str, records: Iterable[StepRecord]) -> None:
    """Write one row per record, spans left out. Needs pyarrow (the extra "experiments")."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise missing_extra("write_parquet", error) from error
    rows = list(records)
    names = [each.name for each in fields(StepRecord) if each.name != "spans"]
    pq.write_table(pa.table({name: [getattr(row, name) for row in rows] for name in names}), path)
