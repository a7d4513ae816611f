"""Next fit: one open pack."""

from __future__ import annotations

from dataclasses import dataclass

from .arrays import Int32
from .base import Packer
from .kernels import next_fit
from .policies import Pieces

__all__ = ["NextFit"]


@dataclass(frozen=True)
class NextFit(Packer):
    """Keep one pack open; close it when a piece does not fit. On-line, input order kept, any number of budgets.

    Guarantee: at most 2 OPT - 1 packs for one limit (Johnson 1974). O(n) time.
    """

    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces.sizes, pieces.caps)
