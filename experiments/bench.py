"""How does the time of packers and balancers grow with the number of packs, and how far is it from sorting alone?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from time import perf_counter_ns
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from balancers import (
    LPT,
    Auto,
    Balancer,
    Barrier,
    Cap,
    Counts,
    Grid,
    Iterated,
    KarmarkarKarp,
    ListScheduling,
    MinimumBinSlack,
    Multifit,
    Problem,
    Prove,
    Refine,
    SlackLPT,
    Together,
    Zigzag,
)
from packing import BestFit, BestFitDecreasing, FirstFit, FirstFitDecreasing, Limits, NextFit, Packer, Packing, Samples
from packing.arrays import Int64

__all__ = ["QUICK", "Bench", "Timing", "time_algorithms"]

T = TypeVar("T")
R = TypeVar("R")

CAPACITY = 8192
ENOUGH_US = 500_000  # time spent on repeating one measurement
MOST_REPEATS = 5
TINY = 64  # packs or samples to compile with


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What is timed at which sizes, each twice the one before."""

    packers: tuple[Packer, ...] = (NextFit(), FirstFit(), FirstFitDecreasing(), BestFit(), BestFitDecreasing())
    balancers: tuple[Balancer, ...] = (Zigzag(), LPT(), KarmarkarKarp(), Auto())
    n_samples: tuple[int, ...] = (125_000, 250_000, 500_000, 1_000_000)
    n_packs: tuple[int, ...] = (16_384, 32_768, 65_536, 131_072)
    packs_per_rank: int = 8
    n_ranks: tuple[int, ...] = (32, 64, 128)  # of the grid with micro-steps
    n_micro_steps: int = 8
    packs_per_cell: int = 4
    thorough: tuple[Balancer, ...] = (SlackLPT(), Multifit(), MinimumBinSlack(), Refine(), Iterated(), Prove(), Auto())
    constrained: tuple[Balancer, ...] = (ListScheduling(), Auto())
    n_few: tuple[int, ...] = (512, 1_024, 2_048)  # packs for the last two
    seed: int = 0

    @property
    def n_timings(self) -> int:
        """Number of timings if no balancer refuses."""
        planning = len(LOADS) * len(COUNTS) * len(self.n_packs) + len(self.n_ranks)
        few = (len(self.thorough) + len(self.constrained) * len(CONSTRAINED)) * len(self.n_few)
        return len(self.packers) * len(self.n_samples) + len(self.balancers) * planning + few


QUICK = Bench(n_samples=(10_000, 20_000, 40_000), n_packs=(1_024, 2_048, 4_096), n_ranks=(8, 16), n_few=(256, 512))


@dataclass(frozen=True)
class Timing:
    """One algorithm at one size. ``us``: best of a few runs. ``growth``: time / time at half the size.

    ``sorts``: time / time of `numpy.sort` on the same int64 array. ``quality``: fill of packers (1 is perfect, more is
    better), cost / lower bound of balancers (1 is perfect, less is better).
    """

    case: str
    algorithm: str
    n: int
    us: float
    growth: float | None
    sorts: float
    quality: float


class _Job(NamedTuple, Generic[T, R]):
    """``run(prepare())`` does the work once, ``judge`` tells the quality of what it returns; only ``run`` is timed."""

    values: Int64
    prepare: Callable[[], T]
    run: Callable[[T], R]
    judge: Callable[[R], float]


def time_algorithms(config: Bench = Bench()) -> Iterator[Timing]:
    """Yield the timings: packers on long-tailed lengths, then balancers on each kind of loads, counts and barrier."""
    for packer in config.packers:
        yield from _timings("packing", repr(packer), config.n_samples, partial(_packing, packer, config.seed))
    for kind, loads in LOADS.items():
        for counts in COUNTS:
            for balancer in config.balancers:
                make = partial(_step, balancer, config, loads, counts)
                yield from _timings(f"step, {kind}, {counts.value}", repr(balancer), config.n_packs, make)
    sizes = [n_ranks * config.n_micro_steps * config.packs_per_cell for n_ranks in config.n_ranks]
    grid = f"{config.n_ranks[-1]} x {config.n_micro_steps} x {config.packs_per_cell}"
    for balancer in config.balancers:
        yield from _timings(f"micro-steps, {grid}", repr(balancer), sizes, partial(_micro_steps, balancer, config))
    for balancer in config.thorough:
        make = partial(_step, balancer, config, _lognormal, Counts.FREE)
        yield from _timings("step, few lognormal, free", repr(balancer), config.n_few, make)
    for case, problem in CONSTRAINED.items():
        for balancer in config.constrained:
            yield from _timings(
                case, repr(balancer), config.n_few, partial(_constrained, balancer, config.seed, problem)
            )


def _timings(
    case: str, algorithm: str, sizes: Sequence[int], make: Callable[[int], _Job[T, R] | None]
) -> Iterator[Timing]:
    tiny = make(TINY)
    if tiny is None:
        return
    tiny.run(tiny.prepare())  # compiles
    before: float | None = None
    for n in sizes:
        job = make(n)
        if job is None:
            return
        us, quality = _best(job)
        sort_us, _ = _best(_Job(job.values, job.values.copy, np.sort, len))
        yield Timing(case, algorithm, n, us, us / before if before else None, us / sort_us, quality)
        before = us


