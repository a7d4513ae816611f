"""Rank processes that train for a while, stop and go on, or look at what is left behind."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as td

from balancers import LPT, Auto, Counts, Grid
from dist import BalancedLoader, CannotResume

from .jobs import Pack, load_of, loader, own_packs, seeds


class Endless:
    """Packs without end, some of them random, from the global generators as a transform would."""

    def __iter__(self) -> Iterator[object]:
        i = 0
        while True:
            yield {"load": random.randint(1, 9), "noise": torch.rand(100), "more": np.random.random(50), "i": i}
            i += 1


class Usage(NamedTuple):
    """What the process holds."""

    threads: int
    files: int
    rss_kb: int
    keys: int

    @classmethod
    def now(cls) -> Usage:
        gc.collect()
        status = Path("/proc/self/status").read_text()
        rss = int(status.partition("VmRSS:")[2].split()[0])
        store = td.distributed_c10d._get_default_store()
        return cls(threading.active_count(), len(os.listdir("/proc/self/fd")), rss, store.num_keys())  # noqa: PTH208


def beside_training(warm_up: int, steps: int) -> tuple[Usage, Usage, list[float]]:
    """Train with an all-reduce in every step and ranks out of step; return usage after warm-up and at the end."""
    rank = td.get_rank()
    rng = random.Random(rank)
    balanced = loader(
        Endless(),
        loads=lambda pack: pack["load"],
        n_micro_steps=2,
        packs_per_cell=2,
        balancer=Auto(),
        counts=Counts.EQUAL,
    )
    sums: list[float] = []
    usage = []
    for batch in balanced:
        if batch.step in (warm_up, warm_up + steps) and batch.micro_step == 0:
            usage.append(Usage.now())
            td.barrier()  # nobody closes before all have looked
        if batch.step == warm_up + steps:
            break
        total = torch.tensor([float(sum(pack["load"] for pack in batch.packs)), 1.0])
        td.all_reduce(total)
        assert total[1] == td.get_world_size()
        sums.append(float(total[0]))
        if rng.random() < 0.02:
            time.sleep(0.05)  # one rank is late: plans still apply at the same step
    balanced.close()
    return usage[0], usage[1], sums


def random_state_after(mode: str, steps: int) -> str:
    """Train with dropout; return the states of the global generators."""
    torch.manual_seed(td.get_rank())
    random.seed(td.get_rank())
    np.random.seed(td.get_rank())
    balanced = loader(Endless(), loads=lambda pack: pack["load"], packs_per_cell=3, mode=mode)
    for batch in balanced:
        torch.nn.functional.dropout(torch.ones(10))
        if batch.step == steps:
            break
    balanced.close()
    draws = (torch.rand(1).item(), random.random(), np.random.random())
    return repr(draws)


def many_passes(n: int) -> tuple[Usage, Usage, list[int]]:
    """Break off, begin again, many times; then exhaust. The last pass must be whole."""
    balanced = loader(own_packs([37, 36]))
    usage = []
    for i in range(n):
        for batch in balanced:
            if batch.step == i % 3:
                break
        if i in (3, n - 1):
            usage.append(Usage.now())
    rest = [seed for batch in balanced for seed in seeds(batch)]
    balanced.close()
    return usage[0], usage[1], rest


def closed_and_kept(n: int) -> tuple[Usage, Usage]:
    """Train one step with each of some loaders, close them, and keep them; wait until the connections are gone."""
    td.barrier()
    before, kept = Usage.now(), []
    for _ in range(n):
        balanced = loader(own_packs([1, 1]))
        list(balanced)
        balanced.close()
        kept.append(balanced)
    td.barrier()  # the store is told by the kernel, a little later
    begin = time.monotonic()
    while (after := Usage.now()).files > before.files and time.monotonic() - begin < 5:
        time.sleep(0.05)
    td.barrier()
    return before, after


def closed_by_many_threads(times: int) -> list[str]:
    """Close some loaders, each from four threads at once; return what these raise."""
    raised: list[str] = []

    def close(balanced: BalancedLoader[Any], together: threading.Barrier) -> None:
        together.wait(10)
        try:
            balanced.close()
        except Exception as error:
            raised.append(repr(error))

    for _ in range(times):
        balanced, together = loader(own_packs([9, 9])), threading.Barrier(4)
        next(iter(balanced))
        threads = [threading.Thread(target=close, args=(balanced, together)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    return raised


class Shared:
    """One list of packs for all ranks, that can re-shard: rank r takes every n-th of what is left."""

    def __init__(self, n: int) -> None:
        self._left, self._taken = list(range(n)), 0

    def __iter__(self) -> Iterator[Pack]:
        rank, n_ranks = td.get_rank(), td.get_world_size()
        for seed in self._left[rank::n_ranks]:
            self._taken += 1
            yield Pack.of(seed)
        self._taken = 0

    def state_dict(self) -> object:
        return self._left[self._taken * td.get_world_size() :]

    def load_state_dict(self, state: object) -> None:
        assert isinstance(state, list)
        self._left, self._taken = state, 0


class Seen(NamedTuple):
    """Seeds seen up to a stop, the state there, and packs dropped; or why a state was refused."""

    seeds: list[int]
    state: dict[str, object]
    refusal: str = ""
    dropped: int = 0


def until(stop: tuple[int, int] | None, state: dict[str, object] | None, shared: bool) -> Seen:
    """Train up to a micro-step, or from a state to the end."""
    packs: object = Shared(48) if shared else own_packs([24] * td.get_world_size())
    balanced = loader(packs, n_micro_steps=2)
    if state is not None:
        try:
            balanced.load_state_dict(state)
        except CannotResume as error:
            balanced.close()
            return Seen([], {}, str(error))
    found: list[int] = []
    for batch in balanced:
        found += [pack.seed for pack, weight in zip(batch.packs, batch.weights, strict=True) if weight]
        if (batch.step, batch.micro_step) == stop:
            break
        assert balanced.dropped == 0  # nothing is lost as long as the pass goes on
    kept = balanced.state_dict()
    dropped = balanced.dropped
    balanced.close()
    assert balanced.dropped == dropped
    balanced.load_state_dict(kept)
    assert balanced.dropped == 0  # it will be loaded again
    return Seen(found, kept, dropped=dropped)


def resume(states: list[dict[str, object]], shared: bool) -> Seen:
    """Go on from the state of this rank, or of the last one where there are more ranks now."""
    return until(None, states[min(td.get_rank(), len(states) - 1)], shared)


def carried(passes: int) -> list[tuple[int, list[int]]]:
    """Ranks with 3, 3, 2, 2 packs: what is left leads the next pass; then one is broken off, and counts all it had."""
    balanced = loader(own_packs([3, 3, 2, 2]), at_end="carry", counts=Counts.EQUAL)
    found = []
    for _ in range(passes):
        pass_seeds = [pack.seed for batch in balanced for pack in batch.packs]
        assert balanced.dropped == 0
        found.append((balanced.carried, pass_seeds))
    waiting = balanced.carried
    iter(balanced)
    assert balanced.dropped == waiting  # the pass was dropped before it had loaded anything else
    balanced.close()
    return found


def of_pairs() -> list[int]:
    """Four ranks, two data-parallel groups: each balances for itself."""
    pairs = [td.new_group([0, 1]), td.new_group([2, 3])]
    rank = td.get_rank()
    group = pairs[rank // 2]
    packs = [Pack.of(1000 * rank + i) for i in range(6)]
    balanced = BalancedLoader(packs, balancer=LPT(), grid=Grid(2), loads=load_of, group=group, packs_per_cell=2)
    assert len(balanced) == 3
    found = [pack.seed for batch in balanced for pack, ok in zip(batch.packs, batch.weights, strict=True) if ok]
    balanced.close()
    return found


def of_one_pair(times: int) -> list[int]:
    """Three ranks, of which two build loaders one after the other; rank 0 is in more groups, and closes earlier."""
    td.new_group([0, 2])
    pair, rank = td.new_group([0, 1]), td.get_rank()
    steps = []
    for _ in range(times if rank < 2 else 0):
        balanced = BalancedLoader([Pack.of(rank)] * 3, balancer=LPT(), grid=Grid(2), loads=load_of, group=pair)
        steps.append(sum(1 for _ in balanced))
        if rank == 0:
            balanced.close()
    return steps
