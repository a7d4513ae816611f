"""Random numbers inside kernels: splitmix64, the same on every machine."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arrays import Int64
from .jit import kernel

__all__ = ["Random", "below", "seeded", "shuffled"]

Random: TypeAlias = NDArray[np.uint64]  # (1,) the state


@kernel
def seeded(seed: int, call: int) -> Random:
    """Return the state for the ``call``-th use of a ``seed``."""
    state = np.empty(1, dtype=np.uint64)
    state[0] = np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + np.uint64(call)
    return state


@kernel
def below(random: Random, n: int) -> int:
    """Return a number in [0, n), and move the state on (Steele, Lea & Flood 2014). The bias is below n / 2**32."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.int64(((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))  # type: ignore[return-value]


@kernel
def shuffled(n: int, random: Random) -> Int64:
    """Return 0 to n - 1 in random order."""
    order = np.arange(n)
    for k in range(n - 1, 0, -1):
        other = below(random, k + 1)
        order[k], order[other] = order[other], order[k]
    return order
