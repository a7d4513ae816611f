"""What each pack should hold, when equal packs are not what serves the planner of ranks best."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .arrays import Int32, Int64, descending_order

__all__ = ["PROFILES"]

MARGIN = 0.03  # a sample that holds more than the mean of packs and this share of it makes an outlier


def flat(amounts: Int64, pack_of: Int32, held: Int64) -> Int64:
    """Return 0 for every pack: equal packs. For ranks that get packs as they come, without a planner."""
    return np.zeros_like(held)


def partners(amounts: Int64, pack_of: Int32, held: Int64) -> Int64:
    """Every pack that one sample alone lifts above the mean gets partners which together lack what it has too much.

    A rank that takes an outlier can then be even with the others: the packs that a planner needs beside it are there.
    An outlier's excess goes to one partner, or to several where it exceeds the mean, none of which can hold less than
    nothing. The largest lack goes to the pack with the least. Other packs share what is left equally.
    """
    n_packs, total = len(held), int(held.sum())
    mean = total // max(n_packs, 1)
    outliers = _outliers(amounts, pack_of, held)
    if not mean or not len(outliers):
        return flat(amounts, pack_of, held)
    excess = held[outliers] - mean
    whole, part = np.divmod(excess, mean)
    lacks = np.concatenate([np.full(int(whole.sum()), mean), part[part > 0]])
    others = np.setdiff1d(np.arange(n_packs), outliers)
    lightest = others[np.argsort(held[others], kind="stable")][: len(lacks)]
    aims = np.full(n_packs, mean)
    aims[outliers] = held[outliers]
    aims[lightest] = mean - lacks[descending_order(lacks)][: len(lightest)]
    common = np.setdiff1d(others, lightest)
    if len(common):
        aims[common] += (total - int(aims.sum())) // len(common)
    return aims


def ladder(amounts: Int64, pack_of: Int32, held: Int64) -> Int64:
    """Every eighth pack holds as much as most outliers, the others equally less.

    For a planner that sorts packs into eight micro-steps with a barrier at each: the outliers' micro-step is then full
    of packs like them. Packs in random order get worse by it.
    """
    outliers = _outliers(amounts, pack_of, held)
    n_raised = len(held) // 8
    if not len(outliers) or not n_raised:
        return flat(amounts, pack_of, held)
    heaviest = descending_order(held)
    level = int(np.sort(held[outliers])[(len(outliers) - 1) * 9 // 10])
    aims = np.full(len(held), max((int(held.sum()) - n_raised * level) // (len(held) - n_raised), 0))
    aims[heaviest[:n_raised]] = level
    return aims


PROFILES: Mapping[str, Callable[[Int64, Int32, Int64], Int64]] = {"flat": flat, "partners": partners, "ladder": ladder}


def _outliers(amounts: Int64, pack_of: Int32, held: Int64) -> Int64:
    """Return the packs with a sample well above the mean of ``held``, by number."""
    mean = int(held.sum()) / max(len(held), 1)
    return np.unique(pack_of[amounts > (1 + MARGIN) * mean]).astype(np.int64)
