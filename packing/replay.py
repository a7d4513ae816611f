"""Answers given again in other processes, under all that must not matter to them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from typing import TypeVar

__all__ = ["CONDITIONS", "Condition", "answers_under"]

T = TypeVar("T")
CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")


@dataclass(frozen=True)
class Condition:
    """What is different in a process; ``environment`` is set before Python starts."""

    name: str
    environment: tuple[tuple[str, str], ...] = ()
    random_used: bool = False  # the global random states have been drawn from
    one_cpu: bool = False  # the machine looks as if it had a single core
    clock_races: bool = False  # every look at a clock is a second later than the one before
    under_load: bool = False  # another thread keeps a core busy


def _without_cpu_features() -> str:
    """Return the CPU features that numpy chooses its loops by here: they decide how its default sort breaks ties."""
    from numpy._core import _multiarray_umath as umath  # type: ignore[attr-defined]  # numpy tells nowhere else

    return " ".join(feature for feature in umath.__cpu_dispatch__ if umath.__cpu_features__.get(feature))


def _threads(n: int) -> tuple[tuple[str, str], ...]:
    return tuple((f"{name}_NUM_THREADS", str(n)) for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"))


CONDITIONS = (
    Condition(
        "hash seed 1, one thread on one core", (("PYTHONHASHSEED", "1"), *_threads(1)), random_used=True, one_cpu=True
    ),
    Condition("hash seed 2, a racing clock", (("PYTHONHASHSEED", "2"),), clock_races=True),
    Condition(
        "hash seed 3, two threads, a plain CPU, under load",
        (("PYTHONHASHSEED", "3"), ("NPY_DISABLE_CPU_FEATURES", _without_cpu_features()), *_threads(2)),
        under_load=True,
    ),
)


def answers_under(
    conditions: Sequence[Condition], answer: Callable[[T], str], cases: Sequence[T], timeout_s: float = 180.0
) -> list[list[str] | str]:
    """Answer all cases in one fresh process per condition, side by side.

    Returns, per condition, the answers, or the text of what went wrong. Classes and functions are found by import, as
    multiprocessing's spawn does it: a script needs its ``if __name__ == "__main__"``.
    """
    context = multiprocessing.get_context("spawn")
    try:
        work = pickle.dumps((answer, list(cases)))
    except (pickle.PicklingError, AttributeError) as error:
        return [f"it cannot travel: {error}. Define the class at the top level of a module"] * len(conditions)
    started = []
    for condition in conditions:
        here, there = context.Pipe(duplex=False)
        with _environment(condition.environment):
            process = context.Process(target=_replay, args=(there, condition, work), daemon=True)
            process.start()
        there.close()
        started.append((process, here))
    deadline = time.monotonic() + timeout_s
    results = []
    for process, here in started:
        results.append(_answer(here, deadline - time.monotonic(), timeout_s))
        process.kill()
        process.join()
        process.close()
        here.close()
    return results


def _answer(connection: Connection, wait_s: float, timeout_s: float) -> list[str] | str:
    if not connection.poll(max(wait_s, 0.0)):
        return f"no answer within {timeout_s:.0f} s"
    try:
        answer: list[str] | str = connection.recv()
    except EOFError:
        return 'the process died. A script must start its work under if __name__ == "__main__":'
    return answer


@contextmanager
def _environment(changes: Sequence[tuple[str, str]]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _replay(connection: Connection, condition: Condition, work: bytes) -> None:
    """Runs in the other process. The work is unpickled late, so that its modules import under the condition."""
    try:
        if condition.random_used:
            _use_random()
        if condition.one_cpu:
            os.cpu_count = lambda: 1
        if condition.under_load:
            threading.Thread(target=_spin, daemon=True).start()
        if condition.clock_races:
            _race_clocks()
        answer, cases = pickle.loads(work)
        connection.send([answer(case) for case in cases])
    except BaseException as error:  # whatever it is belongs to the parent
        connection.send(f"{type(error).__name__}: {error}")


def _use_random() -> None:
    import random

    import numpy as np

    random.random()
    np.random.random(17)


def _spin() -> None:
    import numpy as np

    values = np.arange(100_000)[::-1]
    while True:
        np.sort(values)  # releases the GIL: a busy core, not a busy interpreter


def _race_clocks() -> None:
    for name in CLOCKS:
        ticks = count(int(getattr(time, name)()))
        setattr(time, name, lambda ticks=ticks: float(next(ticks)))
        setattr(time, f"{name}_ns", lambda ticks=ticks: next(ticks) * 1_000_000_007)
