"""Packers that are wrong on purpose, each in one way; importable, since other processes pack with them too."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass

import numpy as np

from packing import Limits, NextFit, Packer, Packing, Pieces, Samples
from packing.arrays import Int32, Int64
from packing.policies import Cut


def next_fit(pieces: Pieces) -> Int32:
    return NextFit().group(pieces)


def shifted(pieces: Pieces, shift: int) -> Int32:
    """Packs of next fit, renumbered round in a circle."""
    packs = next_fit(pieces)
    return ((packs + shift) % max(int(packs.max(initial=0)) + 1, 1)).astype(np.int32)


@dataclass(frozen=True)
class DropsAPiece(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces)[:-1]


@dataclass(frozen=True)
class LeavesGaps(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return 2 * next_fit(pieces)


@dataclass(frozen=True)
class ReturnsAList(Packer):
    def group(self, pieces: Pieces) -> Int32:
        packs: Int32 = next_fit(pieces).tolist()
        return packs


@dataclass(frozen=True)
class ReturnsFloats(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces) / 1  # type: ignore[return-value]


@dataclass(frozen=True)
class IgnoresTheCapacity(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return np.zeros(len(pieces.sizes), dtype=np.int32)


@dataclass(frozen=True)
class IgnoresBudgets(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return next_fit(Pieces(pieces.sizes[:, :1].copy(), pieces.caps[:1].copy(), pieces.soft))


@dataclass(frozen=True)
class LosesWhatItCuts(Packer):
    def cut(self, samples: Samples, limits: Limits) -> Cut:
        parts = super().cut(samples, limits)
        n = max(len(parts.sample) - 1, 0)
        start, stop = (None if each is None else each[:n] for each in (parts.start, parts.stop))
        alone = parts.alone[parts.alone < n]
        return Cut(parts.sample[:n], start, stop, parts.sizes[:n], parts.caps, alone, parts.left_over)

    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces)


@dataclass(frozen=True)
class PaysTooLittle(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces)

    def slots(self, pieces: Pieces, pack_of: Int32, n_packs: int) -> Int64:
        return np.ones(n_packs, dtype=np.int64)


@dataclass(frozen=True)
class RanksByAFloat(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces)

    def urgency(self, packing: Packing) -> Int64:
        return packing.tokens / packing.slots  # type: ignore[return-value]


@dataclass(frozen=True)
class NeedsACount(Packer):
    """Refuses whatever has no limit on samples; answers by process."""

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return "it needs max_samples" if limits.max_samples is None else None

    def group(self, pieces: Pieces) -> Int32:
        return shifted(pieces, os.getpid())


@dataclass(frozen=True)
class FailsOnMany(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces) if len(pieces.sizes) < 100 else np.zeros(len(pieces.sizes), dtype=np.int32)


@dataclass(frozen=True)
class UsesGlobalRandom(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return shifted(pieces, random.randrange(9))


@dataclass(frozen=True)
class SeedsGlobalRandom(Packer):
    def group(self, pieces: Pieces) -> Int32:
        np.random.seed(0)
        return next_fit(pieces)


@dataclass(frozen=True)
class CountsCores(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return shifted(pieces, min(os.cpu_count() or 1, 2))


@dataclass(frozen=True)
class StopsByTheClock(Packer):
    def group(self, pieces: Pieces) -> Int32:
        deadline = time.monotonic() + 1
        return shifted(pieces, int(time.monotonic() < deadline))


@dataclass(frozen=True)
class DependsOnSetOrder(Packer):
    def group(self, pieces: Pieces) -> Int32:
        return shifted(pieces, int(next(iter({f"pack {i}" for i in range(7)})).split()[1]))


@dataclass(frozen=True)
class MutatesItsInput(Packer):
    def group(self, pieces: Pieces) -> Int32:
        packs = next_fit(pieces)
        if pieces.caps.base is None:
            pieces.caps.flags.writeable = True
            pieces.caps[:] += 1
        return packs


@dataclass(frozen=True)
class RefusesEverything(Packer):
    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return "it is tired"

    def group(self, pieces: Pieces) -> Int32:
        raise NotImplementedError


@dataclass(frozen=True)
class CrashesWhenAsked(Packer):
    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return f"{samples.tokens[0]} tokens are too many"  # there may be none

    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces)


@dataclass(frozen=True)
class RefusesWithoutReason(Packer):
    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        return limits.align > 1 or None  # type: ignore[return-value]

    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces)


@dataclass(frozen=True)
class MutatesWhenAsked(Packer):
    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        samples.tokens.flags.writeable = True
        samples.tokens[:1] += 1
        samples.tokens.flags.writeable = False
        return None

    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces)


@dataclass(frozen=True)
class Crashes(Packer):
    def group(self, pieces: Pieces) -> Int32:
        raise KeyError("lost")


class HidesItsParameter(Packer):
    """No dataclass: its text does not say what it is."""

    def __init__(self, shift: int) -> None:
        object.__setattr__(self, "shift", shift)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HidesItsParameter) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return 0

    def group(self, pieces: Pieces) -> Int32:
        return next_fit(pieces)


BROKEN: dict[Packer, str] = {
    DropsAPiece(): "packs_numbered",
    LeavesGaps(): "packs_numbered",
    ReturnsAList(): "packs_numbered",
    ReturnsFloats(): "packs_numbered",
    IgnoresTheCapacity(): "limits_kept",
    IgnoresBudgets(): "limits_kept",
    LosesWhatItCuts(): "every_token_once",
    PaysTooLittle(): "slots_hold_tokens",
    RanksByAFloat(): "urgency_ranks_packs",
    NeedsACount(): "same_in_any_process",
    FailsOnMany(): "same_in_any_process",
    UsesGlobalRandom(): "same_again",
    SeedsGlobalRandom(): "same_again",
    CountsCores(): "same_in_any_process",
    StopsByTheClock(): "same_in_any_process",
    DependsOnSetOrder(): "same_in_any_process",
    MutatesItsInput(): "input_untouched",
    RefusesEverything(): "packs_numbered",
    CrashesWhenAsked(): "refusal_tells",
    RefusesWithoutReason(): "refusal_tells",
    MutatesWhenAsked(): "refusal_tells",
    Crashes(): "packs_numbered",
    HidesItsParameter(3): "repr_parses",
}
"""Packer -> the check that must catch it."""
