"""What packs cost the vision encoder, how much that varies, and how long ranks wait for the slowest one."""

from __future__ import annotations

import numpy as np

from balancers import Balancer, Grid, Linear, Problem
from packing.arrays import Int64

__all__ = ["VISION_ENCODER", "full_steps", "mean_waste", "shuffled_loads", "variation"]

VISION_ENCODER = Linear(fixed_us=60_000, image_tokens=280)  # forward time of a pack: 60 ms + 0.28 ms per image token


def variation(amounts: Int64) -> float:
    """Return standard deviation / mean; 0.0 where there is nothing."""
    return float(amounts.std() / amounts.mean()) if amounts.any() else 0.0


def shuffled_loads(image_tokens: Int64, seed: int) -> Int64:
    """Return the loads of packs with these ``image_tokens``, (n_packs,), in random order."""
    return VISION_ENCODER.loads(
        {"image_tokens": image_tokens[np.random.default_rng(seed).permutation(len(image_tokens))]}
    )


def full_steps(loads: Int64, grid: Grid) -> Int64:
    """Return the loads of all full steps (or windows of steps) of one pack per cell, (n, n_cells), as they come."""
    return loads[: len(loads) // grid.n_cells * grid.n_cells].reshape(-1, grid.n_cells)


def mean_waste(loads: Int64, grid: Grid, balancer: Balancer) -> float | None:
    """Return the mean waste over full steps; None where there is none."""
    wastes = [balancer.plan(Problem(step, grid)).waste for step in full_steps(loads, grid)]
    return float(np.mean(wastes)) if wastes else None
