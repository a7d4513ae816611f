"""From the contents of packs to integer loads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction

import numpy as np

from packing.arrays import SUM_LIMIT, Int64, as_int64
from packing.errors import InvalidParameter

__all__ = ["Linear", "amount_of", "stages"]

SCALE = 1_000_000  # coefficients are kept in picoseconds: integers decide
# pairs of tokens that attend to each other: the mean of these sums over the samples of a pack, a whole number
PAIRS = {"full_pairs": ("tokens_squared",), "causal_pairs": ("tokens_squared", "tokens")}


@dataclass(frozen=True, init=False, repr=False)
class Linear:
    """A fixed time per pack plus a time per unit of what it holds, in microseconds.

    ``Linear(fixed_us=60_000, image_tokens=280)`` is a vision encoder that takes 60 ms plus 0.28 ms per image token.
    Attention costs a time per pair of tokens that attend to each other, always within one sample:
    ``Linear(tokens=1.5, causal_pairs=0.002)`` for a causal model, L (L + 1) / 2 pairs in a sample of L tokens;
    ``full_pairs`` for L x L. Coefficients are rounded to 1e-6 us.
    """

    fixed_us: float
    us_per: tuple[tuple[str, float], ...]

    def __init__(self, fixed_us: float = 0, **us_per: float) -> None:
        """``us_per``: microseconds per unit of each named amount of `Packing.sums`."""
        for name, value in {"fixed_us": fixed_us, **us_per}.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InvalidParameter(
                    f"Linear({name}=...) must be a finite number >= 0 of microseconds; got {value!r}."
                )
        object.__setattr__(self, "fixed_us", fixed_us)
        object.__setattr__(self, "us_per", tuple(us_per.items()))

    def loads(self, amounts: Mapping[str, Int64]) -> Int64:
        """Return the load of each pack in whole microseconds, (n_packs,), from its amounts, (n_packs,) each.

        ``amounts`` is what `Packing.sums` returns; the pairs are worked out from it. Raises `InvalidParameter` for an
        amount that is not there or no count, or a load beyond int64.
        """
        given: object = amounts
        if not isinstance(given, Mapping):
            raise InvalidParameter(f"loads are worked out from packing.sums(), amounts by name; got {given!r:.100}.")
        if not amounts:
            raise InvalidParameter("Linear.loads needs the amounts of the packs: pass packing.sums().")
        held = {name: amount_of(amounts, name) for name, _ in self.us_per}
        n_packs = len(next(iter(amounts.values())))
        largest = _scaled(self.fixed_us)
        picoseconds = np.full(n_packs, largest, dtype=np.int64) if largest < SUM_LIMIT else np.zeros(0, np.int64)
        for name, us in self.us_per:
            values, coefficient = held[name], _scaled(us)
            if len(values) != n_packs:
                raise InvalidParameter(f'"{name}" must have one amount per pack; {len(values)} for {n_packs}.')
            most = int(values.max(initial=0))
            largest += coefficient * most
            if most and largest < SUM_LIMIT:  # any coefficient will do where there is nothing
                picoseconds = picoseconds + values * coefficient
        if largest >= SUM_LIMIT:
            raise InvalidParameter(f"the largest load is about {largest // SCALE} us; it must be below 2**62 / 10**6.")
        return (picoseconds + SCALE // 2) // SCALE

    def __repr__(self) -> str:
        named = "".join(f", {name}={value!r}" for name, value in self.us_per)
        return f"Linear(fixed_us={self.fixed_us!r}{named})"


def stages(amounts: Mapping[str, Int64], first: Linear, *others: Linear) -> Int64:
    """Return the loads of several models, (n_packs, n_models): the columns that ``Grid(stages=...)`` names."""
    return np.stack([model.loads(amounts) for model in (first, *others)], axis=1)


def amount_of(amounts: Mapping[str, Int64], name: str, asked_by: str = "Linear has a coefficient for") -> Int64:
    """Return the named amount of each pack, (n_packs,), checked: one of ``amounts``, or the pairs that attend.

    ``asked_by`` begins the error that says it is not there.
    """
    if name in amounts:
        remedy = "Amounts are whole numbers >= 0, one per pack: pass packing.sums()."
        return as_int64(name, amounts[name], InvalidParameter, remedy=remedy, summed=False)
    needed = PAIRS.get(name, (name,))
    if not amounts.keys() >= set(needed):
        close = get_close_matches(name, [each for each in ("fixed_us", *PAIRS, *amounts) if each != name], n=1)
        hint = f' Did you mean "{close[0]}"?' if close else ""
        if name in PAIRS:
            hint = f" It is worked out from {' and '.join(needed)}: pass packing.sums()."
        raise InvalidParameter(f'{asked_by} "{name}"; the packs have {", ".join(amounts)}.{hint}')
    total: Int64 = np.sum([amount_of(amounts, each) for each in needed], axis=0)
    return total // len(needed)


def _scaled(us: float) -> int:
    return round(Fraction(us) * SCALE)
