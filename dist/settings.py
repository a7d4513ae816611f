"""The arguments of a loader that every rank must share: checked, and compared before anything else."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TypeVar

import numpy as np

from balancers import Balancer, Cap, Counts, Grid, Plan, Problem
from packing.algorithm import Algorithm
from packing.arrays import Int32, Int64, as_int
from packing.errors import CannotServe

from .agreement import MessageFormat, Table
from .errors import InvalidLoader

__all__ = ["AtEnd", "Mode", "Settings", "chosen", "is_portable", "require_balancer"]

E = TypeVar("E", bound=Enum)


class Mode(Enum):
    """What a loader does with a plan."""

    OFF = "off"  # makes none: every pack stays where it is
    SHADOW = "shadow"  # makes it and reports what it would gain: every pack stays where it is
    BALANCE = "balance"  # acts on it


class AtEnd(Enum):
    """What happens when ranks have different numbers of packs."""

    PAD = "pad"  # the longest decides: empty places are filled with dummies of weight zero
    MIN = "min"  # the shortest decides: what others hold is dropped, and counted
    CARRY = "carry"  # the same, but what is left leads the next pass


@dataclass(frozen=True)
class Settings:
    """What ranks must share, and what follows from it for a step."""

    balancer: Balancer
    grid: Grid
    packs_per_cell: int
    amounts: tuple[str, ...]
    caps: tuple[tuple[str, int], ...]
    at_end: AtEnd
    mode: Mode

    @classmethod
    def checked(
        cls,
        balancer: Balancer,
        grid: Grid,
        packs_per_cell: int,
        amounts: Sequence[str],
        caps: Mapping[str, int],
        at_end: str,
        mode: str,
    ) -> Settings:
        """Return the settings of these arguments of `BalancedLoader`. Raises `InvalidLoader`, or `Infeasible` where a
        full step breaks the counts."""
        require_balancer(balancer)
        if grid.n_steps != 1:
            raise InvalidLoader(f"a loader acts on one step at a time; got {grid!r}. Use n_steps=1.")
        places = as_int("packs_per_cell", packs_per_cell, InvalidLoader, least=1)
        grid.counts_for(places * grid.n_cells)  # in every mode: else "off" would find out in its first step
        if isinstance(amounts, str):
            raise InvalidLoader(
                f"amounts must be a sequence of names; got the string {amounts!r}. Write [{amounts!r}]."
            )
        if not (isinstance(amounts, Sequence) and all(isinstance(name, str) for name in amounts)):
            raise InvalidLoader(f"amounts must be a list or tuple of names; got {amounts!r}.")
        if not (isinstance(caps, Mapping) and all(isinstance(name, str) for name in caps)):
            raise InvalidLoader(f"caps must map names of amounts to their most in a cell; got {caps!r}.")
        names = tuple(dict.fromkeys((*amounts, *caps)))
        both = sorted({*names} & {*grid.stages, "packs"})
        if both:
            raise InvalidLoader(f"amounts and caps must not be named {both}, as stages or totals are. Rename them.")
        limits = tuple((name, as_int(f"caps[{name!r}]", most, InvalidLoader, least=0)) for name, most in caps.items())
        ends, mode_ = chosen("at_end", AtEnd, at_end), chosen("mode", Mode, mode)
        return cls(balancer, grid, places, names, limits, ends, mode_)

    @property
    def packs_per_rank(self) -> int:
        """Packs of one rank in a full step."""
        return self.grid.n_micro_steps * self.packs_per_cell

    @cached_property
    def message_format(self) -> MessageFormat:
        """The message that these settings need."""
        return MessageFormat(self.grid.n_ranks, self.packs_per_rank, len(self.grid.stages), len(self.amounts))

    @cached_property
    def portable(self) -> bool:
        """Whether every rank computes the same plan; if not, rank 0 plans for all."""
        return is_portable(self.balancer)

    def word(self) -> str:
        """What ranks compare, as text: these settings, and the version of Python."""
        return f"{self!r}, Python {platform.python_version()}"

    def home(self, table: Table) -> Int64:
        """Return the cell that holds each pack, (n_packs,)."""
        return table.place // self.packs_per_cell * self.grid.n_ranks + table.home_rank

    def ended(self, counts: Int64) -> bool:
        """Return whether the pass is over, where ranks bring ``counts`` packs to the next step, (n_ranks,)."""
        if self.at_end is AtEnd.PAD:
            return not counts.any()
        return bool((counts < self.packs_per_rank).any())

    def problem(self, table: Table, step: int) -> Problem:
        """Return the problem of one step.

        Where packs are missing, counts that only a full step can meet are relaxed: EQUAL becomes PADDED, and a pair has
        no fewest.
        """
        grid = self.grid
        if int(table.counts.sum()) < self.packs_per_rank * grid.n_ranks:
            if grid.counts is Counts.EQUAL:
                grid = replace(grid, counts=Counts.PADDED)
            elif not isinstance(grid.counts, Counts):
                grid = replace(grid, counts=(0, grid.counts[1]))
        columns = dict(zip(self.amounts, table.amounts.T, strict=True))
        caps = tuple(Cap(name, columns[name], most) for name, most in self.caps) if self.mode is not Mode.OFF else ()
        loads = table.loads[:, 0] if len(grid.stages) == 1 else table.loads
        return Problem(loads, grid, self.home(table), table.n_bytes + table.n_tensor_bytes, step, constraints=caps)

    def cell_counts(self, held: Int64) -> Int64:
        """Return how many packs each cell must run, dummies included, where it ``held`` so many, both (n_cells,)."""
        fixed = self.grid.counts in (Counts.EQUAL, Counts.PADDED)
        return np.maximum(held, self.packs_per_cell if fixed else 1)

    def warm_up(self) -> None:
        """Plan some invented steps, so that nothing is compiled later, and a balancer that refuses does so now.

        They differ, since what a balancer runs depends on whether its first plan meets the bound.
        """
        if self.mode is Mode.OFF:
            return
        rng = np.random.default_rng(0)
        for trial, largest in enumerate((9, 1_000, 10**6, 10**6)):
            counts = np.full(self.grid.n_ranks, self.packs_per_rank)
            counts[-1] -= trial == 3  # a step with a pack missing
            n = int(counts.sum())
            table = Table(
                counts=counts,
                has_dummy=np.ones(self.grid.n_ranks, dtype=np.int64),
                loads=rng.integers(1, largest, (n, len(self.grid.stages))) ** (1 + (trial == 2)),
                amounts=np.zeros((n, len(self.amounts)), dtype=np.int64),
                n_bytes=rng.integers(1, 10**6, n),
                n_tensor_bytes=np.zeros(n, dtype=np.int64),
                index=np.zeros(n, dtype=np.int64),
            )
            alone = table.place % self.packs_per_cell == 0  # one pack per cell takes the whole cap: home is feasible
            for column, name in enumerate(self.amounts):
                table.amounts[:, column] = alone * dict(self.caps).get(name, 1)
            try:
                self.plan(self.problem(table, 0)).digest()
            except CannotServe:
                if not trial:
                    raise  # of the larger loads it may be just the size that it refuses, which no step need bring

    def plan(self, problem: Problem, cell: Int32 | None = None) -> Plan:
        """Return the plan to act on: that of the balancer, or of ``cell`` if another rank has planned; or home."""
        plan = self.balancer.plan(problem) if cell is None else Plan(problem, cell, repr(self.balancer))
        return plan.or_home()


def chosen(name: str, kind: type[E], value: object) -> E:
    """Return the member of ``kind`` with this ``value``; `InvalidLoader` if there is none."""
    values = [each.value for each in kind]
    if not (isinstance(value, str) and value in values):
        raise InvalidLoader(f"{name} must be one of {', '.join(map(repr, values))}; got {value!r}.")
    return kind(value)


def require_balancer(balancer: object) -> None:
    """Raise `InvalidLoader` unless ``balancer`` is a `Balancer`."""
    if not isinstance(balancer, Balancer):
        raise InvalidLoader(f"balancer must be a Balancer; got {balancer!r}. BALANCERS.parse makes one of a text.")


def is_portable(value: object) -> bool:
    """Return whether a balancer, and all balancers inside it, give the same plan on every machine."""
    if isinstance(value, tuple):
        return all(map(is_portable, value))
    if not isinstance(value, Algorithm):
        return True
    return getattr(value, "portable", True) and all(map(is_portable, vars(value).values()))
