"""Host memory that is reused: the first touch of a fresh page costs more than the bytes written to it."""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["BufferPool", "power_of_two", "size_class"]

MOST_IDLE = 4


class BufferPool:
    """Buffers that return to the pool by themselves once no tensor refers to them, on whatever thread that happens.

    A few are kept while they are idle. One that is too small for what is asked for next is given up.
    """

    def __init__(self) -> None:
        self._idle: deque[NDArray[np.uint8]] = deque(maxlen=MOST_IDLE)

    def take(self, n_bytes: int) -> torch.Tensor:
        """Return a buffer, (n_bytes,) uint8, of any content."""
        memory = self._large_enough(n_bytes)
        lease = memory[:n_bytes]
        weakref.finalize(lease, self._idle.append, memory).atexit = False
        return torch.from_numpy(lease)  # all tensors made of it keep the lease alive

    def _large_enough(self, n_bytes: int) -> NDArray[np.uint8]:
        while self._idle:
            memory = self._idle.pop()
            if len(memory) >= n_bytes:
                return memory
        fresh: NDArray[np.uint8] = torch.empty(size_class(n_bytes), dtype=torch.uint8, device="cpu").numpy()
        return fresh


def size_class(n_bytes: int) -> int:
    """Return the bytes to allocate for ``n_bytes``: at most a quarter more, so that many sizes can use the same memory.

    Small sizes are rounded up to multiples of 512.
    """
    quarter = 1 << max(n_bytes.bit_length() - 3, 9)
    return -(-n_bytes // quarter) * quarter


def power_of_two(n_bytes: int) -> int:
    """Return ``n_bytes`` rounded up to a power of two; 0 stays 0.

    For an allocator that splits what it holds, and joins it again: of other sizes too little is left over to be of use.
    """
    return 1 << (n_bytes - 1).bit_length() if n_bytes else 0
