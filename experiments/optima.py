"""How many public instances with known optima does each balancer or packer solve, how far off is it, and how fast?"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from balancers import Balancer, Problem
from packing import EvenstepError, Packer, column_generation_bound

__all__ = [
    "BadInstance",
    "BinInstance",
    "Instance",
    "Packed",
    "Solved",
    "bin_bounds",
    "read_instances",
    "solve",
    "solve_bins",
]


class BadInstance(EvenstepError, ValueError):
    """A file or line that holds no instance, or an optimum that a plan or a bound refutes."""


@dataclass(frozen=True)
class Instance:
    """Jobs for identical machines (P||Cmax) with the least possible makespan."""

    name: str
    machines: int
    optimum: int
    jobs: tuple[int, ...]


@dataclass(frozen=True)
class BinInstance:
    """Pieces for bins of one capacity (bin packing), with the best known bounds on their number."""

    name: str
    capacity: int
    lower: int
    upper: int
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Solved:
    """One balancer on all instances of a file. ``gap``: mean of cost / optimum - 1. Times: CPU, in milliseconds."""

    family: str
    balancer: str
    n: int
    solved: float  # share with cost = optimum
    proven: float  # share whose bound shows it
    gap: float
    ms_mean: float
    ms_max: float


@dataclass(frozen=True)
class Packed:
    """One packer on all bin packing instances of a file.

    ``gap``: mean of packs / best known - 1. ``bound_gap``: mean of best known / bound - 1, where the bound is that of
    column generation, whose time is not counted. Times: CPU, in milliseconds.
    """

    family: str
    packer: str
    n: int
    solved: float  # share with packs = best known
    proven: float  # share whose bound shows it
    gap: float
    bound_gap: float
    ms_mean: float
    ms_max: float


def read_instances(path: Path) -> list[Instance] | list[BinInstance]:
    """Return the instances of a ``.jsonl`` or ``.jsonl.gz`` file.

    Objects with name, machines, optimum and jobs, or with name, capacity, lower, upper and lengths, by the first one.
    """
    opener: Callable[..., object] = gzip.open if path.suffix == ".gz" else open
    rows = _rows(path, opener)
    if isinstance(rows[0], dict) and "capacity" in rows[0]:
        return [BinInstance(*_values(BinInstance, path, *row)) for row in enumerate(rows, start=1)]
    return [Instance(*_values(Instance, path, *row)) for row in enumerate(rows, start=1)]


def _rows(path: Path, opener: Callable[..., object]) -> list[object]:
    rows: list[object] = []
    try:
        with opener(path, "rt", encoding="utf-8") as lines:  # type: ignore[attr-defined]
            for line in lines:
                rows.append(json.loads(line))
    except (OSError, EOFError, zlib.error) as error:  # the latter two: a damaged .gz
        raise BadInstance(f"{path}: cannot be read: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise BadInstance(f"{path}: row {len(rows) + 1} must be an object: {error}.") from error
    if not rows:
        raise BadInstance(f"{path}: no instances.")
    return rows


def _values(kind: type[Instance | BinInstance], path: Path, number: int, row: Any) -> list[Any]:
    """Return the values of a row in the order of the fields of ``kind``: a name, integers, and a list of integers."""
    names = [field.name for field in fields(kind)]
    try:
        name, *integers, several = (row[name] for name in names)
        for each in (*integers, *several):
            if type(each) is not int:
                raise TypeError(f"{each!r} is not an integer")
        return [name, *integers, tuple(several)]
    except (KeyError, TypeError) as error:
        text = f"{', '.join(names[:-1])} and {names[-1]}"
        raise BadInstance(f"{path}: row {number} must be an object with {text}: {error}.") from error


def solve(balancer: Balancer, family: str, instances: Sequence[Instance]) -> Solved:
    """Plan every instance with free counts; raise `BadInstance` if a plan or a bound contradicts a listed optimum."""
    balancer.plan(Problem(instances[0].jobs, instances[0].machines))  # compiles; not counted
    n_solved = n_proven = 0
    gaps, times_ms = [], []
    for instance in instances:
        problem = Problem(instance.jobs, instance.machines)
        start = process_time()
        plan = balancer.plan(problem)
        times_ms.append(1000 * (process_time() - start))
        if not plan.lower_bound <= instance.optimum <= plan.cost:
            raise BadInstance(
                f"{instance.name}: the optimum is listed as {instance.optimum}, but {plan!r} has the bound "
                f"{plan.lower_bound}."
            )
        n_solved += plan.cost == instance.optimum
        n_proven += plan.cost == plan.lower_bound
        gaps.append(plan.cost / instance.optimum - 1 if instance.optimum else 0.0)
    n = len(instances)
    return Solved(
        family, repr(balancer), n, n_solved / n, n_proven / n, sum(gaps) / n, sum(times_ms) / n, max(times_ms)
    )


def bin_bounds(instances: Sequence[BinInstance]) -> list[int]:
    """Return the bound of column generation for each; raise `BadInstance` if it refutes a best known packing, or
    for a piece that fits in no pack."""
    bounds = []
    for instance in instances:
        longest = max(instance.lengths, default=0)
        if not 0 < longest <= instance.capacity:
            raise BadInstance(
                f"{instance.name}: the longest piece must be 1 to {instance.capacity}, the capacity; it is {longest}."
            )
        bound = column_generation_bound(np.array(instance.lengths, dtype=np.int64), instance.capacity)
        if bound > instance.upper:
            raise BadInstance(f"{instance.name}: {instance.upper} packs are listed, but at least {bound} are needed.")
        bounds.append(bound)
    return bounds


def solve_bins(packer: Packer, family: str, instances: Sequence[BinInstance], bounds: Sequence[int]) -> Packed:
    """Pack every instance; raise `BadInstance` if a packing undercuts the listed lower bound."""
    packer.pack(instances[0].lengths, instances[0].capacity)  # compiles; not counted
    n_solved = n_proven = 0
    gaps, bound_gaps, times_ms = [], [], []
    for instance, bound in zip(instances, bounds, strict=True):
        start = process_time()
        n_packs = len(packer.pack(instance.lengths, instance.capacity))
        times_ms.append(1000 * (process_time() - start))
        if n_packs < instance.lower:
            raise BadInstance(
                f"{instance.name}: {packer!r} needs {n_packs} packs, but the lower bound is listed as {instance.lower}."
            )
        n_solved += n_packs <= instance.upper
        n_proven += n_packs == bound
        gaps.append(n_packs / instance.upper - 1)
        bound_gaps.append(instance.upper / bound - 1)
    n = len(instances)
    means = n_solved / n, n_proven / n, sum(gaps) / n, sum(bound_gaps) / n, sum(times_ms) / n
    return Packed(family, repr(packer), n, *means, max(times_ms))
