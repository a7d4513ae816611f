"""How hot loops are compiled: once per machine (cached on disk), and free of the GIL."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numba.cpython.unsafe import numbers

__all__ = ["kernel", "trailing_zeros"]

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., object])

trailing_zeros = cast("Callable[[np.uint64], int]", numbers.trailing_zeros)
"""Number of zero bits below the lowest one: a single instruction, for use in kernels only."""


def kernel(function: F) -> F:
    """Compile ``function`` with numba on first use. No ``parallel``, no ``fastmath``: one answer on every machine."""
    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder to cache in: neither beside the module nor in the user's home
        log.warning("no writable cache folder: kernels are compiled anew in every process. Set NUMBA_CACHE_DIR.")
        compiled = numba.njit(nogil=True)(function)
    return cast("F", compiled)
