"""One balancing problem: the loads of the packs and where they are. The only validation of loads in the package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from packing.arrays import SUM_LIMIT, Int32, Int64, as_int, as_int64, descending_order, read_only

from .constraints import Constraint, checked_constraints, merged_groups, merged_pins
from .errors import InvalidProblem
from .feasibility import check_feasible
from .grid import Barrier, Grid, GridLike

__all__ = ["Problem"]

REMEDY = "Loads are whole numbers >= 0 whose sum is below 2**62; Problem.from_floats scales others."


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Packs to be spread over the cells of a grid; all arrays are checked, read-only copies.

    ``loads``: (n_packs,) or (n_packs, n_stages), what each pack costs, integers >= 0.
    ``home``: (n_packs,) the cell that holds each pack now; None: nothing has a home, so nothing moves.
    ``n_bytes``: (n_packs,) what moving each pack costs.
    ``constraints``: `Cap` (several), `Together`, `Pinned` (one of each), hard in every plan.
    ``step``: the number of the step, for balancers that change from step to step; they hold no state.
    ``unit``: one integer of load in the caller's unit. ``rounding``: the most that scaling changed any load, in that
    unit (0 where exact).
    """

    loads: Int64
    grid: Grid
    home: Int32 | None = None
    n_bytes: Int64 | None = None
    step: int = 0
    unit: Fraction = Fraction(1)
    rounding: float = 0.0
    constraints: tuple[Constraint, ...] = ()
    fewest_per_cell: int = field(init=False)
    most_per_cell: int = field(init=False)

    def __init__(
        self,
        loads: ArrayLike,
        grid: GridLike,
        home: ArrayLike | None = None,
        n_bytes: ArrayLike | None = None,
        step: int = 0,
        unit: Fraction = Fraction(1),
        rounding: float = 0.0,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        """``grid`` may be a number of ranks. Raises `InvalidProblem`, `InvalidGrid` or `Infeasible` with its proof."""
        grid = Grid.of(grid)
        checked = as_int64("loads", loads, InvalidProblem, remedy=REMEDY, ndim=(1, 2), columns=grid.stages)
        if checked.ndim == 2 and checked.shape[1] != len(grid.stages):
            raise InvalidProblem(
                f"loads must have one column per stage; {checked.shape[1]} columns, stages {grid.stages}. "
                f"Name them in Grid(stages=...)."
            )
        if checked.ndim == 1 and len(grid.stages) > 1:
            raise InvalidProblem(f"loads must have one column per stage {grid.stages}; got shape {checked.shape}.")
        set_ = object.__setattr__
        set_(self, "loads", checked)
        set_(self, "grid", grid)
        set_(self, "home", None if home is None else self._checked_home(home))
        set_(self, "n_bytes", None if n_bytes is None else self._checked_bytes(n_bytes))
        set_(self, "step", as_int("step", step, InvalidProblem, least=0))
        set_(self, "unit", unit if type(unit) is Fraction else Fraction(unit))
        set_(self, "rounding", rounding)
        fewest, most = grid.counts_for(len(checked))
        set_(self, "fewest_per_cell", fewest)
        set_(self, "most_per_cell", most)
        set_(self, "constraints", checked_constraints(constraints, len(checked), grid.n_ranks))
        slowest = max(grid.slowdown or (1,))
        if int(checked.sum()) * slowest >= SUM_LIMIT:
            raise InvalidProblem(
                f"loads x slowdown must sum to less than 2**62; loads sum to {checked.sum()}, the slowest rank has "
                f"{slowest}. Use coarser loads."
            )
        if self.constraints:
            check_feasible(self.constraints, grid, self.group, self.pin, (fewest, most))

    @classmethod
    def from_floats(
        cls,
        loads: ArrayLike,
        grid: GridLike,
        home: ArrayLike | None = None,
        n_bytes: ArrayLike | None = None,
        constraints: Sequence[Constraint] = (),
    ) -> Problem:
        """Return the problem of float loads, scaled by a power of ten so that decimals stay exact where they can.

        ``problem.unit`` is the scale, ``problem.rounding`` the largest change it made. NaN, infinite and negative loads
        are refused with their index.
        """
        if np.ma.is_masked(loads):
            raise InvalidProblem("loads must not be masked; fill in or drop what is missing.")
        try:
            given = np.asarray(loads)
            if given.dtype.kind not in "iufO":
                raise TypeError(f"got dtype {given.dtype}")
            values = given.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidProblem(f"loads must be numbers; {error}.") from error
        if given.dtype.kind in "iu":
            return cls(given, grid, home, n_bytes, constraints=constraints)  # exact; floats are not beyond 2**53
        bad = ~np.isfinite(values) | (values < 0)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise InvalidProblem(f"loads must be finite and >= 0; loads{list(where)} = {values[where]}.")
        scaled, unit, rounding = _scale(values, max(Grid.of(grid).slowdown or (1,)))
        return cls(scaled, grid, home, n_bytes, unit=unit, rounding=rounding, constraints=constraints)

    @property
    def n_packs(self) -> int:
        """Number of packs."""
        return len(self.loads)

    @cached_property
    def total(self) -> Int64:
        """Load of each pack summed over stages, (n_packs,)."""
        return self.loads if self.loads.ndim == 1 else read_only(self.loads.sum(axis=1))

    @cached_property
    def by_stage(self) -> Int64:
        """Loads with one column per stage, (n_packs, n_stages)."""
        return self.loads.reshape(self.n_packs, len(self.grid.stages))

    @property
    def is_plain(self) -> bool:
        """Whether ranks are alike, no pack is constrained, and a pack's stages are waited for together: most balancers
        know nothing else."""
        grid = self.grid
        return not (self.constraints or grid.slowdown or grid.barrier is Barrier.STAGE or grid.n_steps > 1)

    @property
    def ranks_alike(self) -> bool:
        """Whether ranks can change their numbers: none is slower, and no pack is bound to one."""
        return self.grid.slowdown is None and not bool((self.pin >= 0).any())

    @cached_property
    def group(self) -> Int64:
        """Group of packs that stay on one rank, (n_packs,): 0, 1, ... without gaps, -1 for none."""
        return read_only(merged_groups(self.constraints, self.n_packs))

    @cached_property
    def pin(self) -> Int64:
        """Rank that each pack is bound to, itself or through its group, (n_packs,): -1 for none."""
        return read_only(merged_pins(self.constraints, self.group))

    @cached_property
    def heaviest_first(self) -> Int64:
        """Pack indices by falling total load, equal ones by index, (n_packs,)."""
        return read_only(descending_order(self.total))

    @cached_property
    def lower_bound(self) -> int:
        """A proven lower bound on the cost of every plan; see `bounds`."""
        from .bounds import lower_bound

        return lower_bound(self)

    def __reduce__(self) -> tuple[type[Problem], tuple[object, ...]]:
        return Problem, (
            self.loads,
            self.grid,
            self.home,
            self.n_bytes,
            self.step,
            self.unit,
            self.rounding,
            self.constraints,
        )

    def __repr__(self) -> str:
        shown = self.loads.tolist() if self.loads.size <= 64 else f"<{self.loads.shape} of sum {int(self.total.sum())}>"
        rest = "".join(
            f", {name}={array.tolist() if array.size <= 64 else array}"
            for name, array in (("home", self.home), ("n_bytes", self.n_bytes))
            if array is not None
        )
        step = f", step={self.step}" if self.step else ""
        bound = f", constraints=({', '.join(map(str, self.constraints))})" if self.constraints else ""
        return f"Problem({shown}, {self.grid}{rest}{step}{bound})"

    def _checked_home(self, home: ArrayLike) -> Int32:
        remedy = "A home is a cell: micro-step x n_ranks + rank."
        cells = as_int64("home", home, InvalidProblem, remedy=remedy, most=self.grid.n_cells - 1)
        self._check_length("home", cells)
        return read_only(cells.astype(np.int32))

    def _checked_bytes(self, n_bytes: ArrayLike) -> Int64:
        checked = as_int64("n_bytes", n_bytes, InvalidProblem, remedy="Sizes are bytes, whole numbers >= 0.")
        self._check_length("n_bytes", checked)
        return checked

    def _check_length(self, name: str, array: Int64) -> None:
        if len(array) != self.n_packs:
            raise InvalidProblem(f"{name} must have one value per pack; {len(array)} for {self.n_packs} packs.")


def _scale(values: NDArray[np.float64], slowest: int) -> tuple[Int64, Fraction, float]:
    """Return integers, the unit that turns them back, and the largest change: none where some power of ten is exact.

    Their sum times ``slowest`` stays below 2**62.
    """
    largest_sum = float(values.max(initial=0.0)) * values.size  # inf at worst
    most = min(2.0**53, SUM_LIMIT / (2 * slowest))
    for digits in range(18):
        factor = 10.0**digits
        if largest_sum * factor >= most:
            break  # beyond it, floats are no longer exact integers
        scaled = np.rint(values * factor)
        if np.array_equal(scaled / factor, values):
            return scaled.astype(np.int64), Fraction(1, 10**digits), 0.0
    if largest_sum < SUM_LIMIT / slowest and np.array_equal(np.rint(values), values):
        return values.astype(np.int64), Fraction(1), 0.0
    magnitude = math.log10(values.max()) + math.log10(values.size)
    unit = Fraction(10) ** math.ceil(magnitude - math.log10(most / 2))
    integers = [round(Fraction(value) / unit) for value in values.flat]
    rounding = max(
        abs(float(value - integer * unit)) for value, integer in zip(map(Fraction, values.flat), integers, strict=True)
    )
    return np.array(integers, dtype=np.int64).reshape(values.shape), unit, rounding
