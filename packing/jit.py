"""How hot loops are compiled: once per machine (cached on disk), and free of the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

__all__ = ["kernel"]

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile ``function`` with numba on first use. No ``parallel``, no ``fastmath``: one answer on every machine."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
