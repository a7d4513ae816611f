"""A set of small integers in which the next larger member is found at once: a bit each, and a bit per word of these.

For compiled loops: ``words`` and ``summary`` are the set.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .jit import kernel, trailing_zeros

__all__ = ["UInt64", "add", "empty_set", "remove", "smallest_from"]

UInt64: TypeAlias = NDArray[np.uint64]


@kernel
def empty_set(largest: int) -> tuple[UInt64, UInt64]:
    """Return the empty set, for members from 0 to ``largest``."""
    return np.zeros((largest >> 6) + 1, dtype=np.uint64), np.zeros((largest >> 12) + 1, dtype=np.uint64)


@kernel
def add(words: UInt64, summary: UInt64, member: int) -> None:
    """Put ``member`` into the set."""
    one, low = np.uint64(1), np.uint64(63)
    words[member >> 6] |= one << (np.uint64(member) & low)
    summary[member >> 12] |= one << (np.uint64(member >> 6) & low)


@kernel
def smallest_from(words: UInt64, summary: UInt64, wanted: int) -> int:
    """Return the smallest member of the set that is at least ``wanted``, -1 if there is none."""
    every, low = ~np.uint64(0), np.uint64(63)
    word = wanted >> 6
    bits = words[word] & (every << (np.uint64(wanted) & low))
    if bits == 0 and word + 1 < len(words):
        word += 1
        block = word >> 6
        blocks = summary[block] & (every << (np.uint64(word) & low))
        while blocks == 0 and block + 1 < len(summary):
            block += 1
            blocks = summary[block]
        if blocks != 0:
            word = (block << 6) + trailing_zeros(blocks)
            bits = words[word]
    return (word << 6) + trailing_zeros(bits) if bits != 0 else -1


@kernel
def remove(words: UInt64, summary: UInt64, member: int) -> None:
    """Take ``member`` out of the set."""
    one, low = np.uint64(1), np.uint64(63)
    words[member >> 6] &= ~(one << (np.uint64(member) & low))
    if words[member >> 6] == 0:
        summary[member >> 12] &= ~(one << (np.uint64(member >> 6) & low))
