"""The interface of packers: you write `group`, the base does the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from .algorithm import Algorithm
from .arrays import Int32, Int64, read_only
from .errors import CannotServe, InvalidGroups
from .packs import Packing
from .policies import Cut, Pieces, cut
from .samples import Limits, LimitsLike, Samples, SamplesLike

__all__ = ["Packer"]


@dataclass(frozen=True)
class Packer(Algorithm, ABC):
    """Decides which samples meet in a pack. Subclasses are frozen dataclasses of plain parameters."""

    @abstractmethod
    def group(self, pieces: Pieces) -> Int32:
        """Return the pack of every piece, (n_pieces,): numbers 0, 1, 2, ... without gaps, within ``pieces.caps``."""

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        """Return why this packer cannot serve these limits, or None if it can."""
        return None

    def slots(self, pieces: Pieces, pack_of: Int32, n_packs: int) -> Int64:
        """Return the tokens paid for each pack, (n_packs,): its capacity."""
        return np.full(n_packs, pieces.caps[0], dtype=np.int64)

    @final
    def pack(self, samples: SamplesLike, limits: LimitsLike, call: int = 0) -> Packing:
        """Pack ``samples`` (or an array of lengths) within ``limits`` (or a capacity); isolated samples come first.

        ``call`` numbers the calls on one stream of samples, so that a seeded packer draws anew in each.
        Raises `CannotServe`, `Oversized`, `CannotCut` or `InvalidLimits` before any work.
        """
        samples, limits = Samples.of(samples), Limits.of(limits)
        reason = self.refusal(samples, limits)
        if reason is not None:
            raise CannotServe(f"{self!r} cannot serve {limits!r}: {reason}")
        parts = cut(samples, limits)
        return self._packing(samples, limits, parts, call)

    def _packing(self, samples: Samples, limits: Limits, parts: Cut, call: int) -> Packing:
        from .kernels import members_by_group

        together = ~parts.alone
        n_alone = len(parts.alone) - int(together.sum())
        pieces = Pieces(parts.sizes if n_alone == 0 else parts.sizes[together], parts.caps, call)
        pieces.sizes.flags.writeable = pieces.caps.flags.writeable = False
        grouped = np.asarray(self.group(pieces))
        n_grouped = self._check(grouped, pieces)
        pack_of = np.empty(len(parts.sample), dtype=np.int32)
        pack_of[parts.alone] = np.arange(n_alone, dtype=np.int32)
        pack_of[together] = grouped + n_alone
        slots = np.concatenate([parts.sizes[parts.alone, 0], self.slots(pieces, grouped, n_grouped)])
        offsets, order = members_by_group(pack_of, n_alone + n_grouped)
        return Packing(
            samples,
            limits,
            read_only(offsets),
            read_only(parts.sample[order]),
            None if parts.start is None else read_only(parts.start[order]),
            None if parts.stop is None else read_only(parts.stop[order]),
            read_only(slots),
            parts.left_over,
        )

    def _check(self, pack_of: NDArray[np.integer], pieces: Pieces) -> int:
        """Verify a packer's answer and return its number of packs; `InvalidGroups` if it breaks the contract."""
        n = len(pieces.sizes)
        if pack_of.shape != (n,) or pack_of.dtype.kind not in "iu":
            raise InvalidGroups(
                f"{self!r} must return one integer per piece, shape ({n},); got {pack_of.dtype}, shape {pack_of.shape}."
            )
        if n == 0:
            return 0
        n_packs = int(pack_of.max()) + 1
        if int(pack_of.min()) < 0 or n_packs > n:
            raise InvalidGroups(f"{self!r} must number packs 0, 1, 2, ...; got {pack_of.min()} to {pack_of.max()}.")
        counts = np.bincount(pack_of, minlength=n_packs)
        if not counts.all():
            raise InvalidGroups(f"{self!r} left pack {int(np.argmin(counts))} of {n_packs} empty.")
        for k, cap in enumerate(pieces.caps):
            used = np.zeros(n_packs, dtype=np.int64)
            np.add.at(used, pack_of, pieces.sizes[:, k])
            if (used > cap).any():
                p = int(np.argmax(used > cap))
                raise InvalidGroups(f"{self!r} put {used[p]} into pack {p}; limit {k} of {len(pieces.caps)} is {cap}.")
        return n_packs
