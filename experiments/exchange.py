"""Does the exchange hide behind compute? On gloo ranks of this machine, with a sleep for compute: see the table."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Literal, NamedTuple, TypedDict

import numpy as np
import torch
import torch.distributed as td

from balancers import LPT, Balancer, Counts, Grid
from dist import BalancedLoader, StepRecord
from packing.errors import EvenstepError

__all__ = ["Exchange", "ExchangeRow", "RankEnded", "exchange_here", "spawn_exchange"]

WARM_UP = 5  # steps that are not counted


class RankEnded(EvenstepError, RuntimeError):
    """A rank process ended before it had a result."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """``mb``: bytes of a step's packs on each rank, in 10**6. ``compute_ms``: what a training step sleeps.

    ``spread``: standard deviation of the logarithm of loads. At 0 all are alike, and nothing moves.
    """

    ranks: int = 2
    steps: int = 50
    packs_per_cell: int = 8
    mb: float = 20.0
    spread: float = 1.0
    compute_ms: float = 200.0
    balancer: Balancer = LPT()
    seed: int = 0


class ExchangeRow(NamedTuple):
    """One way of delivering packs: means over steps, but medians of ``step_ms`` and ``exposed_ms``.

    Bytes moved and imbalance are of all ranks, the rest is of rank 0.
    """

    name: str
    step_ms: float
    exposed_ms: float
    plan_ms: float
    exchange_ms: float
    meet_ms: float
    moved_mb: float
    mb_per_s: float  # sent, while it exchanges
    imbalance_before: float
    imbalance_after: float
    rss_growth_mb: float
    threads_growth: int
    files_growth: int


class _Pack(TypedDict):
    load: int
    pixels: torch.Tensor


class _Packs:
    """Packs of random loads, without end; their bytes are the same few buffers, so that making them costs nothing."""

    def __init__(self, config: Exchange, rank: int) -> None:
        self._rng = np.random.default_rng((config.seed, rank))
        n_bytes = int(config.mb * 1e6 / config.packs_per_cell)
        self._spread = config.spread
        self._contents = [torch.full((n_bytes,), i, dtype=torch.uint8) for i in range(8)]

    def __iter__(self) -> Iterator[_Pack]:
        while True:
            load = int(self._rng.lognormal(6, self._spread))
            yield {"load": load, "pixels": self._contents[load % 8]}


def exchange_here(config: Exchange, tick: Callable[[str, int], None]) -> list[ExchangeRow]:
    """Measure all ways of delivering packs, as a rank of an initialised job. Collective. ``tick`` is told each step."""
    bare = _Bare(int(config.mb * 1e6), 4 * config.packs_per_cell)
    return [
        _measured(config, "off", "off", True, tick),
        _measured(config, "synchronous", "balance", False, tick, bare),
        _measured(config, "overlapped", "balance", True, tick),
        *bare.rows(),
    ]


def _measured(
    config: Exchange,
    name: str,
    mode: Literal["balance", "off"],
    overlap: bool,
    tick: Callable[[str, int], None],
    bare: _Bare | None = None,
) -> ExchangeRow:
    """``bare``: what takes turns with the steps."""
    records: list[StepRecord] = []
    loader = BalancedLoader(
        _Packs(config, td.get_rank()),
        balancer=config.balancer,
        grid=Grid(config.ranks, counts=Counts.EQUAL),
        loads=lambda pack: pack["load"],
        packs_per_cell=config.packs_per_cell,
        mode=mode,
        overlap=overlap,
        on_step=records.append,
    )
    times, usage = [], []
    begin = time.perf_counter()
    for batch in loader:
        if batch.step in (WARM_UP, WARM_UP + config.steps):
            usage.append(_usage())
            td.barrier()
            begin = time.perf_counter()
        if batch.step == WARM_UP + config.steps:
            break
        time.sleep(config.compute_ms / 1e3)
        td.all_reduce(torch.ones(1000))  # the training loop's own collective
        times.append(time.perf_counter() - begin)
        if bare is not None and batch.step >= WARM_UP:
            time.sleep(config.compute_ms / 1e3)
            td.all_reduce(torch.ones(1000))
            bare.take_turn(records[-1].moved_bytes)
        begin = time.perf_counter()
        tick(name, batch.step)
    loader.close()
    counted = records[WARM_UP + 1 : WARM_UP + config.steps]
    growth = [after - before for before, after in zip(*usage, strict=True)]

    def mean(field: str) -> float:
        return statistics.fmean(getattr(each, field) for each in counted)

    exchange_us = mean("exchange_us")
    return ExchangeRow(
        name=name,
        step_ms=1e3 * statistics.median(times[WARM_UP + 1 :]),
        exposed_ms=statistics.median(each.exposed_us for each in counted) / 1e3,
        plan_ms=mean("plan_us") / 1e3,
        exchange_ms=exchange_us / 1e3,
        meet_ms=mean("meet_us") / 1e3,
        moved_mb=mean("moved_bytes") / 1e6,
        mb_per_s=mean("sent_bytes") / exchange_us if mean("sent_bytes") else 0.0,
        imbalance_before=mean("imbalance_before"),
        imbalance_after=mean("imbalance_after"),
        rss_growth_mb=growth[0] / 1e3,
        threads_growth=growth[1],
        files_growth=growth[2],
    )


class _Bare:
    """Bare collectives: all-to-alls of one flat tensor, each of as many bytes as the step before it moved, and
    all-gathers of as many integers as ranks tell each other in a step.

    They take turns with steps, in the same training loop: in a row they would find their bytes in the processor's
    cache, and at another time another load of the machine.
    """

    def __init__(self, most: int, n_integers: int) -> None:
        """``most``: bytes that a rank sends in one all-to-all."""
        self._content, self._arrived = (torch.ones(most, dtype=torch.uint8) for _ in range(2))
        self._integers = torch.ones(n_integers, dtype=torch.int64)
        self._gathered = torch.empty(td.get_world_size() * n_integers, dtype=torch.int64)
        self._sent = 0
        self._exchanges: list[float] = []
        self._gathers: list[float] = []

    def take_turn(self, moved_bytes: int) -> None:
        n, rank = td.get_world_size(), td.get_rank()
        each = min(moved_bytes // n, len(self._content)) // (n - 1)
        sizes = [each * (other != rank) for other in range(n)]  # a rank's own share travels nowhere
        content, arrived = self._content[: sum(sizes)], self._arrived[: sum(sizes)]
        begin = time.perf_counter()
        td.all_gather_single(self._gathered, self._integers)
        self._gathers.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        td.all_to_all_single(arrived, content, sizes, sizes)
        self._exchanges.append(time.perf_counter() - begin)
        self._sent += len(content)

    def rows(self) -> list[ExchangeRow]:
        took, sent, n = sum(self._exchanges), self._sent / 1e6, len(self._exchanges)
        moved = sent * td.get_world_size() / n
        gather = statistics.median(self._gathers)
        return [
            ExchangeRow("bare all-to-all", 0, 0, 0, 1e3 * took / n, 0, moved, sent / took, 0, 0, 0, 0, 0),
            ExchangeRow("bare all-gather", 0, 0, 0, 1e3 * gather, 0, 0, 0, 0, 0, 0, 0, 0),
        ]


def _usage() -> tuple[int, int, int]:
    """Kilobytes of memory, threads, and open files of this process."""
    status = Path("/proc/self/status").read_text()
    rss, threads = (int(status.partition(key)[2].split()[0]) for key in ("VmRSS:", "Threads:"))
    return rss, threads, len(list(Path("/proc/self/fd").iterdir()))


def spawn_exchange(config: Exchange, tick: Callable[[str, int], None]) -> list[ExchangeRow]:
    """Start the ranks as processes of this machine, and return what rank 0 measured."""
    context = multiprocessing.get_context("spawn")
    store = td.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    processes, ends = [], []
    for rank in range(config.ranks):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=_rank, args=(config, rank, store.port, theirs), daemon=True))
        processes[-1].start()
        theirs.close()
        ends.append(ours)
    try:
        while True:
            for ready in wait([ends[0], *(process.sentinel for process in processes[1:])]):
                if ready is not ends[0]:
                    with suppress(EOFError):
                        if not ends[0].poll(10):
                            raise RankEnded("a rank ended early; its traceback is above.")
                try:
                    said = ends[0].recv()
                except EOFError:
                    raise RankEnded("rank 0 ended early; its traceback is above.") from None
                if isinstance(said, list):
                    return said
                tick(*said)
    finally:
        for process in processes:
            process.join(10)
            process.kill()


def _rank(config: Exchange, rank: int, port: int, end: Connection) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    store = td.TCPStore("127.0.0.1", port, is_master=False)  # type: ignore[attr-defined]
    td.init_process_group("gloo", store=store, rank=rank, world_size=config.ranks)
    rows = exchange_here(config, (lambda *said: end.send(said)) if rank == 0 else (lambda *_: None))
    if rank == 0:
        end.send(rows)
    td.barrier()
    td.destroy_process_group()
