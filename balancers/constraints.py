"""What a plan must respect besides counts: caps per cell, packs that stay together, packs bound to a rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from packing.arrays import Immutable, Int32, Int64, as_int, as_int64, sums_by_key

from .errors import Infeasible, InvalidProblem
from .grid import Grid

__all__ = [
    "Cap",
    "Constraint",
    "Pinned",
    "Together",
    "checked_constraints",
    "merged_groups",
    "merged_pins",
    "unit_numbers",
]


class Constraint(Immutable, ABC):
    """What every plan of a problem must respect. Its text names it; ``values`` are its numbers, one per pack."""

    @property
    @abstractmethod
    def values(self) -> Int64:
        """The numbers that the constraint is about, (n_packs,)."""

    @abstractmethod
    def broken(self, cell: Int32, grid: Grid) -> str | None:
        """Return how the cells of a plan, (n_packs,), break this, or None if they do not."""


@dataclass(frozen=True, eq=False)
class Cap(Constraint):
    """No cell holds more than ``limit`` of a resource (tokens, images, bytes). ``amounts``: (n_packs,), >= 0."""

    name: str
    amounts: Int64
    limit: int

    def __init__(self, name: str, amounts: ArrayLike, limit: int) -> None:
        checked = as_int64(f"amounts of {name}", amounts, InvalidProblem, remedy="Amounts are whole numbers >= 0.")
        object.__setattr__(self, "name", str(name))
        object.__setattr__(self, "amounts", checked)
        object.__setattr__(self, "limit", as_int(f"limit of {name}", limit, InvalidProblem, least=0))

    @property
    def values(self) -> Int64:
        return self.amounts

    def can_bind(self, most: int) -> bool:
        """Return whether the ``most`` packs of a cell can exceed the limit at all; never where no pack has any."""
        largest = np.sort(self.amounts)[max(len(self.amounts) - most, 0) :]
        return int(largest.sum()) > self.limit

    def broken(self, cell: Int32, grid: Grid) -> str | None:
        held = sums_by_key(self.amounts, cell, grid.n_cells)
        if held.max(initial=0) <= self.limit:
            return None
        c = int(np.argmax(held > self.limit))
        return f"rank {c % grid.n_ranks}, micro-step {c // grid.n_ranks} has {held[c]}"

    def __str__(self) -> str:
        return f'Cap("{self.name}", limit {self.limit})'


@dataclass(frozen=True, eq=False)
class Together(Constraint):
    """Packs of one group run on one rank, in any of its micro-steps. ``group``: (n_packs,) its number, -1 for none."""

    group: Int64

    def __init__(self, group: ArrayLike) -> None:
        remedy = "Groups are numbered from 0; -1 is a pack without group."
        object.__setattr__(
            self, "group", as_int64("group", group, InvalidProblem, remedy=remedy, least=-1, summed=False)
        )

    @property
    def values(self) -> Int64:
        return self.group

    def broken(self, cell: Int32, grid: Grid) -> str | None:
        rank, members = cell % np.int32(grid.n_ranks), np.flatnonzero(self.group >= 0)
        _, first, which = np.unique(self.group[members], return_index=True, return_inverse=True)
        leader = members[first][which]
        apart = rank[members] != rank[leader]
        if not apart.any():
            return None
        i, j = int(leader[np.argmax(apart)]), int(members[np.argmax(apart)])
        return f"packs {i} and {j} are of one group, on ranks {rank[i]} and {rank[j]}"

    def __str__(self) -> str:
        return "Together"


@dataclass(frozen=True, eq=False)
class Pinned(Constraint):
    """Packs bound to a rank, in any of its micro-steps. ``rank``: (n_packs,), -1 for packs that may go anywhere."""

    rank: Int64

    def __init__(self, rank: ArrayLike) -> None:
        remedy = "Ranks count from 0; -1 is a pack that may go anywhere."
        object.__setattr__(self, "rank", as_int64("rank", rank, InvalidProblem, remedy=remedy, least=-1, summed=False))

    @property
    def values(self) -> Int64:
        return self.rank

    def broken(self, cell: Int32, grid: Grid) -> str | None:
        rank = cell % np.int32(grid.n_ranks)
        astray = (self.rank >= 0) & (self.rank != rank)
        if not astray.any():
            return None
        i = int(np.argmax(astray))
        return f"pack {i} is bound to rank {self.rank[i]}, and put on rank {rank[i]}"

    def __str__(self) -> str:
        return "Pinned"


def checked_constraints(constraints: Sequence[Constraint], n_packs: int, n_ranks: int) -> tuple[Constraint, ...]:
    """Return ``constraints`` as a tuple; `InvalidProblem` for wrong lengths, ranks, kinds, or two of one kind."""
    if isinstance(constraints, Constraint) or not isinstance(constraints, Iterable):
        raise InvalidProblem(f"constraints must be a list of Cap, Together and Pinned; got {constraints!r}.")
    constraints, names = tuple(constraints), []  # once: it may be a generator
    for each in constraints:
        given: object = each
        if not isinstance(given, Cap | Together | Pinned):
            raise InvalidProblem(f"constraints are Cap, Together and Pinned; got {given!r}.")
        values, name = given.values, f'Cap("{given.name}")' if isinstance(given, Cap) else str(given)
        if name in names:
            raise InvalidProblem(f"there are two constraints {name}; give one, with the arrays merged.")
        if len(values) != n_packs:
            raise InvalidProblem(f"{name} must have one value per pack; {len(values)} for {n_packs} packs.")
        if isinstance(given, Pinned) and (values >= n_ranks).any():
            i = int(np.argmax(values >= n_ranks))
            raise InvalidProblem(f"packs can be bound to ranks 0 to {n_ranks - 1}; rank[{i}] = {values[i]}.")
        names.append(name)
    return constraints


def merged_groups(constraints: Sequence[Constraint], n_packs: int) -> Int64:
    """Return the group of each pack, numbered 0, 1, ... without gaps; -1 for none."""
    for each in constraints:
        if isinstance(each, Together):
            labels, dense = np.unique(each.group, return_inverse=True)
            return np.asarray(dense - int(len(labels) > 0 and labels[0] < 0), dtype=np.int64)
    return np.full(n_packs, -1, dtype=np.int64)


def unit_numbers(group: Int64) -> Int64:
    """Return what each pack moves with, numbered without gaps: its group, or behind all groups itself alone."""
    alone = group < 0
    unit = group.copy()
    unit[alone] = int(group.max(initial=-1)) + 1 + np.arange(int(alone.sum()))
    return unit


def merged_pins(constraints: Sequence[Constraint], group: Int64) -> Int64:
    """Return the rank that each pack is bound to, itself or through its group; -1 for none.

    Raises `Infeasible` where two packs of a group are bound to two ranks.
    """
    pin = np.full(len(group), -1, dtype=np.int64)
    for each in constraints:
        if isinstance(each, Pinned):
            pin[:] = each.rank
    own, grouped = pin.copy(), group >= 0
    of_group = np.full(int(group.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(of_group, group[grouped], pin[grouped])
    pin[grouped] = of_group[group[grouped]]
    other = (own >= 0) & (own != pin)
    if other.any():
        i = int(np.argmax(other))
        j = int(np.argmax((group == group[i]) & (own == pin[i])))
        raise Infeasible(
            f"Together and Pinned contradict: packs {min(i, j)} and {max(i, j)} are of one group, but bound to ranks "
            f"{own[min(i, j)]} and {own[max(i, j)]}."
        )
    return pin
