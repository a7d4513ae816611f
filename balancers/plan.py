"""A plan: which pack goes to which cell, verified, with its cost, its distance from the bound, and a digest."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from packing.arrays import Int32, Int64, as_int, read_only, sums_by_key

from .errors import InvalidPlan, InvalidProblem
from .grid import Counts
from .problem import Problem
from .verification import busy_times, verified

__all__ = ["Assignment", "Plan", "Status"]

DIGEST_VERSION = 1


class Status(Enum):
    """What is known of a plan's cost."""

    HEURISTIC = "heuristic"
    FEASIBLE = "feasible"  # a solver's best so far
    FALLBACK = "fallback"  # a solver found nothing within its limit: its starting plan
    OPTIMAL = "optimal"  # proven: no plan costs less


class Assignment(NamedTuple):
    """All that the author of a balancer returns. ``cell``: (n_packs,) int32, micro-step x n_ranks + rank."""

    cell: Int32
    lower_bound: int = 0  # what the algorithm itself proved
    status: Status = Status.HEURISTIC


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """An assignment of every pack to a cell. Building one verifies it: any answer can be judged under any loads.

    ``busy``: (n_rows, n_ranks) load of each rank between two barriers; a row is the step, a micro-step, or a stage of a
    micro-step, by the barrier. ``cost`` = sum over rows of the largest in the row.
    """

    problem: Problem
    cell: Int32
    balancer: str = ""
    status: Status = Status.HEURISTIC
    stayed: bool = False  # this is the home plan, given by `or_home`
    busy: Int64 = field(init=False)
    _proved: int = 0

    def __init__(
        self,
        problem: Problem,
        cell: ArrayLike,
        balancer: str = "",
        status: Status = Status.HEURISTIC,
        lower_bound: int = 0,
        stayed: bool = False,
    ) -> None:
        """Raises `InvalidPlan` if ``cell`` is no assignment of the problem's packs within its counts."""
        set_ = object.__setattr__
        set_(self, "problem", problem)
        set_(self, "cell", verified(problem, cell, balancer))
        set_(self, "busy", read_only(busy_times(problem, self.cell)))
        self._claim(balancer, status, lower_bound, stayed)

    def _claim(self, balancer: str, status: Status, lower_bound: int, stayed: bool) -> None:
        """Take in what is claimed of the cells. Raises `InvalidPlan` if they prove it wrong."""
        set_ = object.__setattr__
        set_(self, "balancer", balancer)
        set_(self, "stayed", stayed)
        set_(self, "_proved", as_int(f"the bound of {balancer or 'the plan'}", lower_bound, InvalidPlan, least=0))
        if self.lower_bound > self.cost:
            raise InvalidPlan(
                f"{balancer} claims the bound {self.lower_bound}, above the cost {self.cost} of its plan."
            )
        if not isinstance(status, Status) or (status is Status.OPTIMAL and self.cost > self.lower_bound):
            raise InvalidPlan(
                f"{balancer} says {status!r}; cost {self.cost} and bound {self.lower_bound} do not prove it."
            )
        set_(self, "status", Status.OPTIMAL if self.cost == self.lower_bound else status)

    def named(self, balancer: str) -> Plan:
        """Return this plan as that of another balancer. Nothing is verified anew."""
        plan = self._copy()
        object.__setattr__(plan, "balancer", balancer)
        return plan

    def _copy(self) -> Plan:
        plan = object.__new__(Plan)
        vars(plan).update(vars(self))
        return plan

    def __reduce__(self) -> tuple[object, ...]:
        return Plan, (self.problem, self.cell, self.balancer, self.status, self._proved, self.stayed)

    @cached_property
    def cost(self) -> int:
        """What the balancer minimises, in integers of load. Also: makespan (STEP)."""
        return int(self.busy.max(axis=1).sum())

    @property
    def lower_bound(self) -> int:
        """No plan of this problem costs less."""
        return max(self.problem.lower_bound, self._proved)

    @property
    def gap(self) -> float:
        """cost / lower_bound - 1; 0.0 for zero cost."""
        return self.cost / self.lower_bound - 1 if self.lower_bound else 0.0

    @property
    def waste(self) -> float:
        """Share of time that ranks wait: 1 - busy / (n_ranks x cost); 0.0 for zero load."""
        paid = self.problem.grid.n_ranks * self.cost
        return 1 - int(self.busy.sum()) / paid if paid else 0.0

    @property
    def imbalance(self) -> float:
        """1 / (1 - waste): max / mean at a single barrier; 1.0 is perfect."""
        done = int(self.busy.sum())
        return self.problem.grid.n_ranks * self.cost / done if done else 1.0

    @cached_property
    def rank(self) -> Int32:
        """Rank of each pack, (n_packs,)."""
        return read_only(self.cell % np.int32(self.problem.grid.n_ranks))

    @cached_property
    def rank_load(self) -> Int64:
        """Load of each rank over the whole step, (n_ranks,)."""
        total: Int64 = self.busy.sum(axis=0)
        return read_only(total)

    @property
    def rank_cost(self) -> int:
        """Largest load of a rank over the whole step: what comes after the cost."""
        return int(self.rank_load.max())

    @cached_property
    def moved(self) -> Int64 | None:
        """Packs that change their rank, ascending; None without home. A new micro-step alone moves no byte."""
        home = self.problem.home
        return None if home is None else read_only(np.flatnonzero(self.rank != home % self.problem.grid.n_ranks))

    @property
    def moved_packs(self) -> int | None:
        """Number of packs that change their rank; None without home."""
        return None if self.moved is None else len(self.moved)

    @property
    def moved_bytes(self) -> int | None:
        """Bytes that travel between ranks; None without home or sizes."""
        if self.moved is None or self.problem.n_bytes is None:
            return None
        return int(self.problem.n_bytes[self.moved].sum())

    @property
    def bytes_between_nodes(self) -> int | None:
        """Bytes that travel between nodes; None without home, sizes, or `Grid.ranks_per_node`."""
        problem, per_node = self.problem, self.problem.grid.ranks_per_node
        if self.moved is None or problem.home is None or problem.n_bytes is None or per_node is None:
            return None
        node, home_node = self.rank // per_node, problem.home % problem.grid.n_ranks // per_node
        return int(problem.n_bytes[node != home_node].sum())

    @property
    def moved_steps(self) -> int | None:
        """Number of packs that change their optimizer step: the order of the data changes. None without home."""
        if self.problem.home is None:
            return None
        per_step = np.int32(self.problem.grid.n_ranks * self.problem.grid.n_micro_steps)
        return int(np.count_nonzero(self.cell // per_step != self.problem.home // per_step))

    @property
    def busiest_bytes(self) -> int | None:
        """Most bytes that any one rank sends or receives; None without home or sizes."""
        home, n_bytes = self.problem.home, self.problem.n_bytes
        if self.moved is None or home is None or n_bytes is None:
            return None
        most, n_ranks = 0, self.problem.grid.n_ranks
        for end in (home % n_ranks, self.rank):
            most = max(most, int(sums_by_key(n_bytes[self.moved], end[self.moved], n_ranks).max()))
        return most

    @property
    def key(self) -> tuple[int, int, int]:
        """What plans of one problem are compared by: cost, then evenness of the ranks, then bytes moved."""
        return self.cost, self.rank_cost, self.moved_bytes or 0

    @cached_property
    def order(self) -> Int64:
        """Packs by rank, then micro-step, then index, (n_packs,): ``values[plan.order]`` lays them out rank by rank."""
        n_ranks, n_micro_steps = self.problem.grid.n_ranks, self.problem.grid.total_micro_steps
        cell = self.cell.astype(np.int64)
        return read_only(np.argsort(cell % n_ranks * n_micro_steps + cell // n_ranks, kind="stable"))

    @cached_property
    def inverse(self) -> Int64:
        """Undoes `order`: ``values[plan.order][plan.inverse]`` is ``values``, (n_packs,)."""
        inverse = np.empty_like(self.order)
        inverse[self.order] = np.arange(len(inverse))
        return read_only(inverse)

    @cached_property
    def _offsets(self) -> Int64:
        """Where each (rank, micro-step) begins in `order`, (n_cells + 1,)."""
        grid = self.problem.grid
        counts = np.bincount(self.cell, minlength=grid.n_cells).reshape(grid.total_micro_steps, grid.n_ranks)
        return np.concatenate([[0], np.cumsum(counts.T.ravel())])

    @property
    def partitions(self) -> list[list[int]]:
        """Pack indices of each rank: what RL frameworks call the partitions."""
        bounds = self._offsets[:: self.problem.grid.total_micro_steps].tolist()
        order = self.order.tolist()
        return [order[start:stop] for start, stop in pairwise(bounds)]

    def packs(self, rank: int, micro_step: int | None = None) -> Int64:
        """Return the packs of a rank, in one micro-step or (None) in all, ascending within a micro-step."""
        n = self.problem.grid.total_micro_steps
        if not (0 <= rank < self.problem.grid.n_ranks and 0 <= (micro_step or 0) < n):
            raise IndexError(f"rank {rank}, micro-step {micro_step} is outside {self.problem.grid}")
        first, last = (rank * n, rank * n + n) if micro_step is None else (rank * n + micro_step,) * 2
        return self.order[self._offsets[first] : self._offsets[last if micro_step is None else last + 1]]

    @property
    def n_dummies(self) -> int:
        """Empty places under `Counts.PADDED`, where a rank runs a dummy of weight zero."""
        if self.problem.grid.counts is not Counts.PADDED:
            return 0
        return self.problem.most_per_cell * self.problem.grid.n_cells - self.problem.n_packs

    @cached_property
    def home(self) -> Plan | None:
        """The plan that moves nothing; None without home, or where home breaks the counts."""
        if self.problem.home is None:
            return None
        try:
            return Plan(self.problem, self.problem.home, "StayHome()")
        except InvalidPlan:
            return None

    def or_home(self, bytes_per_unit: int | None = None) -> Plan:
        """Return this plan if it is worth moving for, else the home plan with ``stayed=True``; never worse than home.

        ``bytes_per_unit``: bytes that a rank moves in the time of one integer of load. The plan is worth it if its cost
        plus the time of the rank that moves most is below the cost of home (None: moving is free, ties stay home).
        """
        if self.home is None:
            return self
        price = 0
        if bytes_per_unit is not None:
            bytes_per_unit = as_int("bytes_per_unit", bytes_per_unit, InvalidProblem, least=1)
            if self.busiest_bytes is None:
                raise InvalidProblem("or_home(bytes_per_unit) needs the packs' sizes: Problem(..., n_bytes=...).")
            price = -(-self.busiest_bytes // bytes_per_unit)
        if self.cost + price < self.home.cost:
            return self
        stays = self.home._copy()
        stays._claim(self.balancer, Status.HEURISTIC, self._proved, stayed=True)
        vars(stays)["home"] = self.home
        return stays

    def digest(self) -> str:
        """Return 32 hexadecimal digits that are equal exactly where grid, problem and cells are, on any machine."""
        problem, grid = self.problem, self.problem.grid
        counts = grid.counts.value if isinstance(grid.counts, Counts) else grid.counts
        size = (grid.n_ranks, grid.n_micro_steps, grid.n_steps, grid.slowdown, grid.ranks_per_node)
        head = (DIGEST_VERSION, *size, grid.barrier.value, counts, grid.stages)
        digest = blake2b(repr((*head, problem.loads.shape)).encode(), digest_size=16)
        for array in (problem.loads, problem.home, problem.n_bytes, self.cell):
            digest.update(b"-" if array is None else array.astype(array.dtype.newbyteorder("<")).tobytes())
            digest.update(b"|")
        for each in problem.constraints:
            digest.update(f"{each}|".encode() + each.values.astype("<i8").tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        moved = "" if self.moved is None else f", {self.moved_packs} packs moved"
        return (
            f"Plan({self.balancer or 'given'}: cost {self.cost}, gap {self.gap:.4%}, waste {self.waste:.2%}"
            f"{moved}, {self.status.value})"
        )
