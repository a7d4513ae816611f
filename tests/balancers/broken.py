"""Balancers that are wrong on purpose, each in one way; importable, since other processes plan with them too."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass

import numpy as np

from balancers import LPT, Assignment, Balancer, Barrier, Problem, RoundRobin, Status
from packing.arrays import Int32


def round_robin(problem: Problem) -> Int32:
    return RoundRobin().assign(problem).cell


@dataclass(frozen=True)
class DropsAPack(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        return Assignment(round_robin(problem)[:-1])


@dataclass(frozen=True)
class LeavesTheGrid(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        return Assignment(round_robin(problem) + np.int32(1))


@dataclass(frozen=True)
class IgnoresCounts(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        return Assignment(np.zeros(problem.n_packs, dtype=np.int32))


@dataclass(frozen=True)
class BoastsOfABound(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        return Assignment(round_robin(problem), lower_bound=10**18)


@dataclass(frozen=True)
class BelievesInLPT(Balancer):
    """Proves nothing, and says that it did."""

    barriers = frozenset({Barrier.STEP})

    def assign(self, problem: Problem) -> Assignment:
        plan = LPT().plan(problem)
        return Assignment(plan.cell, lower_bound=plan.cost)


@dataclass(frozen=True)
class ClaimsAnOptimum(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        return Assignment(round_robin(problem), status=Status.OPTIMAL)


@dataclass(frozen=True)
class OverlooksStages(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        cell = round_robin(problem)
        cell[[int(load) == 0 for load in problem.loads]] = 0
        return Assignment(cell)


@dataclass(frozen=True)
class OverlooksPairs(Balancer):
    """Counts are free, equal, within one, padded, or a pair."""

    def refusal(self, problem: Problem) -> str | None:
        return None if isinstance(problem.grid.counts, tuple) else "pairs only, where it is wrong"

    def assign(self, problem: Problem) -> Assignment:
        return Assignment(np.zeros(problem.n_packs, dtype=np.int32))


@dataclass(frozen=True)
class ReturnsAnArray(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        return round_robin(problem)  # type: ignore[return-value]


@dataclass(frozen=True)
class CountsCores(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        shift = np.int32(min(os.cpu_count() or 1, 2))
        return Assignment((round_robin(problem) + shift) % np.int32(problem.grid.n_cells))


@dataclass(frozen=True)
class ReadsTheClock(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        shift = np.int32(time.perf_counter_ns() // 1000 % problem.grid.n_cells)
        return Assignment((round_robin(problem) + shift) % np.int32(problem.grid.n_cells))


@dataclass(frozen=True)
class StopsByTheClock(Balancer):
    """Improves until a deadline that is never reached here, but is where clocks run fast."""

    barriers = frozenset({Barrier.STEP})

    def assign(self, problem: Problem) -> Assignment:
        deadline = time.monotonic() + 1
        plain = RoundRobin().assign(problem)
        return LPT().assign(problem) if time.monotonic() < deadline else plain


@dataclass(frozen=True)
class UsesGlobalRandom(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        shift = np.int32(random.randrange(problem.grid.n_cells))
        return Assignment((round_robin(problem) + shift) % np.int32(problem.grid.n_cells))


@dataclass(frozen=True)
class SeedsGlobalRandom(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        np.random.seed(0)
        return Assignment(round_robin(problem))


@dataclass(frozen=True)
class DependsOnSetOrder(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        names = list({f"cell {cell}" for cell in range(problem.grid.n_cells)})
        cells = np.array([int(name.split()[1]) for name in names], dtype=np.int32)
        return Assignment(cells[round_robin(problem)])


@dataclass(frozen=True)
class UsesAnUnstableSort(Balancer):
    """Ties of numpy's default sort are broken by the loops that the CPU's features choose."""

    def assign(self, problem: Problem) -> Assignment:
        cell = np.empty(problem.n_packs, dtype=np.int32)
        cell[np.argsort(problem.total // 1024)] = round_robin(problem)
        return Assignment(cell)


@dataclass(frozen=True)
class MutatesItsInput(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        cell = round_robin(problem)
        problem.loads.flags.writeable = True
        problem.loads[:] = np.sort(problem.loads, axis=0)
        problem.loads.flags.writeable = False
        return Assignment(cell)


@dataclass(frozen=True)
class DislikesAnOrder(Balancer):
    order_free = True

    def assign(self, problem: Problem) -> Assignment:
        return Assignment(round_robin(problem))


@dataclass(frozen=True)
class DislikesLargeLoads(Balancer):
    scale_free = True
    barriers = frozenset({Barrier.STEP})

    def assign(self, problem: Problem) -> Assignment:
        return RoundRobin().assign(problem) if problem.total.max(initial=0) > 1000 else LPT().assign(problem)


@dataclass(frozen=True)
class CountsItsCalls(Balancer):
    """Alternates between two plans: state, which a frozen dataclass should not have."""

    def assign(self, problem: Problem) -> Assignment:
        CALLS.append(1)
        shift = np.int32(len(CALLS) % 2)
        return Assignment((round_robin(problem) + shift) % np.int32(problem.grid.n_cells))


CALLS: list[int] = []


class HidesItsParameter(Balancer):
    """No dataclass: its text does not say what it is."""

    def __init__(self, shift: int) -> None:
        object.__setattr__(self, "shift", shift)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HidesItsParameter) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return 0

    def assign(self, problem: Problem) -> Assignment:
        return Assignment(round_robin(problem))


@dataclass(frozen=True)
class RefusesEverything(Balancer):
    def refusal(self, problem: Problem) -> str | None:
        return "it is tired"

    def assign(self, problem: Problem) -> Assignment:
        raise NotImplementedError


@dataclass(frozen=True)
class CrashesWhenAsked(Balancer):
    def refusal(self, problem: Problem) -> str | None:
        return f"load {problem.loads[0]} is too large"  # there may be none

    def assign(self, problem: Problem) -> Assignment:
        return RoundRobin().assign(problem)


@dataclass(frozen=True)
class MutatesWhenAsked(Balancer):
    def refusal(self, problem: Problem) -> str | None:
        problem.loads.flags.writeable = True
        problem.loads[:1] += 1
        problem.loads.flags.writeable = False
        return super().refusal(problem)

    def assign(self, problem: Problem) -> Assignment:
        return RoundRobin().assign(problem)


@dataclass(frozen=True)
class ChangesItsMind(Balancer):
    def refusal(self, problem: Problem) -> str | None:
        CALLS.append(1)
        return "not every time" if len(CALLS) % 2 else super().refusal(problem)

    def assign(self, problem: Problem) -> Assignment:
        return RoundRobin().assign(problem)


@dataclass(frozen=True)
class Crashes(Balancer):
    def assign(self, problem: Problem) -> Assignment:
        raise KeyError("lost")


BROKEN: dict[Balancer, str] = {
    DropsAPack(): "every_pack_once",
    LeavesTheGrid(): "every_pack_once",
    IgnoresCounts(): "counts_respected",
    BoastsOfABound(): "cost_recomputed",
    BelievesInLPT(): "not_below_bound",
    ClaimsAnOptimum(): "cost_recomputed",
    OverlooksStages(): "every_pack_once",
    OverlooksPairs(): "counts_respected",
    ReturnsAnArray(): "every_pack_once",
    CountsCores(): "same_in_any_process",
    ReadsTheClock(): "same_again",
    StopsByTheClock(): "same_in_any_process",
    UsesGlobalRandom(): "same_again",
    SeedsGlobalRandom(): "same_again",
    DependsOnSetOrder(): "same_in_any_process",
    UsesAnUnstableSort(): "same_in_any_process",
    MutatesItsInput(): "input_untouched",
    DislikesAnOrder(): "relabelling_harmless",
    DislikesLargeLoads(): "scaling_scales",
    CountsItsCalls(): "same_again",
    HidesItsParameter(3): "repr_parses",
    RefusesEverything(): "every_pack_once",
    CrashesWhenAsked(): "refusal_tells",
    MutatesWhenAsked(): "refusal_tells",
    ChangesItsMind(): "refusal_tells",
    Crashes(): "every_pack_once",
}
"""Balancer -> the check that must catch it."""
