"""Why do packs under a hard image budget stay empty, and what reaches the same evenness without one?

Padding wastes half of the tokens, packing in one dimension hardly any; a budget for image tokens gives that back, for
one of two reasons: it is below what the samples need, or the packer is too simple. Even packing needs no budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from balancers import Auto, Counts, Grid, RoundRobin
from packing import (
    BestFitDecreasing,
    Buffered,
    EvenPacking,
    Limits,
    NextFit,
    Oversize,
    Packer,
    Packing,
    Padded,
    Portfolio,
    Samples,
    VectorBestFitDecreasing,
    VectorDotProduct,
    VectorFirstFit,
    fewest_packs,
)
from packing.arrays import Int64

from .mixtures import MIXTURES, TARGET, mixed
from .waiting import mean_waste, shuffled_loads, variation

__all__ = ["Reproduce", "ReproducedRow", "reproduce"]

PADDED_LENGTHS, BATCH = (1_200, 4_200), 16  # of the padded batches


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """On what: ``files`` for the three families, or else the figures of real sources.

    ``budget``: a hard one of image tokens per pack. ``multiples``: hard budgets of the front, times the mean need.
    """

    files: tuple[Path, ...] = ()
    n_samples: int = 100_000
    seed: int = 0
    capacity: int = 8192
    budget: int = 3_000
    tile: int = 256
    buffers: tuple[int, ...] = (100, 1_000, 5_000)
    multiples: tuple[float, ...] = (1.0, 1.1, 1.25, 1.5, 2.0)
    n_ranks: int = 64
    n_micro_steps: int = 8


@dataclass(frozen=True)
class ReproducedRow:
    """One way to pack one mixture.

    ``budget``: of image tokens per pack, or None. ``alone``: share of samples above it, each of which has a pack of its
    own. ``fill``: real tokens / tokens paid for; ``ceiling``: the most that a proven bound on the packs allows.
    ``cv``: variation of image tokens per pack. ``waste``: share of time that ranks wait at the end of a step, packs in
    random order, as dealt and as planned; None where there is no full step.
    """

    question: str
    mixture: str
    packer: str
    budget: int | None
    alone: float
    fill: float
    ceiling: float
    cv: float
    dealt_waste: float | None = None
    planned_waste: float | None = None


def reproduce(config: Reproduce = Reproduce()) -> Iterator[ReproducedRow]:
    """Yield the rows, question by question."""
    mixtures = dict(MIXTURES)
    chat, both, tiled = (
        mixed(mixtures[name], config.n_samples, config.seed, config.capacity, config.files)
        for name in ("M1", "M2", "M4")
    )
    yield from _padding_and_packing(config, chat, both)
    aligned = config.budget // config.tile * config.tile
    yield from _under_a_budget(config, "a budget below the need", "M1", chat, aligned)
    yield from _under_a_budget(config, "a budget of the mean need", "M2", both, _need(config, both, 1.0))
    for budget in (config.budget, aligned):
        for packer in (NextFit(), VectorDotProduct("rest")):
            yield _row(config, "tiles round a budget down", "M4", tiled, packer, budget)
    for name, samples in (("M1", chat), ("M2", both)):
        yield from _front(config, name, samples)


def _padding_and_packing(config: Reproduce, chat: Samples, both: Samples) -> Iterator[ReproducedRow]:
    for name, samples in (("M1", chat), ("M2", both)):
        middle = (samples.tokens >= PADDED_LENGTHS[0]) & (samples.tokens <= PADDED_LENGTHS[1])
        chosen = _chosen(samples, middle)
        batches = Padded().pack(chosen, Limits(BATCH * PADDED_LENGTHS[1], max_samples=BATCH))
        label = f"padded batches of {BATCH}, {PADDED_LENGTHS[0]:,} to {PADDED_LENGTHS[1]:,} tokens"
        yield ReproducedRow(
            "padding or packing", name, label, None, 0.0, batches.fill, 1.0, variation(_per_pack([batches]))
        )
        flushed = []
        for first in range(0, len(samples), 1_000):
            block = np.zeros(len(samples), dtype=np.bool_)
            block[first : first + 1_000] = True
            flushed.append(BestFitDecreasing().pack(_chosen(samples, block), config.capacity))
        label = "BestFitDecreasing(), flushed every 1,000"
        yield _of(config, "padding or packing", name, samples, label, None, flushed)
        yield _row(config, "padding or packing", name, samples, BestFitDecreasing(), None)


def _under_a_budget(
    config: Reproduce, question: str, name: str, samples: Samples, budget: int
) -> Iterator[ReproducedRow]:
    """Candidates in input order, in growing buffers, and all at once."""
    yield _row(config, question, name, samples, NextFit(), budget)
    for size in config.buffers:
        yield _row(config, question, name, samples, VectorFirstFit(size), budget)
    for size in config.buffers:
        stream = Buffered(VectorBestFitDecreasing(), _limits(config, budget), size)
        label = f"{stream.packer!r}, buffer of {size:,}"
        yield _of(config, question, name, samples, label, budget, [stream.push(samples), stream.flush()])
    for packer in (VectorBestFitDecreasing(), VectorDotProduct("rest")):
        yield _row(config, question, name, samples, packer, budget)


def _front(config: Reproduce, name: str, samples: Samples) -> Iterator[ReproducedRow]:
    """Hard budgets, even packing, and nothing but fill, each with what ranks then wait."""
    question = "what evens packs out"
    for multiple in config.multiples:
        yield _row(config, question, name, samples, Portfolio(), _need(config, samples, multiple), True)
    for packer in (EvenPacking((TARGET,)), EvenPacking((TARGET,), profile="partners"), BestFitDecreasing()):
        yield _row(config, question, name, samples, packer, None, True)


def _row(
    config: Reproduce,
    question: str,
    name: str,
    samples: Samples,
    packer: Packer,
    budget: int | None,
    planned: bool = False,
) -> ReproducedRow:
    packing = packer.pack(samples, _limits(config, budget))
    label = "Portfolio()" if packer == Portfolio() else repr(packer)
    return _of(config, question, name, samples, label, budget, [packing], planned)


def _of(
    config: Reproduce,
    question: str,
    name: str,
    samples: Samples,
    label: str,
    budget: int | None,
    parts: Sequence[Packing],
    planned: bool = False,
) -> ReproducedRow:
    fits = samples.columns[TARGET] <= (config.capacity if budget is None else budget)
    n_alone, kept = int(np.count_nonzero(~fits)), _chosen(samples, fits)
    sizes, caps = np.stack([kept.tokens, kept.columns[TARGET]], axis=1), [config.capacity, budget]
    known = 1 if budget is None else 2
    least = n_alone + fewest_packs(sizes[:, :known], np.array(caps[:known], dtype=np.int64))
    waste: tuple[float | None, ...] = (None, None)
    if planned:
        loads = shuffled_loads(_per_pack(parts), config.seed)
        grid = Grid(config.n_ranks, config.n_micro_steps, counts=Counts.EQUAL)
        waste = tuple(mean_waste(loads, grid, balancer) for balancer in (RoundRobin(), Auto()))
    fill, ceiling = (int(samples.tokens.sum()) / (n * config.capacity) for n in (sum(map(len, parts)), least))
    return ReproducedRow(
        question, name, label, budget, n_alone / len(samples), fill, ceiling, variation(_per_pack(parts)), *waste
    )


def _limits(config: Reproduce, budget: int | None) -> Limits:
    """A sample above the budget gets a pack of its own, and pays for all of it."""
    budgets = () if budget is None else ((TARGET, budget),)
    return Limits(config.capacity, budgets, oversize=Oversize.ISOLATE)


def _need(config: Reproduce, samples: Samples, multiple: float) -> int:
    """Return ``multiple`` x the image tokens of a full pack of average samples, at most the capacity."""
    share = int(samples.columns[TARGET].sum()) / int(samples.tokens.sum())
    return min(round(multiple * share * config.capacity), config.capacity)


def _chosen(samples: Samples, marked: NDArray[np.bool_]) -> Samples:
    return Samples(samples.tokens[marked], {TARGET: samples.columns[TARGET][marked]})


def _per_pack(parts: Sequence[Packing]) -> Int64:
    return np.concatenate([part.sums()[TARGET] for part in parts])
