"""How do the partitioning packages of others compare with the balancers that compute the same, on the same loads?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import inf
from time import perf_counter_ns
from types import ModuleType
from typing import TypeAlias, TypeVar

import numpy as np

from balancers import LPT, Auto, Balancer, InvalidPlan, KarmarkarKarp, Multifit, Plan, Problem
from balancers.complete_karmarkar_karp import CompleteKarmarkarKarp
from packing.arrays import Int64

__all__ = ["PATIENCE_US", "PEERS", "Peer", "PeerRow", "SkippedPeer", "best_of", "compare_with_peer"]

T = TypeVar("T")
Parts: TypeAlias = Sequence[Sequence[int]]
Partition: TypeAlias = Callable[[ModuleType, list[int], int], Parts]
Size: TypeAlias = tuple[int, int]  # ranks, packs per rank

ENOUGH_US, MOST_REPEATS = 500_000, 5
PATIENCE_US = 10_000_000  # what is expected to take a peer longer is left out


@dataclass(frozen=True)
class Peer:
    """An algorithm of another package, and the balancer here that computes the same.

    ``partition(package, loads, n_ranks)`` returns the indices of each rank's packs. ``sizes``: small ones first; a
    search that does not end on many packs is given few.
    """

    package: str  # to import, and to install
    algorithm: str
    ours: Balancer
    partition: Partition
    sizes: tuple[Size, ...] = ((64, 8), (256, 16))


@dataclass(frozen=True)
class PeerRow:
    """A peer and ours on the same loads. Ratios are peer / ours and peer / `Auto`: above 1 the peer takes more."""

    package: str
    algorithm: str
    case: str
    ours: str
    peer_us: float
    ours_us: float
    time_ratio: float
    cost_ratio: float
    auto_time_ratio: float
    auto_cost_ratio: float


@dataclass(frozen=True)
class SkippedPeer:
    """A peer without figures, and why. ``case``: empty where it holds for all of them."""

    package: str
    algorithm: str
    case: str
    reason: str


def installed(package: str, algorithm: str) -> ModuleType | SkippedPeer:
    """Return a package, or the row that says that it is not there."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return SkippedPeer(package, algorithm, "", f"pip install {package}")


def compare_with_peer(peer: Peer, seed: int = 0) -> Iterator[PeerRow | SkippedPeer]:
    """Yield a row for each kind of loads and size, with free counts; one row if the peer is not installed.

    All take the loads as a list of integers and give each pack a rank. Times are the best of a few runs, compiling not
    counted; ours include the checks of loads and plan.
    """
    package = installed(peer.package, peer.algorithm)
    if isinstance(package, SkippedPeer):
        yield package
        return
    for kind, draw in LOADS.items():
        us_per_work = 0.0  # at the size before
        for n_ranks, per_rank in peer.sizes:
            case, work = f"{kind} {n_ranks} x {per_rank}", n_ranks * n_ranks * per_rank  # ranks x packs
            if us_per_work * work > PATIENCE_US:
                seconds = us_per_work * work / 1_000_000
                yield SkippedPeer(peer.package, peer.algorithm, case, f"would take about {seconds:,.0f} s")
                break
            loads: list[int] = draw(np.random.default_rng(seed), n_ranks * per_rank).tolist()
            row = _compared(peer, package, case, loads, n_ranks)
            yield row
            if isinstance(row, SkippedPeer):
                break
            us_per_work = row.peer_us / work


def _compared(peer: Peer, package: ModuleType, case: str, loads: list[int], n_ranks: int) -> PeerRow | SkippedPeer:
    parts, peer_us = best_of(lambda: peer.partition(package, loads, n_ranks))
    try:
        cost = _plan(parts, Problem(loads, n_ranks), f"{peer.package} {peer.algorithm}").cost
    except InvalidPlan as error:
        return SkippedPeer(peer.package, peer.algorithm, case, str(error))
    for balancer in (peer.ours, Auto()):
        balancer.plan(Problem(loads, n_ranks))  # compiles; not counted
    ours, ours_us = best_of(lambda: peer.ours.plan(Problem(loads, n_ranks)))
    auto, auto_us = best_of(lambda: Auto().plan(Problem(loads, n_ranks)))
    return PeerRow(
        package=peer.package,
        algorithm=peer.algorithm,
        case=case,
        ours=repr(peer.ours),
        peer_us=peer_us,
        ours_us=ours_us,
        time_ratio=peer_us / ours_us,
        cost_ratio=cost / ours.cost,
        auto_time_ratio=peer_us / auto_us,
        auto_cost_ratio=cost / auto.cost,
    )


def _plan(parts: Parts, problem: Problem, name: str) -> Plan:
    """Return the plan of a peer's answer; raise `InvalidPlan` if it is no partition of the packs."""
    packs = [pack for part in parts for pack in part]
    if sorted(packs) != list(range(problem.n_packs)):
        raise InvalidPlan(f"{name} must give each of {problem.n_packs} packs one rank; it gave {len(packs)}.")
    cell = np.empty(problem.n_packs, dtype=np.int32)
    cell[packs] = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return Plan(problem, cell, name)


def best_of(run: Callable[[], T]) -> tuple[T, float]:
    """Return the answer and the shortest time in microseconds; longer runs are repeated less."""
    best, spent = inf, 0.0
    for _ in range(MOST_REPEATS):
        start = perf_counter_ns()
        answer = run()
        us = (perf_counter_ns() - start) / 1000
        best, spent = min(best, us), spent + us
        if spent > ENOUGH_US:
            break
    return answer, best


def _prtpy(algorithm: str, objective: str | None = None) -> Partition:
    def partition(prtpy: ModuleType, loads: list[int], n_ranks: int) -> Parts:
        options = {} if objective is None else {"objective": getattr(prtpy.obj, objective)}
        parts: Parts = prtpy.partition(
            algorithm=getattr(prtpy.partitioning, algorithm), numbins=n_ranks, items=dict(enumerate(loads)), **options
        )
        return parts

    return partition


def _numberpartitioning(algorithm: str) -> Partition:
    def partition(package: ModuleType, loads: list[int], n_ranks: int) -> Parts:
        parts: Parts = getattr(package, algorithm)(loads, num_parts=n_ranks, return_indices=True).partition
        return parts

    return partition


FEW = ((3, 3), (3, 4))
LOADS: dict[str, Callable[[np.random.Generator, int], Int64]] = {
    "uniform": lambda rng, n: rng.integers(1, 1_000_001, n),
    "lognormal": lambda rng, n: rng.lognormal(10, 1, n).astype(np.int64),
}
PEERS = (
    Peer("prtpy", "greedy", LPT(), _prtpy("greedy")),
    Peer("prtpy", "multifit", Multifit(), _prtpy("multifit")),
    Peer("prtpy", "karmarkar_karp", KarmarkarKarp(), _prtpy("karmarkar_karp")),
    Peer("prtpy", "complete_greedy", CompleteKarmarkarKarp(), _prtpy("complete_greedy", "MinimizeLargestSum"), FEW),
    Peer("prtpy", "complete_karmarkar_karp", CompleteKarmarkarKarp(), _prtpy("complete_karmarkar_karp"), FEW),
    Peer("numberpartitioning", "greedy", LPT(), _numberpartitioning("greedy")),
    Peer("numberpartitioning", "karmarkar_karp", KarmarkarKarp(), _numberpartitioning("karmarkar_karp")),
)
