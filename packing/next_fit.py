"""Next fit: one open pack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import Int32, Int64
from .base import Packer
from .decreasing import decreasing
from .first_fit import only_tokens
from .kernels import next_fit
from .policies import Pieces
from .samples import Limits, Samples

__all__ = ["NextFit", "NextFitDecreasing"]


@dataclass(frozen=True)
class NextFit(Packer):
    """Keep one pack open; close it when a piece does not fit. On-line, input order kept, any number of budgets.

    Guarantee: at most 2 OPT - 1 packs for one limit (Johnson 1974). O(n) time.
    """

    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces.sizes, pieces.caps)


@dataclass(frozen=True)
class NextFitDecreasing(Packer):
    """Next fit over the pieces from longest to shortest, equal ones by index. Also: NFD.

    Guarantee: at most 2 OPT - 1 packs, in the limit 1.691 OPT (Baker & Coffman 1981). O(n) time. One limit: the tokens.
    Packs hold samples of about the same length, which is why it is here; else it is no better than `NextFit`.
    """

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return only_tokens(limits)

    def group(self, pieces: Pieces) -> Int32:
        return decreasing(_next_fit, pieces.sizes[:, 0], int(pieces.caps[0]))


def _next_fit(sizes: Int32 | Int64, capacity: int) -> Int32:
    return next_fit(sizes.astype(np.int64)[:, None], np.array([capacity]))
