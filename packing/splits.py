"""All ways to split a few items in two, as tables: split s has item k + 1 in the first half if bit k of s is set.

``room``: (splits,) tokens of the first half above the least that it must hold; the split fits if that is in [0, spare].
``lead``: (splits,) twice the amount in the first half minus that in both, so that 0 is even. Both are int32, and most
loops have no branch, so that they run on vectors: 0.3 ns a split.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import Int32
from .jit import kernel

__all__ = ["SUM_BITS", "add_cost", "any_as_close", "cheapest", "closest", "double", "excess_bits"]

SUM_BITS = 29  # sums in the tables are int32; larger ones lose their lowest bits
SEARCHED = 64  # splits that are searched together


@kernel
def double(sums: Int32, size: int, value: int) -> None:
    """Write the first ``size`` sums, each plus ``value``, behind them."""
    added = np.int32(value)
    before, behind = sums[:size], sums[size : 2 * size]
    for k in range(size):
        behind[k] = before[k] + added


@kernel
def closest(room: Int32, lead: Int32, size: int, last_tokens: int, last_lead: int, spare: int, aside: int) -> int:
    """Return the least distance of |lead| to ``aside`` among splits with 0 <= room <= spare; no branch, one pass.

    The tables lack the last item; both places of it are looked at.
    """
    none = np.int32(2**31 - 1)
    without, behind = none, none  # one minimum for each place of the last item, or compilers give up on vectors
    least, most, wanted = np.int32(0), np.int32(spare), np.int32(aside)
    more_tokens, more_lead = np.int32(last_tokens), np.int32(last_lead)
    for k in range(size):
        apart = np.int32(abs(np.int32(np.int32(abs(lead[k])) - wanted)))
        apart = apart if (room[k] >= least) & (room[k] <= most) else none
        without = min(without, apart)
        there, ahead = np.int32(room[k] + more_tokens), np.int32(lead[k] + more_lead)
        apart = np.int32(abs(np.int32(np.int32(abs(ahead)) - wanted)))
        apart = apart if (there >= least) & (there <= most) else none
        behind = min(behind, apart)
    return int(min(without, behind))


@kernel
def any_as_close(
    room: Int32, lead: Int32, size: int, last_tokens: int, last_lead: int, spare: int, aside: int, best: int, start: int
) -> int:
    """Return a split that `closest` means: the first from ``start`` on, block by block."""
    width = min(size, SEARCHED)
    for block in range(size // width):
        begin = (start // width + block) % (size // width) * width
        ahead, there = lead[begin : begin + width], room[begin : begin + width]
        if closest(there, ahead, width, last_tokens, last_lead, spare, aside) == best:
            for step in range(width):
                k = (start + step) % width
                if abs(abs(int(ahead[k])) - aside) == best and 0 <= there[k] <= spare:
                    return begin + k
                if abs(abs(ahead[k] + last_lead) - aside) == best and 0 <= there[k] + last_tokens <= spare:
                    return size + begin + k
    return -1


@kernel
def add_cost(cost: NDArray[np.float32], lead: Int32, size: int, aside: int, scale: np.float32) -> None:
    """Add the squared distance of |lead| to ``aside``, in units of 1 / scale, to the cost of each split."""
    wanted = np.int32(aside)
    for k in range(size):
        apart = np.float32(np.int32(np.int32(abs(lead[k])) - wanted)) * scale
        cost[k] += apart * apart


@kernel
def cheapest(room: Int32, cost: NDArray[np.float32], size: int, most: int) -> int:
    """Return the first split of least cost with 0 <= room <= most, or -1."""
    least, split = np.float32(np.inf), -1
    for k in range(size):
        if cost[k] < least and 0 <= room[k] <= most:
            least, split = cost[k], k
    return split


@kernel
def excess_bits(total: int) -> int:
    """Return how many of the lowest bits of ``total`` must go for it to have SUM_BITS."""
    bits = 0
    while total >> bits >= 1 << SUM_BITS:
        bits += 1
    return bits
