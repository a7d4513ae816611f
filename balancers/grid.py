"""Where packs go: ranks x micro-steps, where ranks wait, and how many packs a cell takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from packing.arrays import as_int
from packing.texts import as_python, one_of

from .errors import Infeasible, InvalidGrid

__all__ = ["NOMINAL", "Barrier", "Counts", "Grid", "GridLike"]

NOMINAL = 1000  # the slowdown of a rank that takes one unit of time per unit of load


class Barrier(Enum):
    """Where ranks wait for each other."""

    STEP = "step"  # once, at the gradient synchronisation: cost = max over ranks of the rank's summed load
    MICRO_STEP = "micro_step"  # in every micro-step (FSDP, expert parallel): sum over micro-steps of the max over ranks
    STAGE = "stage"  # in every stage of every micro-step: the same, per stage


class Counts(Enum):
    """How many packs each cell takes."""

    FREE = "free"  # any number
    EQUAL = "equal"  # all the same; the number of packs must be a multiple of the number of cells
    WITHIN_ONE = "within_one"  # the mean, rounded down or up
    PADDED = "padded"  # at most the mean rounded up; places left empty are dummies


@dataclass(frozen=True, repr=False)
class Grid:
    """What is the same in every step.

    ``counts`` may also be a pair (fewest, most) of packs per cell. ``stages`` names the columns of the loads.
    ``n_steps``: plan a window of so many optimizer steps at once. Packs may then change their step: the order of the
    data changes (`Plan.moved_steps` counts how often). ``slowdown``: (n_ranks,) time per unit of load in thousandths,
    1000 nominal, 2000 for a rank that takes twice as long. ``ranks_per_node``: ranks r and s share a node where
    r // ranks_per_node == s // ranks_per_node; `LeastMovement` prefers moves inside one.
    """

    n_ranks: int
    n_micro_steps: int = 1
    barrier: Barrier = Barrier.STEP
    counts: Counts | tuple[int, int] = Counts.FREE
    stages: tuple[str, ...] = ("load",)
    n_steps: int = 1
    slowdown: tuple[int, ...] | None = None
    ranks_per_node: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_ranks", "n_micro_steps", "n_steps"):
            # cells are numbered in int32
            object.__setattr__(self, name, as_int(name, getattr(self, name), InvalidGrid, least=1, most=2**31 - 1))
        if self.n_cells > 2**31 - 1:
            raise InvalidGrid(
                f"n_ranks x n_micro_steps x n_steps must be below 2**31; got {self.n_ranks} x {self.n_micro_steps} x "
                f"{self.n_steps}."
            )
        if not isinstance(self.barrier, Barrier):
            raise InvalidGrid(f"barrier must be a member of Barrier; got {self.barrier!r}. Use {one_of(Barrier)}.")
        if not isinstance(self.counts, Counts):
            object.__setattr__(self, "counts", _checked_range(self.counts))
        given: object = self.stages
        stages = tuple(given) if isinstance(given, tuple | list) else ()
        if not (stages and all(isinstance(stage, str) for stage in stages) and len(set(stages)) == len(stages)):
            raise InvalidGrid(f"stages must be one or more different names; got {self.stages!r}.")
        object.__setattr__(self, "stages", stages)
        if self.slowdown is not None:
            object.__setattr__(self, "slowdown", _checked_slowdown(self.slowdown, self.n_ranks))
        if self.ranks_per_node is not None:
            per_node = as_int("ranks_per_node", self.ranks_per_node, InvalidGrid, least=1, most=2**31 - 1)
            object.__setattr__(self, "ranks_per_node", per_node)

    def __repr__(self) -> str:
        return as_python(self)

    @classmethod
    def of(cls, grid: GridLike) -> Grid:
        """Return ``grid`` itself, or ``Grid(grid)`` for a number of ranks."""
        return grid if isinstance(grid, cls) else cls(grid)  # type: ignore[arg-type]

    @property
    def n_cells(self) -> int:
        """Number of cells: ranks x micro-steps of all steps. Cell = micro-step x n_ranks + rank."""
        return self.n_ranks * self.total_micro_steps

    @property
    def total_micro_steps(self) -> int:
        """Number of micro-steps in all steps of the window; they are numbered through."""
        return self.n_micro_steps * self.n_steps

    def counts_for(self, n_packs: int) -> tuple[int, int]:
        """Return the fewest and the most packs a cell may hold; `Infeasible` if ``n_packs`` cannot be spread so."""
        fewest, most = n_packs // self.n_cells, -(-n_packs // self.n_cells)
        cells = f"{self.n_ranks} x {self.total_micro_steps} cells"
        match self.counts:
            case Counts.FREE:
                return 0, n_packs
            case Counts.WITHIN_ONE:
                return fewest, most
            case Counts.PADDED:
                return most if fewest == most else 0, most  # no empty place: no cell can hold fewer
            case Counts.EQUAL:
                if fewest < most:
                    empty = most * self.n_cells - n_packs
                    raise Infeasible(
                        f"equal counts need n_packs divisible by n_ranks x n_micro_steps; {n_packs} packs, {cells}. "
                        f"Use Counts.WITHIN_ONE, or Counts.PADDED for {empty} empty place{'s' * (empty > 1)}."
                    )
                return fewest, most
            case low, high:
                if not low * self.n_cells <= n_packs <= high * self.n_cells:
                    raise Infeasible(
                        f"{n_packs} packs do not fit in {cells} of {low} to {high} packs each: these hold "
                        f"{low * self.n_cells} to {high * self.n_cells}. Widen counts."
                    )
                return low, min(high, n_packs)


GridLike: TypeAlias = Grid | int


def _checked_slowdown(slowdown: tuple[int, ...], n_ranks: int) -> tuple[int, ...] | None:
    """Return the slowdown of each rank, or None if all are nominal."""
    try:
        slowdown = tuple(slowdown)
    except TypeError:
        raise InvalidGrid(f"slowdown must have one value per rank; got {slowdown!r}.") from None
    if len(slowdown) != n_ranks:
        raise InvalidGrid(f"slowdown must have one value per rank; {len(slowdown)} for {n_ranks} ranks.")
    checked = tuple(
        as_int(f"slowdown[{rank}]", value, _invalid_slowdown, least=1, most=2**31 - 1)
        for rank, value in enumerate(slowdown)
    )
    return None if set(checked) == {NOMINAL} else checked


def _invalid_slowdown(text: str) -> InvalidGrid:
    return InvalidGrid(f"{text} It is in thousandths: {NOMINAL} nominal, {2 * NOMINAL} for a rank half as fast.")


def _checked_range(counts: tuple[int, int]) -> tuple[int, int]:
    try:
        low, high = counts
    except (TypeError, ValueError):
        raise InvalidGrid(
            f"counts must be a member of Counts or a pair (fewest, most); got {counts!r}. Use {one_of(Counts)}."
        ) from None
    low = as_int("counts[0]", low, InvalidGrid, least=0)
    return low, as_int("counts[1]", high, InvalidGrid, least=low)
