"""Turning what callers hand over into checked, read-only int64 arrays: the one place where numbers are validated."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import EvenstepError

__all__ = [
    "SUM_LIMIT",
    "Immutable",
    "Int32",
    "Int64",
    "as_int",
    "as_int64",
    "bounded_int64",
    "descending_order",
    "exact_sum",
    "read_only",
    "sums_by_key",
]

Int64: TypeAlias = NDArray[np.int64]
Int32: TypeAlias = NDArray[np.int32]
A = TypeVar("A", bound=np.ndarray)
P = ParamSpec("P")
AnyArray: TypeAlias = np.ndarray  # of any shape and kind, not yet checked
Error: TypeAlias = Callable[[str], EvenstepError]

CACHED = 2**16  # elements that stay in a CPU's cache while they are looked at three times
SUM_LIMIT = 2**62  # sums stay below it, so that adding or subtracting two of them never leaves int64


def as_int(name: str, value: object, error: Error, *, least: int, most: int = SUM_LIMIT - 1) -> int:
    """Return ``value`` as an int in [least, most]; bools, floats and texts are refused."""
    if type(value) is int and least <= value <= most:  # nearly always, and asking for the abstract class is slow
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise error(f"{name} must be an integer; got {value!r} ({type(value).__name__}).")
    if not least <= int(value) <= most:
        raise error(f"{name} must be in [{least}, {most}]; got {int(value)}.")
    return int(value)


class Bounded(NamedTuple):
    """Checked integers, the smallest and the largest: both the smallest allowed where there are none."""

    values: Int64
    smallest: int
    largest: int


def bounded_int64(
    name: str,
    values: ArrayLike,
    error: Error,
    *,
    remedy: str,
    ndim: Sequence[int] = (1,),
    least: int = 0,
    most: int = SUM_LIMIT - 1,
    columns: Sequence[str] = (),
    summed: bool = True,
) -> Bounded:
    """Return ``values`` as a read-only C-contiguous int64 copy whose sum is below 2**62 (``summed``; labels need not).

    ``error`` makes the exception from its text, ``remedy`` ends that text, ``columns`` names the columns of a
    two-dimensional array. Looks at each block while it is in the cache, for memory is what this waits for.
    """
    array = _as_array(name, values, error, remedy)
    if array.ndim not in ndim:
        wanted = " or ".join(f"{n}-dimensional" for n in ndim)
        kind = f" ({type(values).__name__})" if array.ndim == 0 else ""  # a number, a text, a generator
        raise error(f"{name} must be {wanted}; got shape {array.shape}{kind}. {remedy}")
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind == "f":
        _refuse_floats(name, array, error, remedy, columns)
    if array.dtype == object:
        _refuse_odd_objects(name, array, error, remedy, columns)
    if array.dtype.kind not in "iuO":
        first = _place(name, array, np.ones(array.shape, dtype=np.bool_), columns)
        raise error(f"{name} must be integers; got dtype {array.dtype}: {first}. {remedy}")
    result = np.empty(array.shape, dtype=np.int64)
    flat, copy = array.reshape(-1), result.reshape(-1)
    smallest, largest = (most, least) if array.size else (least, least)
    for begin in range(0, array.size, CACHED):
        block = flat[begin : begin + CACHED]
        smallest, largest = min(smallest, int(block.min())), max(largest, int(block.max()))
        if smallest < least or largest > most:
            bad, limit = (array < least, f">= {least}") if smallest < least else (array > most, f"<= {most}")
            raise error(f"{name} must be {limit}; {_place(name, array, bad, columns)}. {remedy}")
        copy[begin : begin + CACHED] = block
    if summed and largest * array.size >= SUM_LIMIT:
        total = exact_sum(result)
        if total >= SUM_LIMIT:
            raise error(f"the sum of {name} must be below 2**62; it is {total}. {remedy}")
    return Bounded(read_only(result), smallest, largest)


def _values_of(checked: Callable[P, Bounded]) -> Callable[P, Int64]:
    @wraps(checked)
    def values(*args: P.args, **kwargs: P.kwargs) -> Int64:
        return checked(*args, **kwargs).values

    return values


as_int64 = _values_of(bounded_int64)
"""The same, where only the values matter."""


class Immutable:
    """Base of frozen dataclasses of arrays: the arrays are read-only, also in copies and after pickling."""

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(getattr(self, each.name) for each in fields(self) if each.init)  # type: ignore[arg-type]


def read_only(array: A) -> A:
    """Return ``array`` itself, made read-only."""
    array.flags.writeable = False
    return array


def descending_order(values: Int64) -> Int64:
    """Return the indices of non-negative ``values`` from largest to smallest, equal ones by index.

    The order is the same on every CPU: where value and index fit together in 63 bits they are sorted as one integer
    (no ties, so numpy's fastest sort is safe), else by a stable sort.
    """
    n = len(values)
    index_bits = max(n - 1, 0).bit_length()
    largest = int(values.max(initial=0))
    if largest.bit_length() + index_bits > 63:
        return np.argsort(-values, kind="stable").astype(np.int64)
    keys = (largest - values) << index_bits
    keys += np.arange(n)
    keys.sort()
    keys &= (1 << index_bits) - 1
    return keys


def exact_sum(values: Int64) -> int:
    """Return the sum of fewer than 2**31 non-negative ``values``, also where it is beyond int64."""
    low = (1 << 31) - 1
    return (int((values >> 31).sum()) << 31) + int((values & low).sum())


def sums_by_key(amounts: Int64, key: Int64 | Int32, n: int) -> Int64:
    """Return the sums of ``amounts`` with each ``key``, 0 to n - 1, (n,), in integers and without numba, which data
    types must not load; packers have `counting.sums_by_group`."""
    sums = np.zeros(n, dtype=np.int64)
    np.add.at(sums, key, amounts)
    return sums


def _as_array(name: str, values: ArrayLike, error: Error, remedy: str) -> AnyArray:
    if np.ma.is_masked(values):
        raise error(f"{name} must not be masked; fill in or drop what is missing.")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as problem:  # ragged lists and the like
        seen = str(problem).rstrip(".")
        raise error(f"{name} must be a rectangular array of integers; {seen}. {remedy}") from problem


def _refuse_floats(name: str, array: AnyArray, error: Error, remedy: str, columns: Sequence[str]) -> None:
    odd = ~np.isfinite(array)
    if odd.any():
        raise error(f"{name} must be finite; {_place(name, array, odd, columns)}. {remedy}")
    fractions = array != np.floor(array)
    seen = (
        _place(name, array, fractions, columns) if fractions.any() else "all are whole, .astype(np.int64) converts them"
    )
    raise error(f"{name} must be integers; got dtype {array.dtype}: {seen}. {remedy}")


def _refuse_odd_objects(name: str, array: AnyArray, error: Error, remedy: str, columns: Sequence[str]) -> None:
    flags = [isinstance(x, bool) or not isinstance(x, numbers.Integral) for x in array.flat]
    odd = np.reshape(np.array(flags, dtype=np.bool_), array.shape)
    if odd.any():
        raise error(f"{name} must be integers; {_place(name, array, odd, columns)}. {remedy}")


def _place(name: str, array: AnyArray, bad: NDArray[np.bool_], columns: Sequence[str]) -> str:
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    column = f' ("{columns[where[1]]}")' if len(where) == 2 and where[1] < len(columns) else ""
    value: object = array[where]
    shown = repr(str(value)) if isinstance(value, str) else value  # a text that looks like a number
    return f"{name}[{', '.join(map(str, where))}]{column} = {shown}"
