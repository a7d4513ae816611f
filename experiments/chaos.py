"""Do all ranks end in time, with an error and without wrong data, when one of them goes wrong? See the table."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as td
from torch.utils.data import DataLoader, Dataset

from balancers import LPT, Assignment, Balancer, Counts, Grid, Problem
from dist import BalancedLoader

__all__ = ["FAULTS", "Chaos", "Trial", "run_trials", "summary"]

FAULTS = ("kill", "holder", "sleep", "raise", "plan")  # "holder": the rank killed holds the rendezvous store
PACKS, LENGTH, BOUND_S = 2, 20_000, 5.0  # packs per cell, numbers in a pack, what an error may take beyond the timeout


@dataclass(frozen=True, kw_only=True)
class Chaos:
    """``timeout_s``: of the loader. Faults, victims and moments follow from the seed."""

    times: int = 100
    ranks: int = 3
    timeout_s: float = 2.0
    seed: int = 0


class Trial(NamedTuple):
    """What became of one trial: ``slowest_s`` is the longest that a survivor waited for its error."""

    fault: str
    workers: bool
    step: int
    slowest_s: float
    errors: tuple[str, ...]  # of the survivors
    problem: str  # "" where all is well


@dataclass(frozen=True)
class _Astray(Balancer):
    """LPT, but one rank exchanges ranks 0 and 1 from ``step`` on."""

    step: int = 0

    def assign(self, problem: Problem) -> Assignment:
        cell = LPT().plan(problem).cell
        if problem.step >= self.step and os.environ.get("EVENSTEP_CHAOS_ASTRAY"):
            cell = np.where(cell < 2, cell ^ 1, cell).astype(np.int32)
        return Assignment(cell)


class _Numbers(Dataset[dict[str, object]]):
    """Packs that follow from their number, so that wrong data are seen; one of them raises."""

    def __init__(self, rank: int, raise_at: int) -> None:
        self._rank, self._raise_at = rank, raise_at

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, number: int) -> dict[str, object]:
        if number == self._raise_at:
            raise KeyError(f"pack {number}")
        load = 1 + (number * 7919 + self._rank * 104_729) % 997
        return {"rank": self._rank, "number": number, "load": load, "values": _values(self._rank, number)}


def _values(rank: int, number: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng((rank, number)).integers(0, 2**31, LENGTH))


def run_trials(config: Chaos) -> Iterator[Trial]:
    """Yield the outcome of each trial; ranks are forked from a server that has torch already.

    What ranks and their workers write to stderr is part of a problem, and else nothing to be seen: they are torn apart.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["experiments.chaos"])
    rng = random.Random(config.seed)
    for number in range(config.times):
        fault, workers = FAULTS[number % len(FAULTS)], number // len(FAULTS) % 2 == 1
        victim, step, delay = rng.randrange(config.ranks), rng.randrange(2, 30), rng.random() * 0.02
        store = None if fault == "holder" else _store(0)
        port, victim = (0, 0) if store is None else (store.port, victim)
        with tempfile.TemporaryDirectory(prefix="evenstep-chaos") as folder:
            log = Path(folder) / "stderr"
            log.touch()
            processes, ends = [], []
            for rank in range(config.ranks):
                ours, theirs = context.Pipe()
                what = fault if rank == victim else ""
                arguments = (config, rank, port, theirs, log, fault == "plan", what, workers, step, delay)
                processes.append(context.Process(target=_rank, args=arguments))
                processes[-1].start()
                theirs.close()
                ends.append(ours)
                port = port or ours.recv()
            told, problems = _heard(config, victim, processes, ends)
            if problems:
                problems.append(log.read_text())
        slowest = max((seconds for _, _, seconds in told), default=0.0)
        yield Trial(fault, workers, step, slowest, tuple(kind for kind, _, _ in told), "; ".join(problems))


