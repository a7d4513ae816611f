"""Several packers on the same samples: the fewest packs win."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .arrays import Int32, Int64
from .base import Packer
from .bounds import fewest_packs
from .errors import InvalidParameter
from .policies import Pieces
from .samples import Limits, Samples
from .vector import VectorBestFitDecreasing, VectorDotProduct, VectorFirstFitDecreasing

__all__ = ["Portfolio"]


@dataclass(frozen=True)
class Portfolio(Packer):
    """Ask each of ``packers`` in turn and keep the answer with the fewest packs; of equals the first.

    Ends early at `fewest_packs`, a lower bound: then no packer can do better. Never worse than any of them. The default
    suits several budgets. Time: the sum of theirs.
    """

    packers: tuple[Packer, ...] = (
        VectorBestFitDecreasing("max"),
        VectorFirstFitDecreasing("sum"),
        VectorBestFitDecreasing("norm"),
        VectorDotProduct("dot"),
        VectorDotProduct("rest"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.packers, tuple) or not all(isinstance(each, Packer) for each in self.packers):
            raise InvalidParameter(f"Portfolio(packers=...) must be a tuple of packers; got {self.packers!r}.")
        if not self.packers:
            raise InvalidParameter("Portfolio(packers=...) must name at least one packer; got ().")
        for packer in self.packers:
            if packer.cuts:
                raise InvalidParameter(f"Portfolio(packers=...) packs whole samples; {packer!r} cuts them.")

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for packer in self.packers for name in packer.targets))

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        for packer in self.packers:
            reason = packer.refusal(samples, limits)
            if reason is not None:
                return f"{packer!r} cannot: {reason}"
        return None

    def group(self, pieces: Pieces) -> Int32:
        bound = fewest_packs(pieces.sizes, pieces.caps)
        best, fewest = None, 0
        for packer in self.packers:
            pack_of = packer.group(self._seen_by(packer, pieces))
            n_packs = int(pack_of.max(initial=-1)) + 1
            if best is None or n_packs < fewest:
                best, fewest = pack_of, n_packs
            if fewest <= bound:
                break
        assert best is not None  # there is at least one packer
        return best

    def slots(self, pieces: Pieces, pack_of: Int32, n_packs: int) -> Int64:
        """Return what the packer pays whose answer this is; it is asked again where one of them pays in its own way."""
        if all(type(packer).slots is Packer.slots for packer in self.packers):
            return super().slots(pieces, pack_of, n_packs)
        for packer in self.packers:
            own = self._seen_by(packer, pieces)
            if np.array_equal(packer.group(own), pack_of):
                return packer.slots(own, pack_of, n_packs)
        raise AssertionError("no packer gives this answer again")

    def _seen_by(self, packer: Packer, pieces: Pieces) -> Pieces:
        """Return ``pieces`` with the targets of one packer only."""
        own = [self.targets.index(name) for name in packer.targets]
        return replace(pieces, soft=pieces.soft[:, own])
