"""What a step's plan is worth, and what it moves: pure, from what ranks agreed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from balancers import Plan
from balancers.verification import busy_times
from packing.arrays import exact_sum

from .agreement import Table
from .exchange import Route
from .settings import Settings

__all__ = ["Gains", "gains_of", "totals"]


class Gains(NamedTuple):
    """What a plan is worth over all ranks, and what of it moves from and to this one."""

    packs: int
    dummies: int
    cost_before: int
    cost_after: int
    busy_before: int
    busy_after: int
    moved_packs: int
    moved_bytes: int
    sent_bytes: int
    received_bytes: int


def totals(settings: Settings, table: Table) -> dict[str, int]:
    """Return the sums of packs and amounts over all ranks."""
    sums = dict(zip(settings.amounts, map(exact_sum, table.amounts.T), strict=True))  # operations go beyond int64
    return {"packs": int(table.counts.sum()), **sums}


def gains_of(
    settings: Settings, table: Table, plan: Plan | None, routes: Sequence[Route], rank: int, dummies: int
) -> Gains:
    """Return the gains of one step. ``routes``: of the same packs, one route for each kind of bytes."""
    problem = plan.problem if plan else settings.problem(table, 0)
    home = plan.home if plan else None
    before = home.busy if home else busy_times(problem, settings.home(table).astype(np.int32))
    cost = int(before.max(axis=1).sum())
    return Gains(
        packs=problem.n_packs,
        dummies=dummies,
        cost_before=cost,
        cost_after=plan.cost if plan else cost,
        busy_before=int(before.sum()),
        busy_after=int(plan.busy.sum() if plan else before.sum()),
        moved_packs=len(routes[0].pack),
        moved_bytes=sum(int(route.n_bytes.sum()) for route in routes),
        sent_bytes=sum(route.sent_bytes(rank) for route in routes),
        received_bytes=sum(route.received_bytes(rank) for route in routes),
    )
