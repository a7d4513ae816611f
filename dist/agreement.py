"""What ranks tell each other about a step before anything moves: integers in a message of fixed length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from packing.arrays import Int64, read_only

from .errors import RankDisagreement

__all__ = ["MessageFormat", "Offer", "Table"]

VERSION = 2
HEADER = ("format version", "ranks", "pass", "step")  # the same on every rank, or nobody goes on
OWN = 2  # number of packs, whether a pack for dummies is at hand


@dataclass(frozen=True)
class Offer:
    """What one rank brings to a step: a row per pack, integers >= 0."""

    loads: Sequence[Sequence[int]]  # one per stage
    amounts: Sequence[Sequence[int]]  # one per counted amount
    n_bytes: Sequence[int]
    n_tensor_bytes: Sequence[int]  # of tensors that travel apart
    index: Sequence[int]  # the pack's number in its source
    has_dummy: bool


@dataclass(frozen=True, eq=False)
class Table:
    """What all ranks bring, in rank order: the same on every rank. Packs are numbered through."""

    counts: Int64  # (n_ranks,) packs of each rank
    has_dummy: Int64  # (n_ranks,) 0 or 1
    loads: Int64  # (n_packs, n_stages)
    amounts: Int64  # (n_packs, n_amounts)
    n_bytes: Int64  # (n_packs,)
    n_tensor_bytes: Int64  # (n_packs,)
    index: Int64  # (n_packs,)

    @cached_property
    def home_rank(self) -> Int64:
        """Rank that holds each pack, (n_packs,)."""
        return _numbered(tuple(self.counts.tolist()))[0]

    @cached_property
    def place(self) -> Int64:
        """Number of each pack among those of its rank, (n_packs,)."""
        return _numbered(tuple(self.counts.tolist()))[1]


@lru_cache(maxsize=4)  # nearly all steps are full
def _numbered(counts: tuple[int, ...]) -> tuple[Int64, Int64]:
    """Return rank and place of each pack, (n_packs,), of ranks that bring so many."""
    home_rank = np.repeat(np.arange(len(counts)), counts)
    return read_only(home_rank), read_only(np.concatenate([np.arange(n) for n in counts]))


@dataclass(frozen=True)
class MessageFormat:
    """The layout of the message: it follows from the loader's arguments alone, which ranks have compared."""

    n_ranks: int
    packs_per_rank: int  # in a full step
    n_stages: int
    n_amounts: int

    @property
    def length(self) -> int:
        """Number of integers that each rank sends."""
        return len(HEADER) + OWN + self.packs_per_rank * (self.n_stages + self.n_amounts + 3)

    def message(self, offer: Offer, pass_number: int, step: int) -> Int64:
        """Return what a rank sends, (length,)."""
        message = np.zeros(self.length, dtype=np.int64)
        n = len(offer.index)
        message[: len(HEADER) + OWN] = (VERSION, self.n_ranks, pass_number, step, n, offer.has_dummy)
        rows = message[len(HEADER) + OWN :].reshape(self.packs_per_rank, -1)[:n]
        rows[:, : self.n_stages] = np.reshape(offer.loads, (n, self.n_stages))
        rows[:, self.n_stages : -3] = np.reshape(offer.amounts, (n, self.n_amounts))
        rows[:, -3] = offer.n_bytes
        rows[:, -2] = offer.n_tensor_bytes
        rows[:, -1] = offer.index
        return message

    def table(self, messages: Int64) -> Table:
        """Read all messages, (n_ranks, length). Raises `RankDisagreement`, on all ranks alike, where headers differ."""
        head, own = messages[:, : len(HEADER)], messages[:, len(HEADER) : len(HEADER) + OWN]
        differs = head != head[0]
        if differs.any():
            rank, column = (int(i) for i in np.argwhere(differs)[0])
            step = int(head[0, HEADER.index("step")])
            raise RankDisagreement(
                f"step {step}, agree: {HEADER[column]} is {head[0, column]} on rank 0 and {head[rank, column]} on rank "
                f"{rank}. Nothing was moved.",
                (rank,),
                step,
                "agree",
            )
        rows = messages[:, len(HEADER) + OWN :].reshape(self.n_ranks, self.packs_per_rank, -1)
        full = own[:, 0].min() == self.packs_per_rank
        rows = rows.reshape(-1, rows.shape[2]) if full else rows[np.arange(self.packs_per_rank) < own[:, :1]]
        return Table(
            counts=own[:, 0],
            has_dummy=own[:, 1],
            loads=rows[:, : self.n_stages],
            amounts=rows[:, self.n_stages : -3],
            n_bytes=rows[:, -3],
            n_tensor_bytes=rows[:, -2],
            index=rows[:, -1],
        )
