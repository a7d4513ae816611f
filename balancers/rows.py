"""Which rank takes which cell of a micro-step: free as far as the cost goes, so used to even out the ranks."""

from __future__ import annotations

import numpy as np

from packing.arrays import Int64
from packing.jit import kernel

from .ordering import falling_order

__all__ = ["even_rows"]

PARTNERS = 8  # light ranks that a heavy one looks at in a round
STEPS_PER_CELL = 400  # the budget, in exchanges looked at
CLOSE_ENOUGH = 20_000  # the search ends within one part in so many of the mean


@kernel
def even_rows(load: Int64, rows: Int64, order: Int64) -> Int64:
    """Return the bin that each rank takes in each micro-step, (n_micro_steps, n_ranks), so that rank totals are even.

    ``load``: (n_bins,). ``rows``: (n_micro_steps, n_ranks) the bins of each micro-step, heaviest first. First the
    heaviest bin of each row goes to the rank with the smallest total so far, rows in ``order``. Then, in rounds, every
    rank above the mean exchanges its bins of one or two micro-steps with one of the lightest ranks not yet used in the
    round, whichever brings the fuller of both lowest. The cost stays as it is: no bin leaves its micro-step.
    """
    n_rows, n_ranks = rows.shape
    taken = np.empty((n_ranks, n_rows), dtype=np.int64)
    value = np.empty((n_ranks, n_rows), dtype=np.int64)
    total = np.zeros(n_ranks, dtype=np.int64)
    for row in order:
        ranks = falling_order(total)
        for place in range(n_ranks):
            rank = ranks[n_ranks - 1 - place]
            taken[rank, row], value[rank, row] = rows[row, place], load[rows[row, place]]
            total[rank] += value[rank, row]
    mean = -(-total.sum() // n_ranks)
    target, budget = mean + mean // CLOSE_ENOUGH, STEPS_PER_CELL * n_rows * n_ranks
    touched = np.full(n_ranks, -1, dtype=np.int64)  # the last round that changed the rank
    steps, round_, wide = 0, 0, False
    while steps < budget:
        ranking = falling_order(total)
        steps += 20 * n_ranks
        changed, lightest = 0, n_ranks - 1
        for place in range(1 if wide else n_ranks):
            rank = ranking[place]
            if total[rank] <= target or steps >= budget:
                break
            if touched[rank] == round_:
                continue
            while touched[ranking[lightest]] == round_:
                lightest -= 1
            best, partner, first, second = total[rank], -1, 0, 0
            candidate, tries = lightest, 0
            while candidate > place and best > target and (wide or tries < PARTNERS):
                other = ranking[candidate]
                candidate -= 1
                if touched[other] == round_:
                    continue
                if (total[rank] + total[other] + 1) // 2 >= best:
                    break  # and all others are heavier
                tries += 1
                steps += n_rows * (n_rows + 1) // 2
                for a in range(n_rows):
                    moved_a = value[rank, a] - value[other, a]
                    peak = max(total[rank] - moved_a, total[other] + moved_a)
                    if peak < best:
                        best, partner, first, second = peak, other, a, a
                    for b in range(a + 1, n_rows):
                        moved = moved_a + value[rank, b] - value[other, b]
                        peak = max(total[rank] - moved, total[other] + moved)
                        if peak < best:
                            best, partner, first, second = peak, other, a, b
            if partner >= 0:
                for row in range(n_rows):
                    if row in (first, second):
                        moved = value[rank, row] - value[partner, row]
                        total[rank] -= moved
                        total[partner] += moved
                        value[rank, row], value[partner, row] = value[partner, row], value[rank, row]
                        taken[rank, row], taken[partner, row] = taken[partner, row], taken[rank, row]
                touched[rank] = touched[partner] = round_
                changed += 1
        if changed == 0:
            if wide or total.max() <= target:
                break
            wide = True  # the heaviest rank alone, against all others
        else:
            wide = False
        round_ += 1
    return taken.T.copy()
