"""How long do ranks wait for the slowest one under each balancer, and for how many moved bytes?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from time import perf_counter_ns

import numpy as np

from balancers import (
    LPT,
    Auto,
    Balancer,
    Barrier,
    Counts,
    Grid,
    Infeasible,
    KarmarkarKarp,
    LeastMovement,
    Linear,
    Plan,
    Problem,
    RoundRobin,
    Zigzag,
)
from packing import (
    BestFitDecreasing,
    CannotServe,
    EvenstepError,
    InvalidParameter,
    Limits,
    Oversize,
    Packer,
    Packing,
    Samples,
)
from packing.arrays import Int64, as_int

from .waiting import VISION_ENCODER, variation

__all__ = ["Compare", "Comparison", "Dealt", "Measured", "NoFullStep", "Refusal", "Row", "compare_balancers", "deal"]

DEFAULT_BALANCERS: tuple[Balancer, ...] = (
    RoundRobin(),
    Zigzag(),
    LPT(),
    KarmarkarKarp(),
    Auto(),
    LeastMovement(Auto(), tolerance_ppm=10_000),
)
BYTES_PER_TOKEN = 16  # its id and its label, int64 each
BYTES_PER_IMAGE_TOKEN = 28 * 28 * 3 * 2  # the pixels it covers in Qwen-VL, three colours in bf16
FORWARDS_PER_STEP = 3  # the backward pass takes about twice the forward's time


class NoFullStep(EvenstepError, ValueError):
    """Fewer packs than one step takes."""


@dataclass(frozen=True, kw_only=True)
class Compare:
    """What is compared on what. ``packs_per_cell``: packs that a rank takes in one micro-step.

    ``cost`` turns what a pack holds into microseconds of the forward pass; the default is a vision encoder.
    """

    balancers: tuple[Balancer, ...] = DEFAULT_BALANCERS
    packer: Packer = field(default_factory=BestFitDecreasing)
    capacity: int = 8192
    oversize: Oversize = Oversize.ERROR
    n_ranks: int = 64
    n_micro_steps: int = 8
    packs_per_cell: int = 1
    barrier: Barrier = Barrier.STEP
    counts: Counts = Counts.EQUAL
    cost: Linear = VISION_ENCODER
    seed: int = 0

    def __post_init__(self) -> None:
        as_int("packs_per_cell", self.packs_per_cell, InvalidParameter, least=1, most=2**20)
        as_int("seed", self.seed, InvalidParameter, least=0)
        if not self.balancers:
            raise InvalidParameter("there must be at least one balancer to compare.")
        _ = self.grid, self.limits  # raise here what they refuse

    @property
    def grid(self) -> Grid:
        """The cells of a step."""
        return Grid(self.n_ranks, self.n_micro_steps, self.barrier, self.counts)

    @property
    def limits(self) -> Limits:
        """What a pack may hold."""
        return Limits(self.capacity, oversize=self.oversize)

    @property
    def packs_per_step(self) -> int:
        """Packs that fill every cell of a step."""
        return self.grid.n_cells * self.packs_per_cell


@dataclass(frozen=True, eq=False)
class Dealt:
    """Packs in the order in which a data loader gives them out, cut into full steps.

    ``steps``: (n_steps, packs_per_step) pack indices; ``left_over``: packs behind the last full step.
    """

    packing: Packing
    steps: Int64
    left_over: Int64

    @property
    def n_steps(self) -> int:
        """Number of full steps."""
        return len(self.steps)

    @property
    def slots(self) -> int:
        """Tokens paid for in the full steps."""
        return int(self.packing.slots[self.steps].sum())

    @property
    def fill(self) -> float:
        """Real tokens / tokens paid for, of the full steps; 0.0 where there is none."""
        return int(self.packing.tokens[self.steps].sum()) / self.slots if self.slots else 0.0

    def problems(self, config: Compare) -> Iterator[Problem]:
        """Yield one problem per step; pack j of a step has its home in cell j mod n_cells, as round robin deals it."""
        sums = self.packing.sums()
        loads = config.cost.loads(sums)
        image_tokens = sums.get("image_tokens", np.zeros_like(loads))
        n_bytes = BYTES_PER_TOKEN * sums["tokens"] + BYTES_PER_IMAGE_TOKEN * image_tokens
        home = np.arange(self.steps.shape[1]) % config.grid.n_cells
        for step, packs in enumerate(self.steps):
            yield Problem(loads[packs], config.grid, home, n_bytes[packs], step)


@dataclass(frozen=True)
class Measured:
    """What depends on the clock: time of one plan, mean and longest over the steps."""

    plan_us_mean: float
    plan_us_max: float


@dataclass(frozen=True)
class Row:
    """One balancer over all steps. Cost and bound are summed over steps, in microseconds of the forward pass.

    ``step_ms``: predicted time of a step, forward and backward. ``digest``: of the plans of all steps, in order.
    """

    balancer: str
    cost: int
    lower_bound: int
    gap: float
    imbalance: float
    waste: float
    moved_packs: int
    moved_bytes: int
    step_ms: float
    digest: str
    measured: Measured


@dataclass(frozen=True)
class Refusal:
    """A balancer that does not serve what was asked, and why."""

    balancer: str
    reason: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """The answer: a row or a refusal per balancer, in the order asked."""

    config: Compare
    dealt: Dealt
    rows: tuple[Row | Refusal, ...]


def compare_balancers(config: Compare, samples: Samples, advance: Callable[[], object] = lambda: None) -> Comparison:
    """Pack ``samples``, deal the packs to steps and let every balancer plan each step.

    ``advance`` is called after each balancer. Raises `NoFullStep` if there are too few packs for a step.
    """
    dealt = deal(config.packer.pack(samples, config.limits), config.packs_per_step, config.seed)
    if not dealt.n_steps:
        raise NoFullStep(
            f"{len(dealt.packing)} packs are 0 full steps of {config.packs_per_step} ({config.n_ranks} ranks x "
            f"{config.n_micro_steps} micro-steps x {config.packs_per_cell} packs per cell). Give more samples, or "
            f"ask for fewer ranks or micro-steps."
        )
    rows = []
    for balancer in config.balancers:
        rows.append(_row_or_refusal(balancer, dealt, config))
        advance()
    return Comparison(config, dealt, tuple(rows))


def deal(packing: Packing, packs_per_step: int, seed: int) -> Dealt:
    """Shuffle the packs by ``seed`` and cut them into full steps; the rest is left over."""
    order = np.random.default_rng(seed).permutation(len(packing))
    n_full = len(packing) // packs_per_step * packs_per_step
    return Dealt(packing, order[:n_full].reshape(-1, packs_per_step), order[n_full:])


def image_token_cv(packing: Packing) -> float:
    """Standard deviation / mean of the image tokens in a pack: how uneven the packs are; 0.0 without images."""
    return variation(packing.sum_of("image_tokens")) if "image_tokens" in packing.samples.columns else 0.0


def _row_or_refusal(balancer: Balancer, dealt: Dealt, config: Compare) -> Row | Refusal:
    first = next(dealt.problems(config))
    reason = balancer.refusal(first)
    if reason is not None:
        return Refusal(repr(balancer), reason)
    try:
        balancer.plan(first)  # compiles; not counted
        return _row(balancer, dealt.problems(config), config)
    except (CannotServe, Infeasible) as error:
        return Refusal(repr(balancer), str(error))


def _row(balancer: Balancer, problems: Iterable[Problem], config: Compare) -> Row:
    """Plan fresh problems, so that no balancer profits from what another has left in their caches."""
    cost = lower_bound = busy = moved_packs = moved_bytes = 0
    plan_us = []
    digest = blake2b(digest_size=16)
    for problem in problems:
        plan, us = _timed_plan(balancer, problem)
        plan_us.append(us)
        cost += plan.cost
        lower_bound += plan.lower_bound
        busy += int(plan.busy.sum())
        moved_packs += plan.moved_packs or 0
        moved_bytes += plan.moved_bytes or 0
        digest.update(plan.digest().encode())
    return Row(
        balancer=repr(balancer),
        cost=cost,
        lower_bound=lower_bound,
        gap=cost / lower_bound - 1 if lower_bound else 0.0,
        imbalance=config.n_ranks * cost / busy if busy else 1.0,
        waste=1 - busy / (config.n_ranks * cost) if cost else 0.0,
        moved_packs=moved_packs,
        moved_bytes=moved_bytes,
        step_ms=FORWARDS_PER_STEP * cost / len(plan_us) / 1000,
        digest=digest.hexdigest(),
        measured=Measured(sum(plan_us) / len(plan_us), max(plan_us)),
    )


def _timed_plan(balancer: Balancer, problem: Problem) -> tuple[Plan, float]:
    start = perf_counter_ns()
    plan = balancer.plan(problem)
    return plan, (perf_counter_ns() - start) / 1000
