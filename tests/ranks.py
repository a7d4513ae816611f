"""A pool of rank processes for a whole test run: importing torch takes seconds, so each process does it once.

A job is an importable function; every rank calls it inside a fresh gloo group on 127.0.0.1. A process that dies or does
not end in time is replaced by a new one before the next job: one failure stays one.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic
from typing import Generic, TypeVar, cast

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of one rank: a result, an error with its traceback, or an exit code (None: still running)."""

    result: T | None = None
    error: BaseException | None = None
    trace: str = ""
    ended: bool = True
    exit_code: int | None = None


class Ranks:
    """``run(function, *arguments, n=2)`` returns the results of all ranks, by rank."""

    def __init__(self) -> None:
        self._jobs = 0
        self._ranks: dict[int, tuple[SpawnProcess, Connection]] = {}
        self._store: object = None

    def run(self, function: Callable[..., T], *arguments: object, n: int = 2, timeout: float = 60) -> list[T]:
        """Return the result of each rank; AssertionError with all tracebacks unless every rank returned."""
        outcomes = self.outcomes(function, *arguments, n=n, timeout=timeout)
        bad = [
            f"rank {rank}: {each.trace or f'ended: {each.ended}, exit code {each.exit_code}'}"
            for rank, each in enumerate(outcomes)
            if each.error or not each.ended or each.exit_code is not None
        ]
        assert not bad, "\n".join(bad)
        return [cast("T", each.result) for each in outcomes]

    def outcomes(
        self, function: Callable[..., T], *arguments: object, n: int = 2, timeout: float = 60, hang: int = 0
    ) -> list[Outcome[T]]:
        """Return what became of each rank within ``timeout`` seconds; ``hang`` ranks are not waited for."""
        port = self._grown_to(n)
        self._jobs += 1
        for rank in range(n):
            self._ranks[rank][1].send((function, arguments, rank, n, port, self._jobs, timeout))
        outcomes: dict[int, Outcome[T]] = {}
        deadline = monotonic() + timeout
        while len(outcomes) < n - hang and monotonic() < deadline:
            open_ends = {self._ranks[rank][1]: rank for rank in range(n) if rank not in outcomes}
            for ready in wait(list(open_ends), timeout=max(deadline - monotonic(), 0)):
                rank = open_ends[ready]  # type: ignore[index]
                try:
                    outcomes[rank] = self._ranks[rank][1].recv()
                except (EOFError, ConnectionError):
                    outcomes[rank] = Outcome(exit_code=self._killed(rank))
        for rank in set(range(n)) - set(outcomes):
            self._killed(rank)
            outcomes[rank] = Outcome(ended=False)
        return [outcomes[rank] for rank in range(n)]

    def close(self) -> None:
        """Kill all processes."""
        for process, _ in self._ranks.values():
            process.kill()
        for rank in list(self._ranks):
            self._killed(rank)
        self._store = None

    def _killed(self, rank: int) -> int | None:
        """Return the exit code of a process that is dead, or is so now."""
        process, end = self._ranks.pop(rank)
        end.close()
        process.join(1)
        process.kill()
        process.join(5)
        return process.exitcode

    def _grown_to(self, n: int) -> int:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        if self._store is None:  # here, and not in rank 0, which tests kill
            self._store = TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
        context = multiprocessing.get_context("spawn")
        missing = set(range(n)) - set(self._ranks)
        for rank in missing:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._ranks[rank] = (process, ours)
        for rank in missing:  # the time limit of a job does not include importing torch
            assert self._ranks[rank][1].poll(60), f"rank {rank} did not start"
            self._ranks[rank][1].recv()
        store = self._store
        assert isinstance(store, TCPStore)
        return int(store.port)


def _serve(end: Connection) -> None:
    """Run jobs until the pool goes away."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch
    import torch.distributed as td
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    warnings.simplefilter("error")
    torch.set_num_threads(1)
    end.send("ready")
    with suppress(EOFError):
        while True:
            function, arguments, rank, n, port, job, timeout = end.recv()
            faulthandler.dump_traceback_later(0.9 * timeout)  # who hangs says where, before it is killed
            try:
                limit = timedelta(seconds=timeout)
                store = PrefixStore(str(job), TCPStore("127.0.0.1", port, is_master=False, timeout=limit))
                td.init_process_group("gloo", store=store, rank=rank, world_size=n, timeout=limit)
                try:
                    td.barrier()  # all are connected: else one that ends at once breaks off another's connecting
                    outcome: Outcome[object] = Outcome(function(*arguments))
                finally:
                    td.destroy_process_group()
            except BaseException as error:
                outcome = Outcome(error=_picklable(error), trace=traceback.format_exc())
            faulthandler.cancel_dump_traceback_later()
            end.send(outcome)


def _picklable(error: BaseException) -> BaseException:
    try:
        again: object = pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return again if isinstance(again, BaseException) else RuntimeError(str(error))
