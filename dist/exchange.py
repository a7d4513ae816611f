"""Who sends what to whom: pure, from the ranks that hold packs and the ranks that shall."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from packing.arrays import Int64

__all__ = ["Route", "route_of"]

CHUNK = 64 << 20  # bytes that a rank sends or receives in one collective


@dataclass(frozen=True, eq=False)
class Route:
    """The transfers of one step: pack, sender, receiver, by receiver within sender, packs ascending.

    ``sizes``: (n_ranks, n_ranks) bytes from each rank to each.
    """

    pack: Int64
    source: Int64
    target: Int64
    n_bytes: Int64
    sizes: Int64

    def sent(self, rank: int) -> Int64:
        """Packs that a rank sends, in the order of its buffer: by receiver, then pack."""
        sent: Int64 = self.pack[self.source == rank]
        return sent

    def received(self, rank: int) -> Int64:
        """Packs that a rank receives, in the order of its buffer: by sender, then pack."""
        received: Int64 = self.pack[self.target == rank]
        return received

    def sent_bytes(self, rank: int) -> int:
        return int(self.sizes[rank].sum())

    def received_bytes(self, rank: int) -> int:
        return int(self.sizes[:, rank].sum())

    def rounds(self, chunk: int = CHUNK) -> Iterator[tuple[Int64, Int64]]:
        """Yield (n_ranks, n_ranks) first and last bytes of each pair's data in each collective: the same on all ranks.

        No rank sends or receives more than about ``chunk`` bytes in one.
        """
        busiest = max(int(self.sizes.sum(axis=0).max()), int(self.sizes.sum(axis=1).max()))
        n = -(-busiest // chunk)
        for i in range(n):
            yield (
                self.sizes // n * i + self.sizes % n * i // n,
                (self.sizes // n * (i + 1) + self.sizes % n * (i + 1) // n),
            )


def route_of(pack: Int64, source: Int64, target: Int64, n_bytes: Int64, n_ranks: int) -> Route:
    """Return the transfers of ``pack`` (m,) from ``source`` to ``target`` ranks, (m,) each, ``n_bytes`` (m,)."""
    sizes = np.zeros((n_ranks, n_ranks), dtype=np.int64)
    if not len(pack):
        return Route(pack, source, target, n_bytes, sizes)
    order = np.lexsort((pack, target, source))
    np.add.at(sizes, (source, target), n_bytes)
    return Route(pack[order], source[order], target[order], n_bytes[order], sizes)
