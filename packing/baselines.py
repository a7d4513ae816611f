"""What nobody should use, to measure the others against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import Int32, Int64
from .base import Packer
from .kernels import padded
from .policies import Pieces

__all__ = ["Padded"]


@dataclass(frozen=True)
class Padded(Packer):
    """Batches of samples in input order, each sample padded to the longest of its batch: what plain collation does.

    A batch of c samples pays c x its longest, which stays within the capacity; ``Limits.max_samples`` is the batch
    size. ``Packing.fill`` is the share of real tokens in the padded area. Guarantee: none. O(n) time.
    """

    def group(self, pieces: Pieces) -> Int32:
        return padded(pieces.sizes, pieces.caps)

    def slots(self, pieces: Pieces, pack_of: Int32, n_packs: int) -> Int64:
        longest = np.zeros(n_packs, dtype=np.int64)
        np.maximum.at(longest, pack_of, pieces.sizes[:, 0])
        return longest * np.bincount(pack_of, minlength=n_packs)
