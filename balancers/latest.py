"""Who ends latest in each row, and what an exchange of two packs changes about that. For compiled loops."""

from __future__ import annotations

from packing.arrays import Int64
from packing.jit import kernel

from .places import Places, State, time_of

__all__ = ["effect_of", "rank_row"]


@kernel
def rank_row(places: Places, state: State, row: int, top: Int64) -> None:
    """Work out the three latest ranks of a row in each stage, the lower of equal ones first; -1 for missing ones."""
    for stage in range(top.shape[1]):
        top[row, stage] = -1
        for rank in range(len(places.slowdown)):
            time = time_of(state.load[row, rank, stage], places.slowdown[rank])
            for place in range(3):
                other = top[row, stage, place]
                if other < 0 or time > time_of(state.load[row, other, stage], places.slowdown[other]):
                    top[row, stage, place + 1 :] = top[row, stage, place:2].copy()
                    top[row, stage, place] = rank
                    break


@kernel
def effect_of(
    places: Places, state: State, top: Int64, stage: int, pack: int, other: int, to: int
) -> tuple[int, int, bool]:
    """Return by how much an exchange raises the cost, the time of the later of both ranks in ``stage``, and whether it
    takes a rank from the latest in ``stage`` and makes none a latest anywhere."""
    n_ranks = len(places.slowdown)
    here = state.cell[pack]
    a, b = here % n_ranks, to % n_ranks
    row_a, row_b = places.row_of[here // n_ranks], places.row_of[to // n_ranks]
    if row_a == row_b and a == b:
        return 0, 0, False
    slow_a, slow_b = places.slowdown[a], places.slowdown[b]
    costs, peak, fewer = 0, 0, True
    for s in range(places.loads.shape[1]):
        given = places.loads[pack, s]
        if other >= 0:
            given -= places.loads[other, s]
        old_a, old_b = state.load[row_a, a, s], state.load[row_b, b, s]
        new_a, new_b = time_of(old_a - given, slow_a), time_of(old_b + given, slow_b)
        old_a, old_b = time_of(old_a, slow_a), time_of(old_b, slow_b)
        first = top[row_a, s, 0]
        latest_a = latest_b = time_of(state.load[row_a, first, s], places.slowdown[first])
        if row_a == row_b:
            costs += max(new_a, new_b, _latest_but(places, state, top, row_a, s, a, b)) - latest_a
        else:
            first = top[row_b, s, 0]
            latest_b = time_of(state.load[row_b, first, s], places.slowdown[first])
            costs += max(new_a, _latest_but(places, state, top, row_a, s, a, a)) - latest_a
            costs += max(new_b, _latest_but(places, state, top, row_b, s, b, b)) - latest_b
        fewer &= (new_a < latest_a or new_a <= old_a) and (new_b < latest_b or new_b <= old_b)
        if s == stage:
            fewer &= new_a < old_a and new_b < latest_b
            peak = max(new_a, new_b) if row_a == row_b else new_a
    return costs, peak, fewer


@kernel
def _latest_but(places: Places, state: State, top: Int64, row: int, stage: int, a: int, b: int) -> int:
    """Return the time of the latest rank of a row besides ``a`` and ``b``; 0 if there is none."""
    for rank in top[row, stage]:
        if rank >= 0 and rank not in (a, b):
            return time_of(state.load[row, rank, stage], places.slowdown[rank])
    return 0
