"""Best fit: the fullest pack with room."""

from __future__ import annotations

from dataclasses import dataclass

from .arrays import Int32
from .base import Packer
from .decreasing import best_fit_decreasing
from .first_fit import only_tokens
from .kernels import best_fit
from .policies import Pieces
from .samples import Limits, Samples

__all__ = ["BestFit", "BestFitDecreasing"]

LARGEST_CAPACITY = 2**27  # one stack per possible room: 0.6 GB there


@dataclass(frozen=True)
class BestFit(Packer):
    """Each piece, in input order, into the fullest pack with room; of equally full ones the last touched. On-line.

    Guarantee: at most 1.7 OPT packs (Dosa & Sgall 2014). O(n + capacity) time and memory. One limit: the tokens.
    """

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return best_fit_refusal(limits)

    def group(self, pieces: Pieces) -> Int32:
        return best_fit(pieces.sizes[:, 0], int(pieces.caps[0]))


@dataclass(frozen=True)
class BestFitDecreasing(Packer):
    """Best fit over the pieces from longest to shortest, equal ones by index. Also: BFD. The default choice.

    Guarantee: at most 11/9 OPT + 4 packs (Johnson 1974). O(n + capacity) time and memory. One limit: the tokens.
    """

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return best_fit_refusal(limits)

    def group(self, pieces: Pieces) -> Int32:
        return best_fit_decreasing(pieces.sizes[:, 0], int(pieces.caps[0]))


def best_fit_refusal(limits: Limits) -> str | None:
    """Return why best fit cannot serve ``limits``, or None if it can."""
    return capacity_refusal(limits) or only_tokens(limits)


def capacity_refusal(limits: Limits, instead: str = "FirstFitDecreasing") -> str | None:
    """Return why a packer with a stack per room cannot serve so large a capacity, or None; ``instead``: who can."""
    if limits.capacity > LARGEST_CAPACITY:
        return f"its memory grows with the capacity, at most {LARGEST_CAPACITY}. Use {instead}."
    return None
