"""Plans that move few bytes: the same cost with less traffic, or less cost only where it is worth the traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from packing.arrays import Int32, Int64, as_int, descending_order
from packing.errors import CannotServe, InvalidParameter
from packing.jit import kernel

from .auto import Auto
from .base import Balancer
from .cells import bins_of, cells_of
from .grid import Barrier
from .plan import Assignment, Plan, Status
from .problem import Problem
from .refine import refined
from .renaming import ACROSS, home_and_bytes, renamed_ranks

__all__ = ["LeastMovement", "WorthMoving", "movement_front"]

MILLION = 1_000_000
TOLERANCES_PPM = (0, 100, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)


@dataclass(frozen=True)
class LeastMovement(Balancer):
    """Among plans that cost as little as that of ``inner``, or up to ``tolerance_ppm`` more, one that moves few bytes.

    Ranks are alike, so the plan's ranks are renamed to keep the most bytes where they are: an assignment problem,
    solved exactly for up to 512 ranks (Jonker & Volgenant, via scipy), above greedily by falling bytes, which keeps at
    least half of what is possible. With the barrier STEP a second plan starts from home and moves only until the cost
    is reached (`Refine`); in both, packs go back home while the cost allows it, alone or in exchange for another. The
    plan that moves less is the answer; home itself, if its cost is within the tolerance.

    With `Grid.ranks_per_node` a byte between nodes counts as eight inside one. Ranks that are not alike (slow ones,
    bound packs) keep their names; under constraints nothing but names changes.

    Guarantee: cost <= (1 + tolerance) x that of ``inner``, no more bytes (so counted) than its plan. Needs a home;
    packs without sizes count as one byte each. ``max_moved_bytes``: if more would move, the tolerance is widened step
    by step until it fits, and where nothing else does, all stay at home.
    """

    inner: Balancer = Auto()
    tolerance_ppm: int = 0
    max_moved_bytes: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        as_int("LeastMovement.tolerance_ppm", self.tolerance_ppm, InvalidParameter, least=0)
        if self.max_moved_bytes is not None:
            as_int("LeastMovement.max_moved_bytes", self.max_moved_bytes, InvalidParameter, least=0)

    def refusal(self, problem: Problem) -> str | None:
        return _needs_home(problem) or self.inner.refusal(problem)

    def assign(self, problem: Problem) -> Assignment:
        problem = _sized(problem)
        plan = self.inner.plan(problem)
        renamed = renamed_ranks(plan)
        least = _least_movement(plan, renamed, self.tolerance_ppm)
        if self.max_moved_bytes is not None:
            for wider in (tolerance for tolerance in TOLERANCES_PPM if tolerance > self.tolerance_ppm):
                if _moved(least) <= self.max_moved_bytes:
                    break
                least = _least_movement(plan, renamed, wider)
            if _moved(least) > self.max_moved_bytes and plan.home is not None:
                least = plan.home
        return Assignment(least.cell, plan.lower_bound, plan.status if least.cost == plan.cost else Status.HEURISTIC)


@dataclass(frozen=True)
class WorthMoving(Balancer):
    """Of the plans between home and that of ``inner``, the one whose cost plus time of moving is smallest.

    ``bytes_per_unit``: bytes that a rank moves in the time of one integer of load; the rank that sends or receives most
    sets the time. The candidates are those of `movement_front`, home among them, and the plan of ``inner``: the answer
    is no worse than either. `Plan.or_home` decides on a plan as a whole; this one also stops halfway.
    """

    inner: Balancer = Auto()
    bytes_per_unit: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        as_int("WorthMoving.bytes_per_unit", self.bytes_per_unit, InvalidParameter, least=1)

    def refusal(self, problem: Problem) -> str | None:
        return _needs_home(problem) or self.inner.refusal(problem)

    def assign(self, problem: Problem) -> Assignment:
        problem = _sized(problem)
        plan = self.inner.plan(problem)
        plans = [*_front(plan, TOLERANCES_PPM), plan]
        best = min(plans, key=lambda each: each.cost + -(-(each.busiest_bytes or 0) // self.bytes_per_unit))
        return Assignment(best.cell, best.lower_bound)


def movement_front(inner: Balancer, problem: Problem, tolerances_ppm: Sequence[int] = TOLERANCES_PPM) -> list[Plan]:
    """Return the Pareto front of cost against bytes moved: from the least cost to the fewest bytes (home).

    No plan of it is beaten in both. Each comes from `LeastMovement` at one of ``tolerances_ppm``. Raises `CannotServe`
    for packs without home.
    """
    reason = _needs_home(problem)
    if reason is not None:
        raise CannotServe(f"there is no front: {reason}.")
    tolerances = [as_int("tolerances_ppm", each, InvalidParameter, least=0) for each in tolerances_ppm]
    return _front(inner.plan(_sized(problem)), tolerances)


def _front(plan: Plan, tolerances_ppm: Sequence[int]) -> list[Plan]:
    renamed = renamed_ranks(plan)
    plans = [_least_movement(plan, renamed, tolerance) for tolerance in sorted(tolerances_ppm)]
    if plan.home is not None:
        plans.append(plan.home)
    front: list[Plan] = []
    for each in sorted(plans, key=lambda plan: (plan.cost, _moved(plan))):
        if not front or _moved(each) < _moved(front[-1]):
            front.append(each)
    return front


def _needs_home(problem: Problem) -> str | None:
    return "the packs have no home, so nothing moves. Pass Problem(..., home=...)" if problem.home is None else None


def _sized(problem: Problem) -> Problem:
    """Return the problem with sizes: one byte per pack where it has none."""
    if problem.n_bytes is not None:
        return problem
    return replace(problem, n_bytes=np.ones(problem.n_packs, dtype=np.int64))


def _moved(plan: Plan) -> int:
    return plan.moved_bytes or 0


def _least_movement(plan: Plan, renamed: Plan, tolerance_ppm: int) -> Plan:
    """Return a plan of few moved bytes that costs at most ``tolerance_ppm`` more than ``plan``.

    ``renamed``: the plan with its ranks renamed, the same for every tolerance.
    """
    problem = plan.problem
    limit = plan.cost + plan.cost * tolerance_ppm // MILLION
    if plan.home is not None and plan.home.cost <= limit:
        return plan.home
    plans = [plan, renamed]
    if problem.grid.barrier is Barrier.STEP and problem.is_plain:
        limit = min(limit, int(problem.total.sum()))  # no rank has more, and kernels take int64
        plans = [plan, _sent_home(renamed, limit)]
        if plan.home is not None:
            from_home = Plan(problem, cells_of(problem, refined(problem, plan.home.rank, limit)))
            plans += [_sent_home(from_home, limit)] if from_home.cost <= limit else []
    return min(plans, key=lambda each: (_traffic(each), each.cost))


def _traffic(plan: Plan) -> int:
    """Return the bytes moved, those between nodes at `ACROSS` times the price."""
    return _moved(plan) + (ACROSS - 1) * (plan.bytes_between_nodes or 0)


def _sent_home(plan: Plan, limit: int) -> Plan:
    """Return ``plan`` with packs sent back home, alone or in exchange for another, while no rank exceeds ``limit``."""
    problem = plan.problem
    home, n_bytes = home_and_bytes(problem)
    largest_first = descending_order(n_bytes)
    rank = _send_home(problem.total, n_bytes, largest_first, home, plan.rank, *bins_of(problem), limit)
    return Plan(problem, cells_of(problem, rank))


@kernel
def _send_home(
    loads: Int64,
    n_bytes: Int64,
    order: Int64,
    home: Int32,
    rank_of: Int32,
    n_ranks: int,
    fewest: int,
    most: int,
    limit: int,
) -> Int32:
    """Return the new rank of each pack, (n,).

    Packs in ``order``; each goes home alone if counts and load allow it, else in exchange for the pack there that saves
    the most bytes. ``members[r, :used[r]]`` are the packs of rank r, ``place`` where each pack stands in its row.
    """
    rank = rank_of.copy()
    load = np.zeros(n_ranks, dtype=np.int64)
    used = np.zeros(n_ranks, dtype=np.int64)
    for pack in range(len(rank)):
        load[rank[pack]] += loads[pack]
        used[rank[pack]] += 1
    widest = used.max() + 8
    members = np.empty((n_ranks, widest), dtype=np.int64)
    used[:] = 0
    place = np.empty(len(rank), dtype=np.int64)
    for pack in range(len(rank)):
        place[pack] = used[rank[pack]]
        members[rank[pack], place[pack]] = pack
        used[rank[pack]] += 1
    for pack in order:
        here, there = rank[pack], home[pack]
        if here == there or n_bytes[pack] == 0:
            continue
        if load[there] + loads[pack] <= limit and used[here] > fewest and used[there] < min(most, widest):
            last = members[here, used[here] - 1]
            members[here, place[pack]] = last
            place[last] = place[pack]
            used[here] -= 1
            members[there, used[there]] = pack
            place[pack] = used[there]
            used[there] += 1
            load[here] -= loads[pack]
            load[there] += loads[pack]
            rank[pack] = there
            continue
        gain, other = 0, -1
        for i in range(used[there]):
            candidate = members[there, i]
            shift = loads[pack] - loads[candidate]
            if load[there] + shift > limit or load[here] - shift > limit:
                continue
            saved = n_bytes[pack]
            if home[candidate] == there:
                saved -= n_bytes[candidate]
            elif home[candidate] == here:
                saved += n_bytes[candidate]
            if saved > gain:
                gain, other = saved, candidate
        if other >= 0:
            shift = loads[pack] - loads[other]
            load[there] += shift
            load[here] -= shift
            members[here, place[pack]], members[there, place[other]] = other, pack
            place[pack], place[other] = place[other], place[pack]
            rank[pack], rank[other] = there, here
    return rank
