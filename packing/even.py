"""Even packs: as full as best fit makes them, and alike in what they cost besides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, isfinite

import numpy as np

from .arrays import Int32, Int64, exact_sum
from .base import Packer
from .best_fit import capacity_refusal
from .counting import sums_by_group
from .errors import InvalidParameter
from .even_construction import construct
from .even_profiles import PROFILES
from .packs import Packing
from .policies import Pieces
from .portfolio import Portfolio
from .resplit import even_out
from .samples import Limits, Samples
from .targets import TOKENS_SQUARED

__all__ = ["EvenPacking"]

LARGEST_BUDGET = 2**30 - 1  # two of them are an int32
KEY_BITS = 62  # of a sum of amounts together with the number of a pack
LARGEST_WEIGHT = 1_000_000  # distances are compared in single precision, which far larger weights leave
SLACK_WEIGHT = 25  # an emitted pack's free share of the capacity against its distance from the mean


@dataclass(frozen=True)
class EvenPacking(Packer):
    """Choose which samples meet so that an amount per pack varies as little as possible, at the fill of best fit.

    ``targets``: what is evened out, columns of the samples or "tokens_squared" (attention): first ("image_tokens",)
    where images cost. Further targets count ``weight`` times as much, and are nearly free up to 0.08.
    ``fill``: what packs are built for. Lower leaves more freedom; fuller than best fit would is not asked for.
    ``rounds``: of new splits of all packs in pairs, for each target; time is proportional, though rounds end where they
    stop helping.
    ``profile``: "flat", equal packs; "partners", for a planner with equal counts over a step: outliers get light
    counterparts; "ladder", for a planner that sorts packs into micro-steps. The latter two take as many rounds again.

    Idea: the best of five ways to build full packs (`even_construction`), then pairs of packs split anew (`resplit`).
    Guarantee: none; `evenness_floor` is a bound to compare with. O(n log n + rounds x n), about 0.1 us per sample and
    round at five samples a pack. Where packs that are even for the tokens alone break another limit, `Portfolio`
    builds them. The same packs for the same (seed, call). Input order is lost.
    When not to use it: for a planner that may exchange whole packs at the STEP barrier, best fit leaves more choice.
    """

    targets: tuple[str, ...] = (TOKENS_SQUARED,)
    weight: float = 0.08
    fill: float = 0.998
    rounds: int = 40
    seed: int = 0
    profile: str = "flat"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kinds, wanted in (
            ("targets", (tuple,), 'a tuple of columns, such as ("image_tokens",)'),
            ("weight", (int, float), "a number"),
            ("fill", (int, float), "a number"),
            ("rounds", (int,), "an integer"),
            ("seed", (int,), "an integer"),
        ):
            value = getattr(self, name)
            if type(value) not in kinds:
                raise InvalidParameter(f"EvenPacking({name}=...) must be {wanted}; got {value!r}.")
        for name, holds, wanted in (
            ("targets", len(self.targets) > 0, "name at least one column"),
            ("weight", isfinite(self.weight) and self.weight >= 0, "be a finite number >= 0"),
            ("weight", self.weight <= LARGEST_WEIGHT, f"be at most {LARGEST_WEIGHT}; name the target first instead"),
            ("fill", 0 < self.fill <= 1, "be in (0, 1]"),
            ("rounds", self.rounds >= 0, "be >= 0"),
            ("rounds", self.rounds < 2**31, "be below 2**31"),
            ("seed", 0 <= self.seed < 2**63, "be in [0, 2**63)"),
            ("profile", self.profile in PROFILES, f"be one of {', '.join(PROFILES)}"),
        ):
            if not holds:
                raise InvalidParameter(f"EvenPacking({name}=...) must {wanted}; got {getattr(self, name)!r}.")

    def refusal(self, samples: Samples, limits: Limits) -> str | None:
        most_samples = () if limits.max_samples is None else (("samples", limits.max_samples),)
        for name, most in (*limits.budgets, *most_samples):
            if most > LARGEST_BUDGET:
                return f"it counts {name} in 31 bits, at most {LARGEST_BUDGET} in a pack, not {most}. Use larger units."
        return capacity_refusal(limits)

    def group(self, pieces: Pieces) -> Int32:
        amounts = _scaled(pieces.soft)
        tokens, first = np.array(pieces.sizes[:, 0]), np.array(amounts[:, 0])
        built = construct(tokens, first, int(pieces.caps[0]), self.fill)
        if _keeps_limits(pieces, built):
            return self._evened(pieces, amounts, built)
        of_tokens = replace(pieces, sizes=pieces.sizes[:, :1], caps=pieces.caps[:1])
        evened = self._evened(of_tokens, amounts, built)
        if _keeps_limits(pieces, evened):
            return evened
        return self._evened(pieces, amounts, _under_all_limits(pieces, self.fill))

    def _evened(self, pieces: Pieces, amounts: Int64, pack_of: Int32) -> Int32:
        """Return packs, (n,), as even as splits of pairs within the limits of ``pieces`` make them."""
        sizes, caps, call = pieces.sizes, pieces.caps, 2 * pieces.call
        weights, rounds = (1.0, *[self.weight] * (len(self.targets) - 1)), self.rounds * len(self.targets)
        aims = np.zeros(int(pack_of.max(initial=-1)) + 1, dtype=np.int64)
        pack_of = even_out(sizes, amounts, pack_of, aims, caps, weights, rounds, (self.seed, call))
        if self.profile != "flat":
            held = sums_by_group(amounts[:, :1], pack_of, len(aims))[:, 0]
            aims = PROFILES[self.profile](np.array(amounts[:, 0]), pack_of, held)
            pack_of = even_out(sizes, amounts, pack_of, aims, caps, weights, rounds, (self.seed, call + 1))
        return pack_of

    def urgency(self, packing: Packing) -> Int64:
        """Full packs close to the mean first: those that more samples would hardly make better."""
        held = packing.sum_of(self.targets[0])
        free = (packing.slots - packing.tokens) / packing.slots
        apart = np.abs(held / max(exact_sum(held) / max(len(held), 1), 1e-9) - 1)  # squares may sum to more than int64
        return -np.rint(1e6 * (SLACK_WEIGHT * free + apart)).astype(np.int64)


def _keeps_limits(pieces: Pieces, pack_of: Int32) -> bool:
    """Return whether the packs keep all limits; the first, of tokens, is kept by all packs that are made here."""
    if len(pieces.caps) == 1:
        return True
    return bool((sums_by_group(pieces.sizes, pack_of, int(pack_of.max(initial=-1)) + 1) <= pieces.caps).all())


def _under_all_limits(pieces: Pieces, fill: float) -> Int32:
    """Return packs by `Portfolio`, (n,), for the share ``fill`` of the capacity where they would be fuller: full packs
    leave nothing to exchange."""
    pack_of = Portfolio().group(pieces)
    lengths, capacity = pieces.sizes[:, 0], int(pieces.caps[0])
    if int(lengths.sum()) <= fill * capacity * (int(pack_of.max(initial=-1)) + 1):
        return pack_of
    sizes, caps = np.array(pieces.sizes), np.array(pieces.caps)
    caps[0] = ceil(fill * capacity)
    sizes[:, 0] = np.minimum(lengths, caps[0])  # what is longer is alone
    return Portfolio().group(replace(pieces, sizes=sizes, caps=caps))


def _scaled(soft: Int64) -> Int64:
    """Drop the lowest bits of each column whose sums would leave int64: of its largest amount 62 bits less twice those
    of the number of pieces stay, 22 for a million."""
    bits = [int(most).bit_length() + 2 * len(soft).bit_length() for most in soft.max(axis=0, initial=0)]
    return np.ascontiguousarray(soft >> np.array([max(each - KEY_BITS, 0) for each in bits]))
