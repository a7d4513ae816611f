"""How even are full packs, how far from the floor, at what price, and what do ranks wait, with and without a plan?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time_ns

import numpy as np

from balancers import Auto, Barrier, Counts, Grid, RoundRobin
from packing import (
    BestFitDecreasing,
    Buffered,
    EvenPacking,
    Limits,
    Oversize,
    Packer,
    Packing,
    Portfolio,
    Samples,
    evenness_floor,
)
from packing.arrays import Int64

from .mixtures import MIXTURES, TARGET, mixed
from .waiting import VISION_ENCODER, full_steps, mean_waste, shuffled_loads, variation

__all__ = ["Even", "EvenRow", "even_rows"]


@dataclass(frozen=True, kw_only=True)
class Even:
    """What is packed how: ``packers`` by label, one through a buffer, and one under a hard budget.

    ``budget``: of image tokens per pack, times the mean need; a sample above it has a pack of its own.
    ``mixtures``: name, and shares of images in chat, tiled images with questions, and text.
    ``files``: tables of the three families to draw from; none: the figures of real sources.
    """

    mixtures: tuple[tuple[str, tuple[float, ...]], ...] = MIXTURES
    packers: tuple[tuple[str, Packer], ...] = (
        ("best fit", BestFitDecreasing()),
        ("even", EvenPacking((TARGET,))),
        ("even, partners", EvenPacking((TARGET,), profile="partners")),
        ("even, ladder", EvenPacking((TARGET,), profile="ladder")),
        ("even, attention", EvenPacking((TARGET, "tokens_squared"), weight=0.13, rounds=60)),
    )
    streamed: tuple[str, Packer] = ("even, stream", EvenPacking((TARGET,), fill=0.999, rounds=30))
    buffer_size: int = 1_000
    budget: float = 1.1
    files: tuple[Path, ...] = ()
    n_samples: int = 100_000
    capacity: int = 8192
    n_ranks: tuple[int, ...] = (64, 512)
    n_micro_steps: int = 8
    seeds: tuple[int, ...] = (0,)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.mixtures) * len(self.seeds) * (len(self.packers) + 2)


@dataclass(frozen=True)
class EvenRow:
    """One packer on one mixture. ``cv``: variation of image tokens per pack; ``floor``: the least possible for so many
    packs; ``multiple``: cv / floor; ``attention_cv``: that of squared lengths; ``us``: CPU time per sample.
    Waste over steps of equal counts, per number of ranks, packs in random order, None without a full step: ``dealt``:
    one barrier per step, as they come; ``waste``: the same, planned; ``least``: what whole tiles alone force, in any
    packs with as many of them in each step; ``window_waste``: planned two steps at a time, so that packs may change
    between these; ``micro_waste``: a barrier at each micro-step, planned."""

    mixture: str
    seed: int
    packer: str
    fill: float
    cv: float
    floor: float
    multiple: float
    attention_cv: float
    us: float
    dealt: tuple[float | None, ...]
    waste: tuple[float | None, ...]
    least: tuple[float | None, ...]
    window_waste: tuple[float | None, ...]
    micro_waste: tuple[float | None, ...]


def even_rows(config: Even = Even()) -> Iterator[EvenRow]:
    """Yield the rows, mixture by mixture. Compiling is not counted."""
    for name, shares in config.mixtures:
        for seed in config.seeds:
            samples = mixed(shares, config.n_samples, seed, config.capacity, config.files)
            few = Samples(samples.tokens[:2_000], {TARGET: samples.columns[TARGET][:2_000]})
            for label, packer in config.packers:
                packer.pack(few, config.capacity)  # compiles
                start = process_time_ns()
                parts = [packer.pack(samples, config.capacity)]
                yield packed_row(config, name, seed, label, samples, parts, process_time_ns() - start)
            label, packer = config.streamed
            Buffered(packer, config.capacity, config.buffer_size).push(few)
            stream = Buffered(packer, config.capacity, config.buffer_size)
            start = process_time_ns()
            parts = [stream.push(samples), stream.flush()]
            yield packed_row(config, name, seed, label, samples, parts, process_time_ns() - start)
            need = int(samples.columns[TARGET].sum()) / int(samples.tokens.sum()) * config.capacity
            budget = min(round(config.budget * need), config.capacity)
            limits = Limits(config.capacity, ((TARGET, budget),), oversize=Oversize.ISOLATE)
            start = process_time_ns()
            parts = [Portfolio().pack(samples, limits)]
            yield packed_row(config, name, seed, "hard budget", samples, parts, process_time_ns() - start)


def packed_row(
    config: Even, mixture: str, seed: int, packer: str, samples: Samples, parts: Sequence[Packing], ns: int
) -> EvenRow:
    sums = [part.sums() for part in parts]
    held, squares, tokens = (
        np.concatenate([each[key] for each in sums]) for key in (TARGET, "tokens_squared", "tokens")
    )
    floor = evenness_floor(samples.tokens, samples.columns[TARGET], config.capacity, len(held))
    cv = variation(held)
    loads = shuffled_loads(held, seed)
    tile = int(np.gcd.reduce(samples.columns[TARGET]))
    dealt, waste, window_waste, micro_waste = (
        tuple(mean_waste(loads, _grid(config, n_ranks, barrier, n_steps), balancer) for n_ranks in config.n_ranks)
        for balancer, barrier, n_steps in (
            (RoundRobin(), Barrier.STEP, 1),
            (Auto(), Barrier.STEP, 1),
            (Auto(), Barrier.STEP, 2),
            (Auto(), Barrier.MICRO_STEP, 1),
        )
    )
    least = tuple(_least_waste(config, loads, tile, n_ranks) for n_ranks in config.n_ranks)
    fill = int(tokens.sum()) / (len(held) * config.capacity)
    multiple, attention_cv, us = cv / floor if floor else 1.0, variation(squares), ns / 1000 / len(samples)
    wastes = dealt, waste, least, window_waste, micro_waste
    return EvenRow(mixture, seed, packer, fill, cv, floor, multiple, attention_cv, us, *wastes)


def _grid(config: Even, n_ranks: int, barrier: Barrier = Barrier.STEP, n_steps: int = 1) -> Grid:
    return Grid(n_ranks, config.n_micro_steps, barrier, Counts.EQUAL, n_steps=n_steps)


def _least_waste(config: Even, loads: Int64, tile: int, n_ranks: int) -> float | None:
    """Return the mean waste if the tiles of each step were free to go anywhere: some rank has the mean, rounded up."""
    totals = full_steps(loads, _grid(config, n_ranks)).sum(axis=1)
    if not len(totals):
        return None
    fixed, one = (int(each) for each in VISION_ENCODER.loads({TARGET: np.array([0, max(tile, 1)])}))
    fixed_of_rank = fixed * config.n_micro_steps
    n_tiles = -(-(totals - n_ranks * fixed_of_rank) // (n_ranks * (one - fixed)))
    return float(np.mean(1 - totals / n_ranks / (fixed_of_rank + n_tiles * (one - fixed))))
