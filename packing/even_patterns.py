"""How even packs can be when few distinct amounts occur: a bound from the patterns that may fill a pack."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from .arrays import Int64
from .even_floor import Places
from .jit import kernel

__all__ = ["pattern_bound"]

ROUNDS = 60  # of column generation; the bound is proven after any of them


def pattern_bound(units: Int64, places: Places) -> float:
    """Return a lower bound on the sum of squared distances from the mean amount of a pack, in squared units.

    ``units``: (n,) amounts of the samples that are not longer than half a pack; ``places``: what packs can hold.

    Each pack is a multiset of the distinct amounts, added to its long sample if it has one; all samples must be used.
    The Lagrangian of that condition, prices p_c per amount c with N_c samples, is sum N_c p_c + sum over packs of
    min over s of ((s - mean)^2 - the dearest multiset of sum s): a lower bound for any prices, worked out by dynamic
    programming. Prices come from column generation (Gilmore & Gomory 1961) on the linear programme over patterns.
    """
    classes, counts = np.unique(units[units > 0], return_counts=True)
    start, kind, n_of_kind = _kinds(places)
    mean = (int(units.sum()) + int(places.low[: places.n_long].sum())) / len(places.low)
    largest, scale = int(places.high.max()), (mean + 1) ** 2  # the solver fails on costs of many sizes
    prices, worth = np.zeros(len(classes)), np.zeros(len(start))
    columns: list[NDArray[np.float64]] = []
    costs: list[float] = []
    best = 0.0
    for _ in range(ROUNDS):
        value, last = _dearest(classes, prices, largest)
        reduced = np.full(len(start), np.inf)
        grew = False
        for k, (low, high) in enumerate(zip(start, kind, strict=True)):
            sums = np.arange(high - low + 1)
            net = (sums + low - mean) ** 2 - value[: high - low + 1]
            s = int(np.argmin(net))
            reduced[k] = net[s]
            if net[s] < worth[k] - 1e-7 or not columns or len(columns) < len(start):
                columns.append(_column(classes, last, s, k, len(start)))
                costs.append(float((s + low - mean) ** 2) / scale)
                grew = True
        best = max(best, float(counts @ prices + n_of_kind @ reduced))
        if not grew:
            break
        solved = linprog(
            [*costs, *np.full(2 * len(classes), 1e4)],  # the last: samples missing or too many
            A_eq=np.column_stack([*columns, *_slack(len(classes), len(start))]),
            b_eq=[*counts, *n_of_kind],
            method="highs",
        )
        if solved.status != 0:
            break
        prices, worth = np.split(scale * solved.eqlin.marginals, [len(classes)])
    return best


def _kinds(places: Places) -> tuple[Int64, Int64, Int64]:
    """Return least and most of each kind of pack, and how many there are; free packs start empty."""
    low = places.low.copy()
    low[places.n_long :] = 0
    kinds, n_of_kind = np.unique(np.stack([low, places.high], axis=1), axis=0, return_counts=True)
    return kinds[:, 0], kinds[:, 1], n_of_kind


def _column(classes: Int64, last: Int64, s: int, kind: int, n_kinds: int) -> NDArray[np.float64]:
    """Return the counts of each class in the dearest multiset of sum ``s``, and which kind of pack it fills."""
    column = np.zeros(len(classes) + n_kinds)
    while s > 0:
        column[last[s]] += 1
        s -= int(classes[last[s]])
    column[len(classes) + kind] = 1
    return column


def _slack(n_classes: int, n_kinds: int) -> list[NDArray[np.float64]]:
    unit = np.eye(n_classes, n_classes + n_kinds)
    return [*unit, *-unit]


@kernel
def _dearest(classes: Int64, prices: NDArray[np.float64], largest: int) -> tuple[NDArray[np.float64], Int64]:
    """Return the price of the dearest multiset of each sum 0 to ``largest``, -inf if none, and its last class."""
    value, last = np.full(largest + 1, -np.inf), np.full(largest + 1, -1)
    value[0] = 0.0
    for s in range(1, largest + 1):
        for c in range(len(classes)):
            if classes[c] <= s and value[s - classes[c]] + prices[c] > value[s]:
                value[s], last[s] = value[s - classes[c]] + prices[c], c
    return value, last
