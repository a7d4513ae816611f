"""The rendezvous store of the job: what is used of it, a loader's part of it, and in whose process it lives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, cast
from zlib import crc32

import torch.distributed as td

from .errors import ExchangeError, RankLost

__all__ = ["Store", "StoreHolder", "cloned", "prefixed", "store_of"]

STORE_TIMEOUT = timedelta(seconds=30)  # of one request; a store that takes longer is gone


class Store(Protocol):
    """What is used of a ``torch.distributed`` store; torch says nothing of ``append`` in its types."""

    def set(self, key: str, value: str, /) -> None: ...
    def append(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def add(self, key: str, amount: int, /) -> int: ...
    def check(self, keys: list[str], /) -> bool: ...
    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes: ...
    def delete_key(self, key: str, /) -> bool: ...


@dataclass(frozen=True)
class StoreHolder:
    """In whose process the store lives: that of one of our ranks, or of somebody else (None)."""

    rank: int | None

    @classmethod
    def among(cls, ranks: list[int]) -> StoreHolder:
        """Rank 0 of the job holds it, unless torchrun does."""
        ours = 0 in ranks and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        return cls(ranks.index(0) if ours else None)

    @contextmanager
    def asked(self, step: int, phase: str) -> Iterator[None]:
        """What is asked inside raises `RankLost` where the store is gone."""
        try:
            yield
        except ExchangeError:
            raise
        except RuntimeError as error:
            raise self.lost(error, step, phase) from error

    def lost(self, error: RuntimeError, step: int, phase: str) -> RankLost:
        """Return what to raise where a request ended with ``error``."""
        who = "a process outside of these ranks" if self.rank is None else f"rank {self.rank}"
        text = f"step {step}, {phase}: the rendezvous store is gone, which {who} usually holds. {error}"
        return RankLost(text, () if self.rank is None else (self.rank,), step, phase)


def cloned(store: Store) -> Store:
    """Return a connection of its own, for another thread: a store serves one at a time.

    Where the store is gone, connecting would be tried for as long as a request may take; asking tells at once.
    """
    store.check(["there"])
    return cast("Store", store.clone())  # type: ignore[attr-defined]


def store_of(ranks: list[int], rank: int) -> tuple[str, Store]:
    """Return the name of this loader, the n-th that these ranks build, and its part of the rendezvous store."""
    if not ranks:
        return "evenstep", cast("Store", td.HashStore())  # type: ignore[attr-defined]
    job = cloned(cast("Store", td.distributed_c10d._get_default_store()))
    job.set_timeout(STORE_TIMEOUT)  # type: ignore[attr-defined]
    life = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    ours = f"evenstep/{life}/{'-'.join(map(str, ranks)) if len(ranks) < 9 else crc32(repr(ranks).encode())}"
    name = f"{ours}/{prefixed(ours, job).add(f'loaders of {rank}', 1)}"
    return name, prefixed(name, job)


def prefixed(prefix: str, store: Store) -> Store:
    """Return the part of ``store`` whose keys begin with ``prefix``."""
    return cast("Store", td.PrefixStore(prefix, store))  # type: ignore[attr-defined, arg-type]
