"""How hot loops are compiled: once per machine (cached on disk), and free of the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numba.cpython.unsafe import numbers

__all__ = ["kernel", "trailing_zeros"]

F = TypeVar("F", bound=Callable[..., object])

trailing_zeros = cast("Callable[[np.uint64], int]", numbers.trailing_zeros)
"""Number of zero bits below the lowest one: a single instruction, for use in kernels only."""


def kernel(function: F) -> F:
    """Compile ``function`` with numba on first use. No ``parallel``, no ``fastmath``: one answer on every machine."""
    return cast("F", numba.njit(cache=True, nogil=True)(function))
