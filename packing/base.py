"""The interface of packers: you write `group`, the base does the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from .algorithm import Algorithm
from .arrays import Int32, Int64, as_int
from .errors import CannotServe, InvalidGroups, InvalidParameter
from .packs import Packing
from .policies import Cut, Pieces, cut
from .samples import Limits, LimitsLike, Samples, SamplesLike
from .targets import missing_target, soft_amounts

__all__ = ["Packer"]


@dataclass(frozen=True)
class Packer(Algorithm, ABC):
    """Decides which samples meet in a pack. Subclasses are frozen dataclasses of plain parameters."""

    cuts: ClassVar[bool] = False  # whether it cuts samples that would fit in a pack

    @abstractmethod
    def group(self, pieces: Pieces) -> Int32:
        """Return the pack of every piece, (n_pieces,): numbers 0, 1, 2, ... without gaps, within ``pieces.caps``."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns that ``pieces.soft`` holds: names of the samples' columns, or "tokens_squared" for attention.

        A packer that evens amounts out declares a field of this name.
        """
        return ()

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        """Return why this packer cannot serve these limits, or None if it can."""
        return None

    @final
    def reason_against(self, samples: Samples, limits: Limits) -> str | None:
        """Return why `pack` would refuse these samples and limits, or None."""
        return missing_target(samples, self.targets) or self.refusal(samples, limits)

    def cut(self, samples: Samples, limits: Limits) -> Cut:
        """Return the pieces to pack: samples, and what the policies make of them. Only a packer that ``cuts`` has
        another answer."""
        return cut(samples, limits)

    def slots(self, pieces: Pieces, pack_of: Int32, n_packs: int) -> Int64:
        """Return the tokens paid for each pack, (n_packs,): its capacity."""
        return np.full(n_packs, pieces.caps[0], dtype=np.int64)

    def urgency(self, packing: Packing) -> Int64:
        """Return how ready each pack is, (n_packs,): a stream emits them from the largest number to the smallest, equal
        ones by their own number. By default the fullest first: minus the tokens that are paid for and not used."""
        return packing.tokens - packing.slots

    @final
    def pack(self, samples: SamplesLike, limits: LimitsLike, call: int = 0) -> Packing:
        """Pack ``samples`` (or an array of lengths) within ``limits`` (or a capacity); isolated samples come first.

        ``call`` numbers the calls on one stream of samples, so that a seeded packer draws anew in each.
        Raises `CannotServe`, `Oversized`, `CannotCut` or `InvalidLimits` before any work.
        """
        samples, limits = Samples.of(samples), Limits.of(limits)
        call = as_int("call", call, InvalidParameter, least=0)
        reason = self.reason_against(samples, limits)
        if reason is not None:
            raise CannotServe(f"{self!r} cannot serve {limits!r}: {reason}")
        parts = self.cut(samples, limits)
        return self._packing(samples, limits, parts, call)

    def _packing(self, samples: Samples, limits: Limits, parts: Cut, call: int) -> Packing:
        alone, n_alone = parts.alone, len(parts.alone)
        others = np.delete(np.arange(len(parts.sizes)), alone) if n_alone else None
        together = slice(None) if others is None else others
        soft = soft_amounts(samples, parts, self.targets)
        pieces = Pieces(parts.sizes[together], parts.caps, soft[together], call)
        pieces.sizes.flags.writeable = pieces.caps.flags.writeable = pieces.soft.flags.writeable = False
        pack_of, offsets, members = self._checked(np.asarray(self.group(pieces)), pieces)
        slots = self.slots(pieces, pack_of, len(offsets) - 1)
        if others is not None:
            members = np.concatenate([alone, others[members]])
            offsets = np.concatenate([np.arange(n_alone), n_alone + offsets])
            slots = np.concatenate([parts.sizes[alone, 0], slots])
        return Packing(
            samples,
            limits,
            offsets,
            members if parts.kept is None else parts.kept[members],
            None if parts.start is None else parts.start[members],
            None if parts.stop is None else parts.stop[members],
            slots,
            parts.left_over,
        )

    def _checked(self, pack_of: NDArray[np.integer], pieces: Pieces) -> tuple[Int32, Int64, Int64]:
        """Return a packer's answer as int32, where each pack begins, and its pieces; `InvalidGroups` if it breaks the
        contract."""
        from .counting import members_and_sums

        n = len(pieces.sizes)
        if pack_of.shape != (n,) or pack_of.dtype.kind not in "iu":
            raise InvalidGroups(
                f"{self!r} must return one integer per piece, shape ({n},); got {pack_of.dtype}, shape {pack_of.shape}."
            )
        least, most = (int(pack_of.min()), int(pack_of.max())) if n else (0, -1)
        if least < 0 or most >= n:
            raise InvalidGroups(f"{self!r} must number packs 0, 1, 2, ...; got {least} to {most}.")
        checked = pack_of.astype(np.int32, copy=False)
        members = np.empty(n, dtype=np.int64)
        offsets, used = members_and_sums(checked, most + 1, pieces.sizes, int(pieces.caps[0]), members)
        counts = np.diff(offsets)
        if not counts.all():
            raise InvalidGroups(f"{self!r} left pack {int(np.argmin(counts))} of {most + 1} empty.")
        if (used > pieces.caps).any():
            p, k = (int(i) for i in np.argwhere(used > pieces.caps)[0])
            raise InvalidGroups(
                f"{self!r} put {used[p, k]} into pack {p}; limit {k} of {len(pieces.caps)} is {pieces.caps[k]}."
            )
        return checked, offsets, members
