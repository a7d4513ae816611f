"""From the contents of packs to integer loads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from packing.arrays import SUM_LIMIT, Int64
from packing.errors import InvalidParameter

__all__ = ["Linear"]

SCALE = 1_000_000  # coefficients are kept in picoseconds: integers decide


@dataclass(frozen=True, init=False, repr=False)
class Linear:
    """A fixed time per pack plus a time per unit of what it holds, in microseconds.

    ``Linear(fixed_us=60_000, image_tokens=280)`` is a vision encoder that takes 60 ms plus 0.28 ms per image token.
    Coefficients are rounded to 1e-6 us.
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

        ``amounts`` is what `Packing.sums` returns. Raises `InvalidParameter` for an amount that is not there or a load
        beyond int64.
        """
        if not amounts:
            raise InvalidParameter("Linear.loads needs the amounts of the packs: pass packing.sums().")
        for name, _ in self.us_per:
            if name not in amounts:
                raise InvalidParameter(f'Linear has a coefficient for "{name}"; the packs have {", ".join(amounts)}.')
        n_packs = len(next(iter(amounts.values())))
        largest = _scaled(self.fixed_us)
        picoseconds = np.full(n_packs, largest, dtype=np.int64) if largest < SUM_LIMIT else np.zeros(0, np.int64)
        for name, us in self.us_per:
            values, coefficient = amounts[name], _scaled(us)
            largest += coefficient * int(values.max(initial=0))
            if largest < SUM_LIMIT:
                picoseconds = picoseconds + values * coefficient
        if largest >= SUM_LIMIT:
            raise InvalidParameter(f"the largest load is about {largest // SCALE} us; it must be below 2**62 / 10**6.")
        return (picoseconds + SCALE // 2) // SCALE

    def __repr__(self) -> str:
        named = "".join(f", {name}={value!r}" for name, value in self.us_per)
        return f"Linear(fixed_us={self.fixed_us!r}{named})"


def _scaled(us: float) -> int:
    return round(Fraction(us) * SCALE)