def _best(job: _Job[T, R]) -> tuple[float, float]:
    """Return the shortest time in microseconds and the quality; longer runs are repeated less."""
    best, spent, quality = inf, 0.0, 0.0
    for _ in range(MOST_REPEATS):
        prepared = job.prepare()
        start = perf_counter_ns()
        answer = job.run(prepared)
        us = (perf_counter_ns() - start) / 1000
        quality = job.judge(answer)
        del answer  # its memory is free for the next run
        best, spent = min(best, us), spent + us
        if spent > ENOUGH_US:
            break
    return best, quality


def _packing(packer: Packer, seed: int, n_samples: int) -> _Job[Samples, Packing]:
    lengths = _lognormal(np.random.default_rng(seed), n_samples).clip(16, CAPACITY)
    samples, limits = Samples(lengths), Limits(CAPACITY)
    return _Job(lengths, lambda: samples, lambda each: packer.pack(each, limits), lambda packing: packing.fill)


def _step(
    balancer: Balancer, config: Bench, loads: Callable[..., Int64], counts: Counts, n_packs: int
) -> _Job[Problem, float] | None:
    grid = Grid(n_packs // config.packs_per_rank, counts=counts)
    return _planning(balancer, loads(np.random.default_rng(config.seed), n_packs), grid)


def _micro_steps(balancer: Balancer, config: Bench, n_packs: int) -> _Job[Problem, float] | None:
    n_ranks = max(n_packs // (config.n_micro_steps * config.packs_per_cell), 1)
    grid = Grid(n_ranks, config.n_micro_steps, Barrier.MICRO_STEP, Counts.EQUAL)
    return _planning(balancer, _lognormal(np.random.default_rng(config.seed), n_packs), grid)


def _planning(balancer: Balancer, loads: Int64, grid: Grid) -> _Job[Problem, float] | None:
    """Return the job of one plan; every run gets a fresh problem, without cached orders. None: the balancer refuses."""
    if balancer.refusal(Problem(loads, grid)) is not None:
        return None
    return _Job(loads, lambda: Problem(loads, grid), lambda problem: balancer.plan(problem).gap, _above_bound)


def _constrained(
    balancer: Balancer, seed: int, make: Callable[[np.random.Generator, int], Problem], n_packs: int
) -> _Job[Problem, float]:
    problem = make(np.random.default_rng(seed), n_packs)
    return _Job(problem.total, lambda: replace(problem), lambda problem: balancer.plan(problem).gap, _above_bound)


def _above_bound(gap: float) -> float:
    return 1 + gap


def _capped(rng: np.random.Generator, n: int) -> Problem:
    """Four packs to a cell, a tenth more room for tokens than there are."""
    tokens = rng.integers(100, 4000, n)
    cap = Cap("tokens", tokens, int(tokens.sum()) * 11 // (10 * (n // 4)))
    return Problem(_image_us(rng, n), Grid(n // 32, 8), constraints=[cap])


def _grouped(rng: np.random.Generator, n: int) -> Problem:
    """Eight answers to a prompt stay together, 32 packs to a rank."""
    group = rng.permutation(np.arange(n) // 8)
    return Problem(_lognormal(rng, n), Grid(n // 32, counts=Counts.EQUAL), constraints=[Together(group)])


def _slow(rng: np.random.Generator, n: int) -> Problem:
    """Every eighth rank takes half as long again."""
    slowdown = tuple(1500 if rank % 8 == 7 else 1000 for rank in range(n // 8))
    return Problem(_image_us(rng, n), Grid(n // 8, counts=Counts.EQUAL, slowdown=slowdown))


def _staged(rng: np.random.Generator, n: int) -> Problem:
    """One pack to a cell of eight micro-steps; where there are more images, the language model has less to do."""
    vision = _image_us(rng, n)
    language = 900_000 - vision // 6 + rng.integers(0, 50_000, n)
    grid = Grid(n // 8, 8, Barrier.STAGE, Counts.EQUAL, ("vision", "language"))
    return Problem(np.stack([vision, language], axis=1), grid)


def _lognormal(rng: np.random.Generator, n: int) -> Int64:
    return rng.lognormal(6.5, 1.0, n).astype(np.int64)


def _image_tokens(rng: np.random.Generator, n: int) -> Int64:
    """Half of the packs hold no image, the others a few tiles of 256 tokens."""
    return 256 * rng.geometric(0.2, n).clip(max=24) * (rng.random(n) < 0.5)


def _image_us(rng: np.random.Generator, n: int) -> Int64:
    return 60_000 + 280 * _image_tokens(rng, n)


CONSTRAINED = {
    "step, tokens capped": _capped,
    "step, groups together": _grouped,
    "step, slow ranks": _slow,
    "micro-steps, stages": _staged,
}
LOADS = {"lognormal": _lognormal, "image tokens": _image_tokens}
COUNTS = (Counts.EQUAL, Counts.FREE)
