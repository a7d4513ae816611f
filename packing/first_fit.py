"""First fit: the lowest-numbered pack with room."""

from __future__ import annotations

from dataclasses import dataclass

from .arrays import Int32
from .base import Packer
from .decreasing import decreasing
from .kernels import first_fit
from .policies import Pieces
from .samples import Limits, Samples

__all__ = ["FirstFit", "FirstFitDecreasing"]


@dataclass(frozen=True)
class FirstFit(Packer):
    """Each piece, in input order, into the lowest-numbered pack with room. On-line.

    Guarantee: at most 1.7 OPT packs (Dosa & Sgall 2013). O(n log n) time, O(n) memory. One limit: the tokens.
    """

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return only_tokens(limits)

    def group(self, pieces: Pieces) -> Int32:
        return first_fit(pieces.sizes[:, 0], int(pieces.caps[0]))


@dataclass(frozen=True)
class FirstFitDecreasing(Packer):
    """First fit over the pieces from longest to shortest, equal ones by index. Also: FFD.

    Guarantee: at most 11/9 OPT + 6/9 packs (Dosa 2007). O(n log n) time, O(n) memory. One limit: the tokens.
    """

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return only_tokens(limits)

    def group(self, pieces: Pieces) -> Int32:
        return decreasing(first_fit, pieces.sizes[:, 0], int(pieces.caps[0]))


def only_tokens(limits: Limits) -> str | None:
    """Return why a packer of one dimension cannot serve ``limits``, or None if it can."""
    if limits.budgets or limits.max_samples is not None:
        return "it knows one limit, the tokens. Use NextFit for budgets and max_samples, or VectorBestFitDecreasing."
    return None