def _heard(
    config: Chaos, victim: int, processes: list[ForkServerProcess], ends: list[Connection]
) -> tuple[list[tuple[str, str, float]], list[str]]:
    """Wait for the survivors and kill all; return their errors (kind, text, seconds), and what is wrong with them."""
    survivors = [rank for rank in range(config.ranks) if rank != victim]
    problems, told = [], []
    for rank in survivors:
        if not ends[rank].poll(120):
            problems.append(f"rank {rank} hangs")
            continue
        try:
            told.append(ends[rank].recv())
        except EOFError:
            problems.append(f"rank {rank} died")
    for rank in survivors:
        processes[rank].join(10)
        if processes[rank].exitcode in (0, None):
            problems.append(f"rank {rank} ended with {processes[rank].exitcode}")
    for process in processes:
        process.kill()
        process.join(10)
    problems += [f"{kind}: {text}" for kind, text, _ in told if kind in ("AssertionError", "nothing")]
    problems += [f"an error took {seconds:.1f} s" for _, _, seconds in told if seconds > config.timeout_s + BOUND_S]
    return told, problems


def summary(trials: list[Trial]) -> list[tuple[str, str, int, int, float, str]]:
    """Return a row per fault, with and without DataLoader workers: trials, problems, slowest error, errors seen."""
    rows = []
    for fault in FAULTS:
        for workers in (False, True):
            own = [trial for trial in trials if (trial.fault, trial.workers) == (fault, workers)]
            if own:
                seen = Counter(error for trial in own for error in trial.errors)
                kinds = ", ".join(f"{n} {kind}" for kind, n in seen.most_common())
                bad, slowest = sum(bool(trial.problem) for trial in own), max(trial.slowest_s for trial in own)
                rows.append((fault, "fork" if workers else "none", len(own), bad, slowest, kinds))
    return rows


def _rank(
    config: Chaos,
    rank: int,
    port: int,
    end: Connection,
    log: Path,
    astray: bool,
    what: str,
    workers: bool,
    step: int,
    delay: float,
) -> None:
    """Train until something ends it; tell the parent what, and end with an exit code that is not 0.

    With port 0, hold the store, and tell the parent where it is.
    """
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    if what == "plan":
        os.environ["EVENSTEP_CHAOS_ASTRAY"] = "1"
    store = _store(port)
    if port == 0:
        end.send(store.port)
    td.init_process_group("gloo", store=store, rank=rank, world_size=config.ranks)
    source = DataLoader(
        _Numbers(rank, PACKS * step if what == "raise" else -1),
        batch_size=None,
        num_workers=2 if workers else 0,
        multiprocessing_context="fork" if workers else None,
    )
    td.barrier()  # a busy machine takes long to start processes, which is no fault of theirs
    loader = BalancedLoader(
        source,
        balancer=_Astray(step) if astray else LPT(),
        grid=Grid(config.ranks, counts=Counts.EQUAL),
        loads=lambda pack: int(pack["load"]),
        packs_per_cell=PACKS,
        timeout=config.timeout_s,
    )
    begin = time.monotonic()
    try:
        for batch in loader:
            _check(batch.packs)
            if batch.step == step:
                _go_wrong(what, delay)
            time.sleep(0.005)
            begin = time.monotonic()
        end.send(("nothing", "", 0.0))
    except Exception as error:
        end.send((type(error).__name__, str(error), time.monotonic() - begin))
        raise SystemExit(1) from None  # the text has gone to the parent


def _store(port: int) -> td.TCPStore:  # type: ignore[name-defined]
    """Return the store at ``port``; one of our own for 0."""
    return td.TCPStore("127.0.0.1", port, None, is_master=port == 0, wait_for_workers=False)  # type: ignore[attr-defined]


def _check(packs: tuple[object, ...]) -> None:
    for pack in packs:
        assert isinstance(pack, dict)
        assert torch.equal(pack["values"], _values(pack["rank"], pack["number"])), "wrong data arrived"


def _go_wrong(what: str, delay: float) -> None:
    if what in ("kill", "holder"):
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    if what == "sleep":
        time.sleep(1_000)
