"""Differencing by the book, on lists."""

from __future__ import annotations

__all__ = ["differencing_by_lists"]


def differencing_by_lists(rows: list[list[int]], *, open_first: bool) -> list[int]:
    """Merge the two falling ``rows`` of largest difference until one is left, and return it.

    Of equal differences the older row goes first; with ``open_first`` a row with an empty part goes before others.
    """
    aged = [(row, age) for age, row in enumerate(rows)]
    for age in range(len(rows), 2 * len(rows) - 1):
        aged.sort(key=lambda each: (each[0][-1] - each[0][0], open_first and 0 not in each[0], each[1]))
        (one, _), (other, _), *aged = aged
        aged.append((sorted((a + b for a, b in zip(one, reversed(other), strict=True)), reverse=True), age))
    return aged[0][0]
