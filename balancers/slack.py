"""Longest processing time first, by the slack of groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing.arrays import Int64, descending_order

from .base import Balancer
from .cells import bins_of, cells_of
from .grid import Barrier
from .lpt import lpt
from .plan import Assignment
from .problem import Problem

__all__ = ["SlackLPT", "by_slack"]


@dataclass(frozen=True)
class SlackLPT(Balancer):
    """Groups of n_bins packs of similar load, the most uneven group first, each pack into the least loaded bin.

    The sorted packs are cut into groups of n_bins; the slack of a group is its largest load minus its smallest (the
    last group is filled up with zeros). Groups go by falling slack, packs inside by falling load, and each into the
    least loaded bin that still has a place (Della Croce & Scatamacchia 2020, there SLACK). An even group can mend
    nothing and comes late even if it is heavy: on smooth loads with free counts closer than `LPT`, which sorts by load.

    Guarantee: that of list scheduling in any order, cost <= (2 - 1/n_ranks) x optimum for STEP with free counts (Graham
    1966). On heavy tails `LPT` is closer, and with bounded counts often by far: a late group may find the light bins
    full. Counts and micro-steps as in `LPT`. O(n log n) time, O(n) memory. Ties: heavier group, then lower pack, then
    lower bin; packs without load go where the fewest packs are.
    """

    barriers = frozenset({Barrier.STEP, Barrier.MICRO_STEP})
    order_free = scale_free = True

    def assign(self, problem: Problem) -> Assignment:
        bins = bins_of(problem)
        order = by_slack(problem.total, problem.heaviest_first, bins.n_bins)
        return Assignment(cells_of(problem, lpt(problem.total, order, *bins)))


def by_slack(loads: Int64, order: Int64, n_bins: int) -> Int64:
    """Return ``order``, heaviest first, with its groups of ``n_bins`` by falling slack; zero loads stay last."""
    n_loaded = int(np.count_nonzero(loads))
    first = np.arange(0, n_loaded, n_bins)
    falling = np.append(loads[order[:n_loaded]], 0)  # behind the last load there is nothing
    slack = falling[first] - falling[np.minimum(first + n_bins - 1, n_loaded)]
    places = first[descending_order(slack), None] + np.arange(n_bins)
    return np.concatenate([order[places[places < n_loaded]], order[n_loaded:]])
