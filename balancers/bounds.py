"""Lower bounds on the cost of any plan. Integers throughout; each says why it holds."""

from __future__ import annotations

import numpy as np

from packing.arrays import Int64, sums_by_key

from .constraints import unit_numbers
from .grid import NOMINAL, Barrier
from .problem import Problem

__all__ = ["lower_bound", "max_of_sums", "sum_of_max", "uniform_machines"]


def lower_bound(problem: Problem) -> int:
    """Return the best bound known for the barrier of the problem; 0 for no packs."""
    if problem.n_packs == 0:
        return 0
    bound = _slow(problem) if problem.grid.slowdown else _alike(problem)
    return max(bound, _bound_together(problem)) if problem.constraints else bound


def _alike(problem: Problem) -> int:
    """Bound the cost where all ranks are equally fast."""
    grid, fewest, most = problem.grid, problem.fewest_per_cell, problem.most_per_cell
    if grid.barrier is Barrier.STAGE:
        columns = [np.sort(column)[::-1] for column in problem.by_stage.T]
        return sum(sum_of_max(column, grid.n_ranks, grid.total_micro_steps, fewest, most) for column in columns)
    descending = problem.total[problem.heaviest_first]
    if grid.barrier is Barrier.MICRO_STEP:
        return sum_of_max(descending, grid.n_ranks, grid.total_micro_steps, fewest, most)
    fewest, most = fewest * grid.n_micro_steps, min(most * grid.n_micro_steps, problem.n_packs)
    if grid.n_steps > 1:
        return sum_of_max(descending, grid.n_ranks, grid.n_steps, fewest, most)
    return max_of_sums(descending[::-1], grid.n_ranks, fewest, most)


