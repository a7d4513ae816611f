"""The default: what suits the problem, improved until the bound is met or nothing helps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from .base import Balancer
from .complete_karmarkar_karp import CompleteKarmarkarKarp
from .constraints import Cap
from .grid import Barrier, Counts, Grid
from .hill_climb import HillClimb, Relax
from .iterated import Iterated
from .karmarkar_karp import KarmarkarKarp
from .list_scheduling import ListScheduling
from .lpt import LPT
from .minimum_bin_slack import MinimumBinSlack
from .multifit import Multifit
from .peel import Peel
from .plan import Plan
from .portfolio import Portfolio
from .problem import Problem
from .prove import Prove
from .refine import Refine

__all__ = ["Auto"]

SMALL, SMALLER = 32_000_000, 2_000_000  # packs x ranks up to which filling, and differencing, are quick
TINY = (16, 5)  # packs and ranks up to which the complete search usually ends
FEW, FEW_PER_RANK, QUICK_KICKS = 2_048, 6, 100  # kicks matter where packs, and packs to exchange, are few
KICKS, KICKED_PACKS = (300, 2_000), (10_000, 50_000)  # before and after the proof: at most so many, and packs refined
PROOF_STEPS = 70_000_000  # of column generation: about 0.1 s; `Prove` alone takes more


@dataclass(frozen=True)
class Auto(Balancer):
    """Plans what the others are good at; the one to take when you have not compared.

    Equal and bounded counts: the better of `LPT` and `KarmarkarKarp`, each improved by `Refine`; with few packs per
    rank also some kicks of `Iterated`. Free counts: of `LPT` and `MinimumBinSlack`, for fewer packs `Multifit` and
    `KarmarkarKarp` too, each improved; for many `LPT` alone, for a handful `CompleteKarmarkarKarp` first; then kicks,
    `Prove`, and more kicks. Micro-steps with equal counts: the better of `LPT` and `Peel`; with others `Peel` too,
    where it serves them. Constraints and slow ranks: the better of `ListScheduling` and `Relax`, improved by
    `HillClimb`; stages that are waited for one by one: `Relax`, improved so. Caps that cannot bind are left out first.
    A plan at the bound ends the search.

    Guarantee: never worse than any of these on the problem that is left, or than what `HillClimb` starts from (from
    elsewhere it may end lower).
    Time: O(n log n) for equal counts, about 1 ms for 512 packs on 64 ranks.
    Free counts are searched harder, up to 0.1-0.2 s where the bound is not met: ``Refine(LPT())`` takes 2 ms there.
    """

    takes_constraints = takes_slowdown = True

    def assign(self, problem: Problem) -> Plan:
        simplified = _simplified(problem)
        return suited(simplified).plan(simplified)


def _simplified(problem: Problem) -> Problem:
    """Return the problem without caps that cannot bind, and with one barrier where there is only one: STEP, which has
    more to try."""
    grid, most = problem.grid, problem.most_per_cell
    barrier = grid.barrier
    if barrier is Barrier.STAGE and len(grid.stages) == 1:
        barrier = Barrier.MICRO_STEP
    if barrier is Barrier.MICRO_STEP and grid.n_micro_steps == 1:
        barrier = Barrier.STEP
    binding = tuple(each for each in problem.constraints if not isinstance(each, Cap) or each.can_bind(most))
    if barrier is grid.barrier and len(binding) == len(problem.constraints):
        return problem
    return replace(problem, grid=replace(grid, barrier=barrier), constraints=binding)


def suited(problem: Problem) -> Balancer:
    """Return the composition that `Auto` stands for on ``problem``."""
    grid = problem.grid
    if not problem.is_plain:
        start = (ListScheduling(),) if problem.constraints or grid.slowdown else ()
        return HillClimb(Portfolio((*start, Relax(Auto()))))
    return _plainly_suited(grid, problem.n_packs, problem.fewest_per_cell == problem.most_per_cell)


@lru_cache(maxsize=64)  # steps are alike: composing anew, and the text of it, would cost as much as a small plan
def _plainly_suited(grid: Grid, n_packs: int, equal: bool) -> Balancer:
    if grid.barrier is Barrier.MICRO_STEP and equal:
        return Portfolio((LPT(), Peel()))
    peeled: tuple[Balancer, ...] = (Peel(),) if grid.barrier is Barrier.MICRO_STEP else ()
    if grid.counts is not Counts.FREE:
        best = Portfolio((Refine(LPT()), Refine(KarmarkarKarp()), *peeled))
        few = n_packs <= min(FEW, FEW_PER_RANK * grid.n_ranks) and grid.barrier is Barrier.STEP
        return Iterated(best, kicks=QUICK_KICKS) if few else best
    if n_packs * grid.n_ranks > SMALL:
        return Portfolio((Refine(LPT()), *peeled)) if peeled else Refine(LPT())
    starts: tuple[Balancer, ...] = (LPT(), MinimumBinSlack())
    if n_packs * grid.n_ranks <= SMALLER:
        starts += (Multifit(), KarmarkarKarp())
    exact = (CompleteKarmarkarKarp(),) if n_packs <= TINY[0] and grid.n_ranks <= TINY[1] else ()
    best = Portfolio((*exact, *map(Refine, starts), *peeled))
    if grid.barrier is Barrier.MICRO_STEP:
        return best
    if n_packs > FEW:
        return Prove(best, steps=PROOF_STEPS)
    first, then = (min(kicks, packs // max(n_packs, 1)) for kicks, packs in zip(KICKS, KICKED_PACKS, strict=True))
    return Iterated(Prove(Iterated(best, kicks=first), steps=PROOF_STEPS), kicks=then, seed=1)
