"""The stream method: samples end to end, cut wherever a pack is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .arrays import Int32, Int64
from .base import Packer
from .first_fit import only_tokens
from .kernels import next_fit
from .policies import Cut, LeftOver, Pieces, Reason, check_places_known
from .samples import Limits, Samples

__all__ = ["Concatenate"]


@dataclass(frozen=True)
class Concatenate(Packer):
    """Join all samples in input order and cut the stream every capacity tokens. Also: concat and chunk, GPT style.

    Every pack but the last is full, at the price of samples that begin in one pack and end in another, and of images
    cut in two: `Packing.n_cut_samples` and `n_cut_spans` count them. A baseline: use `BestFitDecreasing`, which fills
    99.9 % and cuts nothing. No sample is too long for it, so `Limits.oversize` is not asked. A sample that carries
    amounts of unknown place cannot be cut (`CannotCut`); of images, `Samples.spans` tells the place. O(n) time. One
    limit: the tokens; with alignment the pieces are aligned, and packs end at a multiple of it.
    """

    cuts: ClassVar[bool] = True

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return only_tokens(limits)

    def cut(self, samples: Samples, limits: Limits) -> Cut:
        tokens, align = samples.tokens, limits.align
        length = limits.longest
        footprints = -(-tokens // align) * align
        ends = np.cumsum(footprints)
        begins = ends - footprints
        first = begins // length  # pack
        n_pieces = np.where(tokens > 0, (ends - 1) // length - first + 1, 0)
        remedy = "Give Samples(spans=...) for images, and count the rest in the pieces; or use BestFitDecreasing."
        check_places_known(samples, limits, n_pieces > 1, remedy)
        sample = np.repeat(np.arange(len(samples)), n_pieces)
        pack = np.arange(len(sample)) - (np.cumsum(n_pieces) - n_pieces)[sample] + first[sample]
        start = np.maximum(pack * length - begins[sample], 0)
        stop = np.minimum((pack + 1) * length - begins[sample], tokens[sample])
        sizes: Int64 = -(-(stop - start) // align) * align
        empty = np.flatnonzero(tokens == 0)
        left_over = LeftOver(empty, np.zeros_like(empty), np.full(len(empty), Reason.EMPTY.value, dtype=np.int8))
        return Cut(
            sample,
            start,
            stop,
            sizes[:, None],
            np.array([limits.capacity]),
            np.zeros(0, dtype=np.int64),
            left_over,
        )

    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces.sizes, pieces.caps)  # pieces end where packs do
