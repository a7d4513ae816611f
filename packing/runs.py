"""Best fit decreasing over lengths instead of pieces: packs that hold the same are one run, and move as one."""

from __future__ import annotations

import numpy as np

from .arrays import Int32, Int64
from .bitset import UInt64, add, empty_set, remove, smallest_from
from .counting import index
from .jit import kernel

__all__ = ["best_fit_in_runs"]


@kernel
def best_fit_in_runs(counts: Int64, capacity: int, pack_of: Int32) -> Int64:
    """Fill ``pack_of``, (n,): of each piece, from largest to smallest. Return where each size begins in it, by size.

    Pieces of one size come one after the other, and best fit gives the fullest pack with room as many of them as it
    takes: its room only shrinks, so it stays the smallest that suffices. All packs of that room do the same, the last
    touched first. So packs of equal room that were treated alike, a range of numbers, are a run; a size takes whole
    runs, and splits the last. Runs of equal room form a stack; a `bitset` over rooms finds the smallest that suffices.
    O(n) to write the answer, else O(number of sizes + capacity): each step uses up a run or a size.
    """
    start = np.zeros(capacity + 1, dtype=np.int64)
    # a size opens at most one run, and splits at most one into three
    # last touched pack, how many, step to the pack touched before it, run below in the stack
    runs = np.empty((3 * np.count_nonzero(counts) + 1, 4), dtype=np.int64)
    top = np.full(capacity + 1, -1, dtype=np.int64)  # room -> run
    words, summary = empty_set(capacity)  # rooms that some run has
    place, n_packs, n_runs = 0, 0, 0
    for size in range(capacity, -1, -1):
        left = counts[size]
        start[size] = place
        while left > 0:
            room = smallest_from(words, summary, size)
            if room >= 0:
                run = top[room]
                top[room] = runs[run, 3]
                if top[room] < 0:
                    remove(words, summary, room)
                each = room // size if size > 0 else left  # pieces that a pack of this room takes
            else:  # as many new packs as there are pieces for
                room, run, n_runs = capacity, n_runs, n_runs + 1
                each = room // size if size > 0 else left
                runs[run, 0], runs[run, 1], runs[run, 2] = n_packs, -(-left // each), 1
                n_packs += runs[run, 1]
            first, width, step = runs[run, 0], runs[run, 1], runs[run, 2]
            full = width if width * each <= left else left // each  # packs that take so many
            more = left - full * each if full < width else 0  # what the next one takes, fewer
            if each == 1:  # most pieces: written on vectors
                for i in range(full):
                    pack_of[index(place + i)] = first + i * step
                place += full
            else:
                for i in range(full):
                    for _ in range(each):
                        pack_of[index(place)] = first + i * step
                        place += 1
            pack_of[place : place + more] = first + full * step
            place += more
            left -= full * each + more
            untouched = width - full - (more > 0)
            if untouched > 0:
                _push(runs, n_runs, first + (width - untouched) * step, untouched, step, room, top, words, summary)
                n_runs += 1
            if full > 0:
                _push(runs, run, first + (full - 1) * step, full, -step, room - each * size, top, words, summary)
            if more > 0:
                _push(runs, n_runs, first + full * step, 1, step, room - more * size, top, words, summary)
                n_runs += 1
    return start


@kernel
def _push(
    runs: Int64, run: int, last: int, width: int, step: int, room: int, top: Int64, words: UInt64, summary: UInt64
) -> None:
    """Let ``run`` be the ``width`` packs from ``last`` in steps of ``step``, and put it on the stack of ``room``."""
    runs[run, 0], runs[run, 1], runs[run, 2], runs[run, 3] = last, width, step, top[room]
    top[room] = run
    add(words, summary, room)
