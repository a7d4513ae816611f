"""Column generation: the strongest bound on the number of packs that is practical, and packings rounded from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Int32, Int64, as_int, as_int64, descending_order
from .base import Packer
from .best_fit import best_fit_refusal
from .errors import InvalidLimits, InvalidParameter, InvalidSamples
from .filling import fill_packs
from .kernels import best_fit
from .pattern_lp import LARGEST_CAPACITY, solve
from .policies import Pieces
from .samples import Limits, Samples

__all__ = ["STEPS", "ColumnGeneration", "Found", "column_generation_bound", "round_patterns"]

STEPS = 1_000_000_000  # about a second
TRIED = 3  # patterns tried in turn, of those that the program takes in part
ROUNDING = 1e-6  # of amounts that should be whole
STEPS_PER_TRY = 200_000  # what an attempt costs beside the program
FILL_NODES = 2_000  # per pack, of what rounding leaves


@dataclass(frozen=True)
class ColumnGeneration(Packer):
    """Solve the linear program over patterns, round it, and go on with what is left. Also: cutting stock, CG, diving.

    The patterns that the program takes whole are fixed; then one of those taken in part is, the one taken most first,
    and the program is solved anew for the pieces left (after Wascher & Gau 1996). Depth first: where the bound of what
    is left allows no packing better than the best, the next pattern is tried, three in all. On the way the pieces left
    are also packed one pack after the other (`filling`). Ends at the bound, or after ``steps``.

    Guarantee: never worse than `BestFitDecreasing`; usually the optimum, up to some hundred pieces. Time: at most about
    ``steps`` nanoseconds, counted; a pivot takes the square of the number of different sizes, and where its cube
    exceeds ``steps`` (1,000 sizes) this is best fit decreasing. Plain loops decide, no solver: the same on every
    machine. For large sets `BestFitDecreasing` comes as close in a fraction of the time. Ties: falling size, then
    index. One limit: the tokens.
    """

    steps: int = STEPS

    def __post_init__(self) -> None:
        super().__post_init__()
        as_int("ColumnGeneration.steps", self.steps, InvalidParameter, least=0)

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return best_fit_refusal(limits)

    def group(self, pieces: Pieces) -> Int32:
        lengths, capacity = pieces.sizes[:, 0], int(pieces.caps[0])
        order = descending_order(lengths)
        falling = lengths[order]
        packed = best_fit(falling, capacity)
        found = round_patterns(falling, capacity, packed, self.steps)
        pack_of = np.empty(len(order), dtype=np.int32)
        pack_of[order] = packed if found.pack_of is None else found.pack_of
        return pack_of


class Found(NamedTuple):
    """``bound``: packs that are needed, proven. ``pack_of`` (n,): a packing better than the one given, if found."""

    bound: int
    pack_of: Int32 | None
    steps_left: int


def column_generation_bound(
    lengths: ArrayLike, capacity: int, *, low: int = 0, high: int | None = None, steps: int = STEPS
) -> int:
    """Return a proven lower bound on the packs of ``capacity`` that pieces of ``lengths``, 1 to capacity, need.

    The bound of Gilmore & Gomory (1961), rounded up; hardly any set is known that needs more than one pack above it.
    Proven in integers (Farley 1990; see `pattern_lp.solve`). The search ends where it is clear that the bound does not
    exceed ``low`` or that it reaches ``high``; within ``steps``, counted. Capacities above 2**30 are scaled down with
    the lengths, which weakens the bound by parts per billion.
    """
    capacity = as_int("capacity", capacity, InvalidLimits, least=1)
    lengths = as_int64("lengths", lengths, InvalidSamples, remedy="Each must fit in a pack of its own.", most=capacity)
    shift = max(capacity.bit_length() - LARGEST_CAPACITY.bit_length() + 1, 0)
    capacity, lengths = capacity >> shift, lengths >> shift  # what fitted still fits
    sizes, counts = _kinds(lengths[lengths > 0])
    most = len(lengths) if high is None else high
    if _hopeless(len(sizes), steps):
        return -(-int(lengths.sum()) // capacity)
    return solve(sizes, counts, capacity, np.zeros((0, len(sizes)), dtype=np.int32), low, most, steps).bound


def round_patterns(falling: Int64, capacity: int, packed: Int32, steps: int, enough: int | None = None) -> Found:
    """Look for a packing of fewer packs than ``packed`` (n,) has, down to the bound. See `ColumnGeneration`.

    With ``enough``, for one of so many packs and no other, or a bound that excludes it.
    """
    best = int(packed.max(initial=-1)) + 1 if enough is None else enough + 1
    low = 0 if enough is None else enough
    sizes, counts = _kinds(falling)
    if _hopeless(len(sizes), steps):
        return Found(-(-int(falling.sum()) // capacity), None, 0)
    bound, found = 0, None
    waiting = [(np.zeros((0, len(sizes)), dtype=np.int32), np.unique(_as_patterns(packed, counts), axis=0))]
    while waiting and steps > 0 and best > max(bound, low):
        fixed, pool = waiting.pop()
        left = counts - fixed.sum(axis=0)
        here = np.flatnonzero(left)  # of the others no piece is left
        pool = np.minimum(pool, left)[:, here]
        solution = solve(sizes[here], left[here], capacity, pool, low - len(fixed), best - len(fixed), steps)
        steps = solution.steps_left - STEPS_PER_TRY
        if len(fixed) == 0:
            bound = solution.bound
        if len(fixed) + solution.bound >= best:
            continue
        patterns = np.zeros((len(here), len(sizes)), dtype=np.int32)
        patterns[:, here] = solution.patterns
        whole = np.floor(solution.amounts + ROUNDING).astype(np.int64)
        fixed = np.concatenate([fixed, np.repeat(patterns, whole, axis=0)])
        left = counts - fixed.sum(axis=0)
        filled = _as_patterns(fill_packs(np.repeat(sizes, left), capacity, FILL_NODES), left)
        if len(fixed) + len(filled) < best:
            best = len(fixed) + len(filled)
            found = _as_packs(np.concatenate([fixed, filled]))
        fraction = solution.amounts - whole
        for pattern in np.argsort(-fraction, kind="stable")[:TRIED][::-1]:
            if fraction[pattern] > ROUNDING:
                waiting.append((np.concatenate([fixed, np.minimum(patterns[pattern], left)[None]]), patterns))
    return Found(bound, found, steps)


def _hopeless(n_sizes: int, steps: int) -> bool:
    """Whether there is nothing to solve, or too much: a pivot takes n_sizes**2, and there are more than n_sizes."""
    return n_sizes == 0 or n_sizes**3 > steps


def _kinds(lengths: Int64) -> tuple[Int64, Int64]:
    """Return the different lengths, falling, and how many pieces have each."""
    sizes, counts = np.unique(lengths, return_counts=True)
    return sizes[::-1].copy(), counts[::-1].copy()


def _as_patterns(pack_of: Int32, counts: Int64) -> Int32:
    """Return how many pieces of each size stand in each pack, (n_packs, n_sizes), of pieces by falling size."""
    patterns = np.zeros((int(pack_of.max(initial=-1)) + 1, len(counts)), dtype=np.int32)
    np.add.at(patterns, (pack_of, np.repeat(np.arange(len(counts)), counts)), 1)
    return patterns


def _as_packs(patterns: Int32) -> Int32:
    """Return the pack of each piece by falling size, (n,): undoes `_as_patterns`."""
    n_packs, n_sizes = patterns.shape
    return np.repeat(np.tile(np.arange(n_packs, dtype=np.int32), n_sizes), patterns.T.ravel())
