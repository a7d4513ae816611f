"""Planning beside other threads: it releases the GIL, and gives the same plans in all of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from balancers import LPT, Auto, Balancer, Counts, Grid, KarmarkarKarp, Problem, Refine
from balancers.testing import FAMILIES


@pytest.mark.parametrize("balancer", [LPT(), KarmarkarKarp(), Refine(LPT())], ids=repr)
def test_a_thread_goes_on_counting_while_a_big_plan_is_made(balancer: Balancer) -> None:
    """Kernels hold the GIL for nobody: between two of the counter's steps lies no whole kernel."""
    problem = Problem(FAMILIES["uniform"](np.random.default_rng(0), 200_000), Grid(25_000, counts=Counts.EQUAL))
    balancer.plan(Problem([3, 1, 2], 3))  # compiled
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    before = counted[0]
    balancer.plan(problem)
    progress = counted[0] - before
    stop.set()
    thread.join()
    assert progress > 10_000


def test_plans_made_side_by_side_are_the_same() -> None:
    problems = [
        Problem(make(np.random.default_rng(1), 640), Grid(64, counts=counts))
        for make in FAMILIES.values()
        for counts in (Counts.FREE, Counts.EQUAL)
    ]
    alone = [Auto().plan(problem).digest() for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda problem: Auto().plan(problem).digest(), problems)) == alone


@pytest.mark.parametrize("counts", [Counts.FREE, Counts.EQUAL])
def test_values_near_the_limit_do_not_overflow(counts: Counts) -> None:
    rng = np.random.default_rng(0)
    loads = rng.integers(2**62 // 24 - 2**40, 2**62 // 24, 24)
    plan = Auto().plan(Problem(loads, Grid(6, counts=counts)))
    assert plan.cost == max(sum(int(loads[i]) for i in part) for part in plan.partitions)
    assert plan.lower_bound <= plan.cost < 1.0001 * plan.lower_bound
