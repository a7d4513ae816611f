"""Proofs that no plan respects the constraints of a problem, each with a witness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from packing.arrays import Int64, sums_by_key

from .constraints import Cap, Constraint
from .errors import Infeasible, NoPlanFound
from .grid import Grid

if TYPE_CHECKING:
    from .base import Balancer
    from .problem import Problem

__all__ = ["check_feasible", "no_plan"]


def no_plan(problem: Problem, balancer: Balancer) -> Infeasible | NoPlanFound:
    """Return the error for a search without success: `Infeasible` where dual feasible functions prove that a cap is too
    small for the cells, else `NoPlanFound`."""
    from .dual_feasible import dual_feasible_bound

    cells = problem.grid.n_cells
    for cap in problem.constraints:
        if isinstance(cap, Cap) and cap.limit > 0:
            falling = np.sort(cap.amounts[cap.amounts > 0])[::-1].copy()
            needed = dual_feasible_bound(falling, cells, cap.limit, int(falling.sum()))
            if needed > cap.limit:
                return Infeasible(
                    f"{cap}: in {cells} cells some cell must hold {needed} at least, by dual feasible functions. "
                    f"Raise the limit, or use more micro-steps."
                )
    named = ", ".join(map(str, problem.constraints)) or f"{problem.fewest_per_cell} to {problem.most_per_cell} packs"
    return NoPlanFound(
        f"{balancer!r} found no plan that respects {named}; there may be one. "
        f"Try ILP, more micro-steps, or a higher limit."
    )


def check_feasible(
    constraints: Sequence[Constraint], grid: Grid, group: Int64, pin: Int64, counts: tuple[int, int]
) -> None:
    """Raise `Infeasible` with a witness where a simple argument shows that no plan respects the constraints.

    ``group``, ``pin``: (n_packs,) as `Problem` merged them; ``counts``: fewest and most packs per cell. The arguments:
    a pack above a cap; more in all than all cells hold; more packs above half a cap than cells; a rank or a group with
    more than the micro-steps of one rank hold. What passes may still be infeasible.
    """
    on_rank = _sums(pin, np.ones(len(pin), dtype=np.int64), grid.n_ranks)
    in_group = _sums(group, np.ones(len(group), dtype=np.int64))
    fewest, most = (count * grid.total_micro_steps for count in counts)
    _check_places(on_rank, most, "Pinned binds", "to rank")
    _check_places(in_group, most, "Together holds", "in group")
    free = int(np.count_nonzero(pin < 0))
    missing = np.maximum(fewest - on_rank, 0)
    if int(missing.sum()) > free:
        raise Infeasible(
            f"Pinned leaves {free} packs free, but the ranks need {int(missing.sum())} more to hold at least {fewest} "
            f"each; rank {int(np.argmax(missing))} has {int(on_rank[np.argmax(missing)])}. Bind fewer, or widen counts."
        )
    for cap in constraints:
        if isinstance(cap, Cap):
            _check_cap(cap, grid, group, pin, counts[0])


def _check_places(count: Int64, most: int, what: str, where: str) -> None:
    over = count > most
    if over.any():
        i = int(np.argmax(over))
        raise Infeasible(
            f"{what} {count[i]} packs {where} {i}, but the cells of a rank hold at most {most}. "
            f"Widen counts, or bind fewer."
        )


def _check_cap(cap: Cap, grid: Grid, group: Int64, pin: Int64, fewest: int) -> None:
    amounts, limit = cap.amounts, cap.limit
    if (amounts > limit).any():
        i = int(np.argmax(amounts > limit))
        raise Infeasible(f"{cap} is below pack {i}, which has {amounts[i]}. Raise the limit, or split the pack.")
    if 1 < fewest <= len(amounts):
        i, companions = (
            int(np.argmax(amounts)),
            int(np.sort(np.delete(amounts, np.argmax(amounts)))[: fewest - 1].sum()),
        )
        if int(amounts[i]) + companions > limit:
            raise Infeasible(
                f"{cap}: pack {i} has {amounts[i]}, and the {fewest - 1} smallest beside it in a cell of at least "
                f"{fewest} packs have {companions}. Raise the limit, or widen counts."
            )
    total, cells = int(amounts.sum()), grid.n_cells
    if total > limit * cells:
        raise Infeasible(
            f"{cap} lets {cells} cells hold {limit * cells}; the packs have {total}. "
            f"It takes {-(-total // max(limit, 1))} cells at least: use more micro-steps."
        )
    large = int(np.count_nonzero(amounts > limit // 2))
    if large > cells:
        raise Infeasible(
            f"{cap}: {large} packs have more than half of it, so no two of them share a cell, and there are {cells} "
            f"cells. Use more micro-steps."
        )
    room = limit * grid.total_micro_steps
    for what, sums in (("Pinned: rank", _sums(pin, amounts)), ("Together: group", _sums(group, amounts))):
        if (sums > room).any():
            i = int(np.argmax(sums > room))
            raise Infeasible(
                f"{cap} lets the {grid.total_micro_steps} cells of a rank hold {room}; {what} {i} has {sums[i]}. "
                f"Use more micro-steps, or bind fewer."
            )


def _sums(key: Int64, amounts: Int64, n: int = 0) -> Int64:
    """Sum ``amounts`` by ``key`` (-1 left out), (largest key + 1,), at least ``n``."""
    bound = key >= 0
    return sums_by_key(amounts[bound], key[bound], max(int(key.max(initial=-1)) + 1, n))