def _slow(problem: Problem) -> int:
    """Bound the cost where ranks differ in speed: per stage, where ranks wait in each."""
    stages = problem.by_stage.T if problem.grid.barrier is Barrier.STAGE else [problem.total]
    slowdown = np.sort(np.array(problem.grid.slowdown, dtype=np.int64))
    all_fast = -(-_alike(problem) * int(slowdown[0]) // NOMINAL)
    return max(all_fast, sum(uniform_machines(np.sort(loads)[::-1], slowdown) for loads in stages))


def _bound_together(problem: Problem) -> int:
    """Bound the cost by what one rank must do in all: a group, and packs bound to it. Every barrier costs that much."""
    n_ranks, total = problem.grid.n_ranks, problem.total
    pinned, unit = problem.pin >= 0, unit_numbers(problem.group)
    bound = sums_by_key(total[pinned], problem.pin[pinned], n_ranks)
    units = np.sort(sums_by_key(total, unit, int(unit.max(initial=-1)) + 1))
    if problem.grid.slowdown is None:
        return max(int(bound.max()), max_of_sums(units, n_ranks, 0, len(units)))
    slowdown = np.array(problem.grid.slowdown, dtype=np.int64)
    return max(int(-(-bound * slowdown // NOMINAL).max()), uniform_machines(units[::-1], np.sort(slowdown)))


def uniform_machines(falling: Int64, slowdown: Int64) -> int:
    """Bound the time of the last rank; ``slowdown``: (n_ranks,) thousandths of time per load, fastest first.

    The j largest loads are on at most j ranks, which are no faster than the j fastest: these need as long for the sum,
    each doing whole units; j = n_ranks stands for all loads. (Graham et al. 1979 call such ranks uniform machines.)
    """
    n, total = min(len(falling), len(slowdown)), int(falling.sum())
    largest = np.cumsum(falling[:n])
    if n == len(slowdown):
        largest[-1] = total
    low, high = 0, -(-total * int(slowdown[0]) // NOMINAL)
    while low < high:
        time = (low + high) // 2
        done = np.minimum(NOMINAL * time // slowdown[:n], total)
        # beyond one and a half totals all fit, and sums up to there stay in int64
        n_needed = int(np.searchsorted(np.cumsum(done, dtype=np.float64), 1.5 * total))
        if (np.cumsum(done[:n_needed]) >= largest[:n_needed]).all():
            high = time
        else:
            low = time + 1
    return low


def max_of_sums(ascending: Int64, n_bins: int, fewest: int, most: int) -> int:
    """Bound the largest of ``n_bins`` bin sums, each bin holding ``fewest`` to ``most`` of the values.

    * mean: some bin reaches the mean;
    * pigeonhole: of the (k - 1) n_bins + 1 largest values some bin holds k (Dell'Amico & Martello 1995), and beside
      them at least fewest - k others;
    * quantum: every sum is a multiple of the values' greatest common divisor; with a fixed number m of values in each
      bin it is m x the smallest value plus a multiple of the greatest common divisor of the differences.
    """
    n = len(ascending)
    if n == 0:
        return 0
    fewest = max(fewest, n - (n_bins - 1) * most)
    bound = -(-int(ascending.sum()) // n_bins)
    prefix = np.concatenate([[0], np.cumsum(ascending)])
    k = np.arange(1, (n - 1) // n_bins + 2)
    top = n - ((k - 1) * n_bins + 1)  # where the (k - 1) n_bins + 1 largest begin
    packs_of_top = prefix[top + k] - prefix[top]
    bound = max(bound, int((packs_of_top + prefix[np.maximum(fewest - k, 0)]).max()))
    least = int(ascending[0])
    if fewest * n_bins == n:
        step = _common_divisor(ascending - least)
        return _round_up(bound - fewest * least, step) + fewest * least
    return _round_up(bound, _common_divisor(ascending))


def sum_of_max(descending: Int64, n_ranks: int, n_rows: int, fewest: int, most: int) -> int:
    """Bound the sum over ``n_rows`` rows of the largest of a row's ``n_ranks`` cells of ``fewest`` to ``most`` values.

    Of the (j - 1) n_ranks most + 1 largest values at least j rows hold one, so the j-th most expensive row costs at
    least b_j = that value + the fewest - 1 smallest. Those j rows take in at most n_ranks times their cost, and at most
    `_most_held`; the other rows share what remains. (A row that costs more takes in at most n_ranks times as much more,
    so nothing is gained by it.)
    """
    n, row = len(descending), n_ranks * most
    prefix = np.concatenate([[0], np.cumsum(descending)])
    total = int(prefix[-1])
    companions = total - int(prefix[n - max(fewest - 1, 0)]) if fewest > 1 else 0
    least = descending[::row][:n_rows] + companions
    most_held = _most_held(descending, prefix, int(least[0]), n_ranks, len(least), most)
    best, paid, held = -(-total // n_ranks), 0, 0
    for b, limit in zip(least.tolist(), most_held.tolist(), strict=True):
        paid += b
        held = min(limit, held + n_ranks * b)
        best = max(best, paid + -(-max(total - held, 0) // n_ranks))
    return best


def _most_held(descending: Int64, prefix: Int64, cost: int, n_ranks: int, n_rows: int, most: int) -> Int64:
    """Bound what the 1, 2, ... ``n_rows`` most expensive rows take in, if the first costs ``cost``.

    No more than the largest values that they have places for. And, for any m: let q cells hold some of the m largest
    values. They take in at most ``cost`` each, the others at most what comes after those m; one cell more among the q
    takes the place of the last values counted, so q = m is the worst as long as these do not exceed ``cost``. The best
    m takes the values beside which a cell has no room for the last values counted.
    """
    n, places = len(descending), n_ranks * most * np.arange(1, n_rows + 1)
    full = prefix[np.minimum(places, n)]
    last = descending[np.minimum(places, n) - 1]
    m = np.minimum(n - np.searchsorted(descending[::-1], cost - (most - 1) * last, side="right"), n_ranks)
    counted = np.minimum(places - (most - 1) * m, n)
    held = m * cost + prefix[counted] - prefix[m]
    is_worst = prefix[np.minimum(counted + most, n)] - prefix[counted] <= cost
    return np.where(is_worst, np.minimum(full, held), full)


def _common_divisor(values: Int64) -> int:
    """Greatest common divisor of values >= 0; 0 if all are 0. A few vectorised passes, not n divisions in turn."""
    divisor = int(np.gcd.reduce(values[-64:]))
    while divisor > 1:
        rest = values % divisor
        if not rest.any():
            return divisor
        divisor = int(np.gcd(divisor, rest[np.argmax(rest > 0)]))
    if divisor == 0 and values.any():
        return int(np.gcd.reduce(values))
    return divisor


def _round_up(value: int, step: int) -> int:
    return value if step == 0 else -(-value // step) * step
