"""How close are plans to their proven bounds, how many are proven optimal, and what do they cost in CPU time?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time_ns
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from balancers import LPT, Auto, Balancer, Barrier, Counts, Grid, KarmarkarKarp, Problem
from packing import BestFitDecreasing, InvalidParameter
from packing.arrays import Int64

from .waiting import VISION_ENCODER
from .workload import draw

__all__ = ["CASES", "Case", "Gap", "Gaps", "measure_gaps"]

T = TypeVar("T")

CAPACITY, SAMPLES_PER_PACK = 8192, 7  # the samples drawn have some 1,400 tokens
REPEATS = 5


class Case(NamedTuple):
    """Loads by (seed, number of packs), the grid that they are planned on, and the number of seeds."""

    loads: Callable[[int, int], Int64]
    grid: Grid
    packs_per_cell: int
    n_seeds: int

    def problem(self, seed: int) -> Problem:
        """Return the problem of a seed."""
        return Problem(self.loads(seed, self.packs_per_cell * self.grid.n_cells), self.grid)


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """What is planned by whom."""

    balancers: tuple[Balancer, ...] = (LPT(), KarmarkarKarp(), Auto())
    cases: tuple[str, ...] = ()  # names of `CASES`; none: all

    def __post_init__(self) -> None:
        for name in self.cases:
            if name not in CASES:
                raise InvalidParameter(f'no case "{name}"; there are {"; ".join(CASES)}.')

    @property
    def n_rows(self) -> int:
        """Number of rows: a case and a balancer each."""
        return len(self.cases or CASES) * len(self.balancers)


@dataclass(frozen=True)
class Gap:
    """A balancer on all seeds of a case: cost / bound - 1, the share proven optimal, the fullest rank's total over the
    mean - 1, and the CPU time of a whole `plan()`, best of a few runs, also as a multiple of `numpy.sort`'s."""

    case: str
    balancer: str
    n_seeds: int
    gap_mean: float
    gap_max: float
    proven: float
    totals_max: float
    ms_mean: float
    ms_max: float
    sorts: float


def measure_gaps(config: Gaps = Gaps()) -> Iterator[Gap]:
    """Yield a row per case and balancer; problems are built outside the time, without cached orders or bounds."""
    for name in config.cases or CASES:
        case = CASES[name]
        for balancer in config.balancers:
            balancer.plan(case.problem(0))  # compiles
            gaps, totals, ms, sorts, n_proven = [], [], [], [], 0
            for seed in range(case.n_seeds):
                problem = case.problem(seed)
                plan = balancer.plan(problem)
                gaps.append(plan.gap)
                totals.append(plan.rank_cost * case.grid.n_ranks / int(plan.rank_load.sum()) - 1)
                n_proven += plan.cost == plan.lower_bound
                ms.append(_best_ms([replace(problem) for _ in range(REPEATS)], balancer.plan))
                sorts.append(ms[-1] / _best_ms([problem.loads] * REPEATS, np.sort))
            yield Gap(
                name,
                repr(balancer),
                case.n_seeds,
                float(np.mean(gaps)),
                max(gaps),
                n_proven / case.n_seeds,
                max(totals),
                float(np.mean(ms)),
                max(ms),
                float(np.median(sorts)),
            )


def _best_ms(arguments: Sequence[T], run: Callable[[T], object]) -> float:
    times = []
    for each in arguments:
        begin = process_time_ns()
        run(each)
        times.append(process_time_ns() - begin)
    return max(min(times), 1) / 1e6


def _image_us(seed: int, n: int) -> Int64:
    """Best-fit packs of the default workload, in random order."""
    packing = BestFitDecreasing().pack(draw(SAMPLES_PER_PACK * n, seed=seed).samples, CAPACITY)
    return np.random.default_rng(seed).permutation(VISION_ENCODER.loads(packing.sums()))[:n]


def _lognormal(seed: int, n: int) -> Int64:
    return np.random.default_rng(seed).lognormal(10, 1, n).astype(np.int64)


def _tiles(seed: int, n: int) -> Int64:
    """Half of the packs are empty, the others hold a few tiles of 256 tokens."""
    rng = np.random.default_rng(seed)
    return 256 * rng.geometric(0.2, n) * (rng.random(n) < 0.5)


def _step(n_ranks: int) -> Grid:
    return Grid(n_ranks, counts=Counts.EQUAL)


def _micro_steps(n_ranks: int) -> Grid:
    return Grid(n_ranks, 8, Barrier.MICRO_STEP, Counts.EQUAL)


CASES: Mapping[str, Case] = MappingProxyType(
    {
        "images, 64 x 8": Case(_image_us, _step(64), 8, 20),
        "images, 256 x 16": Case(_image_us, _step(256), 16, 20),
        "images, 1,024 x 8": Case(_image_us, _step(1_024), 8, 20),
        "images, 16,384 x 8": Case(_image_us, _step(16_384), 8, 1),
        "tiles, 16,384 x 8": Case(_tiles, _step(16_384), 8, 3),
        "lognormal, 16,384 x 8": Case(_lognormal, _step(16_384), 8, 3),
        "lognormal, 2,048 x 64": Case(_lognormal, _step(2_048), 64, 3),
        "micro, images, 128 x 8 x 4": Case(_image_us, _micro_steps(128), 4, 20),
        "micro, lognormal, 128 x 8 x 4": Case(_lognormal, _micro_steps(128), 4, 20),
        "micro, images, 1,024 x 8 x 1": Case(_image_us, _micro_steps(1_024), 1, 20),
    }
)
"""By name: equal counts; ranks x packs, or ranks x micro-steps x packs."""
