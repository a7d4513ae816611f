"""Packing under several hard budgets at once: tokens, images, samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from .arrays import Int32, Int64, descending_order
from .base import Packer
from .best_fit import capacity_refusal
from .decreasing import best_fit_decreasing, decreasing
from .errors import InvalidParameter
from .kernels import first_fit
from .policies import Pieces
from .samples import Limits, Samples
from .vector_kernels import DOT_PRODUCT, SHORTEST_REST, bin_centric, bounded_first_fit, vector_fit

__all__ = ["VectorBestFitDecreasing", "VectorDotProduct", "VectorFirstFit", "VectorFirstFitDecreasing"]

UNIT = 2**20  # a limit in integer units: sizes of different kinds become comparable
LOOKED_AT = 64  # packs with room that best fit chooses from
CLASSES = 2**9  # at most about so many classes of alike pieces

MEASURES: Mapping[str, Callable[[Int64], Int64]] = {
    "sum": lambda shares: shares.sum(axis=1),
    "max": lambda shares: shares.max(axis=1),
    "product": lambda shares: np.rint(np.prod(shares / UNIT, axis=1) * UNIT).astype(np.int64),
    "norm": lambda shares: (shares * shares).sum(axis=1),
}


@dataclass(frozen=True)
class VectorFirstFitDecreasing(Packer):
    """Pieces from largest to smallest, each into the lowest-numbered pack that keeps every limit. Also: FFDSum, FFDMax.

    ``measure`` of a piece, its sizes being shares of the limits: "max", the largest share; "sum" of the shares, in
    which a limit weighs as much as all samples together need of it; "product" of the shares; "norm", their length.
    Guarantee: at most (k + 0.7) OPT packs and a constant for k limits, that of first fit (Garey et al. 1976). Where one
    limit alone is drawn on it is `FirstFitDecreasing`. About O(n log n); O(n x packs) where packs have room
    for each limit of a piece but never for all. Ties: lower piece.
    """

    measure: str = "max"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_measure(self)

    def group(self, pieces: Pieces) -> Int32:
        return _decreasing(pieces, self.measure, partial(decreasing, first_fit), 1)


@dataclass(frozen=True)
class VectorBestFitDecreasing(Packer):
    """As `VectorFirstFitDecreasing`, but into that of the first 64 packs with room which is left with the least.

    The least: the sum of what is left of each limit, in shares of it. Where one limit alone is drawn on it is
    `BestFitDecreasing`, over all packs. About O(n (log n + 64)), at worst as above. Ties: lower piece, lower pack.
    """

    measure: str = "max"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_measure(self)

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return capacity_refusal(limits, "VectorFirstFitDecreasing")

    def group(self, pieces: Pieces) -> Int32:
        return _decreasing(pieces, self.measure, best_fit_decreasing, LOOKED_AT)


@dataclass(frozen=True)
class VectorDotProduct(Packer):
    """One pack after the other, always the piece whose sizes go best with the room that is left. Also: bin-centric.

    ``rule`` "dot": the largest dot product of sizes and room (Panigrahy et al. 2011); "rest": the shortest vector of
    room that remains, L2. Sizes and room are shares of the limits. Pieces are sorted into some 500 classes of alike
    sizes, and the largest and smallest of each are looked at: O(500 n) instead of O(n^2). Ties: class of smaller
    sizes, larger piece.
    """

    rule: str = "dot"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule not in ("dot", "rest"):
            raise InvalidParameter(f'VectorDotProduct(rule=...) must be "dot" or "rest"; got {self.rule!r}.')

    def group(self, pieces: Pieces) -> Int32:
        sizes, caps = _that_matter(pieces)
        shares = _shares(sizes, caps)
        steps = max(int(CLASSES ** (1 / sizes.shape[1])), 2)
        kind = np.zeros(len(sizes), dtype=np.int64)
        for share in shares.T:
            kind = kind * steps + np.minimum(share * steps // UNIT, steps - 1)
        order = descending_order(shares.sum(axis=1))
        order = order[np.argsort(kind[order], kind="stable")]
        first = np.flatnonzero(np.diff(kind[order], prepend=-1, append=steps ** sizes.shape[1]))
        pack_of = np.empty(len(sizes), dtype=np.int32)
        rule = DOT_PRODUCT if self.rule == "dot" else SHORTEST_REST
        pack_of[order] = bin_centric(np.ascontiguousarray(sizes[order]), caps, _units(caps), first, rule)
        return pack_of


@dataclass(frozen=True)
class VectorFirstFit(Packer):
    """Each piece, in input order, into the first of ``open_packs`` packs that keeps every limit. On-line.

    If none does, the fullest one closes for a new one. Guarantee: none. O(n x open_packs) time. Ties: the pack opened
    first.
    """

    open_packs: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.open_packs) is not int:
            raise InvalidParameter(f"VectorFirstFit(open_packs=...) must be an integer; got {self.open_packs!r}.")
        if self.open_packs < 1:
            raise InvalidParameter(f"VectorFirstFit(open_packs=...) must be >= 1; got {self.open_packs}.")

    def group(self, pieces: Pieces) -> Int32:
        sizes, caps = _that_matter(pieces)
        return bounded_first_fit(sizes, caps, _units(caps), min(self.open_packs, len(sizes)))


def _decreasing(pieces: Pieces, measure: str, of_one: Callable[[Int64, int], Int32], looked_at: int) -> Int32:
    """``of_one``: what packs pieces of a single limit."""
    sizes, caps = _that_matter(pieces)
    if len(caps) == 1:
        return of_one(np.ascontiguousarray(sizes[:, 0]), int(caps[0]))
    shares = _shares(sizes, caps)
    if measure == "sum":
        needs = shares.sum(axis=0) // max(len(shares), 1)  # a limit that is in demand weighs more
        shares = shares * needs // UNIT
    order = descending_order(MEASURES[measure](shares))
    pack_of = np.empty(len(sizes), dtype=np.int32)
    pack_of[order] = vector_fit(np.ascontiguousarray(sizes[order]), caps, _units(caps), looked_at)
    return pack_of


def _that_matter(pieces: Pieces) -> tuple[Int64, Int64]:
    """Return sizes and caps without the budgets that no piece draws on; tokens always stay."""
    matter = np.flatnonzero(pieces.sizes.max(axis=0, initial=0) >= np.minimum(np.arange(len(pieces.caps)), 1))
    return np.ascontiguousarray(pieces.sizes[:, matter]), pieces.caps[matter]


def _shares(sizes: Int64, caps: Int64) -> Int64:
    """Return sizes as shares of the limits, in units of 1 / UNIT, (n, k)."""
    shares: Int64 = np.rint(sizes / np.maximum(caps, 1) * UNIT).astype(np.int64)
    return shares


def _units(caps: Int64) -> Int64:
    """Return what one of each limit's amounts weighs, (k,): all of a limit weighs the same, up to 2**62 / k,
    so that sums stay in int64."""
    units: Int64 = np.maximum(2**62 // len(caps) // np.maximum(caps, 1), 1)
    return units


def _check_measure(packer: VectorFirstFitDecreasing | VectorBestFitDecreasing) -> None:
    if packer.measure not in MEASURES:
        raise InvalidParameter(
            f"{type(packer).__name__}(measure=...) must be one of {', '.join(MEASURES)}; got {packer.measure!r}."
        )
