"""How many public makespan instances with known optima does each balancer solve, how far off is it, and how fast?"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from balancers import Balancer, Problem
from packing import EvenstepError

__all__ = ["BadInstance", "Instance", "Solved", "read_instances", "solve"]


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


def read_instances(path: Path) -> list[Instance]:
    """Return the instances of a ``.jsonl`` or ``.jsonl.gz`` file: objects with name, machines, optimum and jobs."""
    opener: Callable[..., object] = gzip.open if path.suffix == ".gz" else open
    instances: list[Instance] = []
    try:
        with opener(path, "rt", encoding="utf-8") as lines:  # type: ignore[attr-defined]
            for line in lines:
                values = json.loads(line)
                instances.append(Instance(values["name"], values["machines"], values["optimum"], tuple(values["jobs"])))
    except OSError as error:
        raise BadInstance(f"{path}: cannot be read: {error}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadInstance(
            f"{path}: row {len(instances) + 1} must be an object with name, machines, optimum and jobs: {error}."
        ) from error
    if not instances:
        raise BadInstance(f"{path}: no instances.")
    return instances


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
