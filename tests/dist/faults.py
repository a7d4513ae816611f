"""Rank processes in which something goes wrong, and what the training loop is told."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, NamedTuple
from unittest import mock

import torch.distributed as td

import dist.transport
from balancers import LPT, Assignment, Balancer, Problem
from dist import BalancedLoader, ExchangeError, ForkedProcess

from .jobs import Pack, load_of, loader, own_packs, seeds


class Told(NamedTuple):
    """What a training loop was told: steps that it got, the error, and how long it waited for that."""

    steps: int
    kind: str
    text: str
    ranks: tuple[int, ...]
    seconds: float
    frames: str


@dataclass(frozen=True)
class Wrong(Balancer):
    """Goes wrong on rank 1 at step 3."""

    how: str = "raise"

    def assign(self, problem: Problem) -> Assignment:
        cell = LPT().plan(problem).cell
        if td.get_rank() == 1 and problem.step == 3:
            if self.how == "raise":
                raise ArithmeticError("no plan today")
            if self.how == "exit":
                sys.exit(3)
            if self.how == "end":
                next(iter(()))
            if self.how == "sleep":
                time.sleep(3)
            if self.how == "swap":
                cell = cell ^ 1  # the same cost, the ranks exchanged
        return Assignment(cell)


@dataclass(frozen=True)
class Unportable(Wrong):
    """Plans differently on rank 1, and says so."""

    portable: ClassVar[bool] = False


def source(how: str, n: int) -> Iterator[object]:
    """Packs of this rank; on rank 1, item 5 goes wrong."""
    for i, pack in enumerate(own_packs([n] * td.get_world_size())):
        if i == 5 and td.get_rank() == 1:
            if how == "raise":
                raise KeyError("item 5")
            if how == "unknown":
                yield Pack(1005, 1, object())  # type: ignore[arg-type]
        yield pack


def train(
    how: str,
    at_step: int,
    timeout: float,
    depth: int,
    overlap: bool = True,
    balancer: Balancer | None = None,
    packs_per_cell: int = 1,
    victim: int = 1,
) -> Told:
    """Train 40 steps; rank ``victim`` goes wrong as ``how`` says."""
    balanced = loader(
        source(how, 40 * packs_per_cell),
        balancer=balancer,
        timeout=timeout,
        overlap=overlap,
        depth=depth,
        packs_per_cell=packs_per_cell,
    )
    rank, steps = td.get_rank(), 0
    begin = time.monotonic()
    try:
        for batch in balanced:
            steps += 1
            if rank == victim and batch.step == at_step:
                if how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if how == "stop":
                    os.kill(os.getpid(), signal.SIGSTOP)
                if how == "sleep":
                    time.sleep(60)
                if how == "break":
                    break
            begin = time.monotonic()
    except (Exception, SystemExit) as error:
        frames, trace = [], error.__traceback__
        while trace:
            frames.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        ranks = error.ranks if isinstance(error, ExchangeError) else ()
        told = Told(steps, type(error).__name__, str(error), ranks, time.monotonic() - begin, " ".join(frames))
    else:
        told = Told(steps, "nothing", "", (), 0, "")
    begin = time.monotonic()
    balanced.close()
    assert time.monotonic() - begin < 5
    assert not [thread for thread in threading.enumerate() if thread.name == "evenstep-exchange"]
    return told


def halted(how: str) -> int:
    """Train 40 steps; rank 1 does nothing at all for two seconds. Return the steps."""
    steps = 0
    balanced = loader(own_packs([40] * td.get_world_size()))
    for batch in balanced:
        steps += 1
        if td.get_rank() == 1 and batch.step == 10:
            if how == "stopped":
                subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {os.getpid()}"])
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                ctypes.PyDLL(None).sleep(2)  # called without giving the lock away
    balanced.close()
    return steps


def hold_store() -> None:
    """Begin a new job, whose rendezvous store is held by rank 0."""
    rank, n, limit = td.get_rank(), td.get_world_size(), timedelta(seconds=20)
    shared = td.distributed_c10d._get_default_store()
    if rank == 0:
        store = td.TCPStore("127.0.0.1", 0, None, True, limit, wait_for_workers=False)  # type: ignore[attr-defined]
        shared.set("port", str(store.port))
    else:
        store = td.TCPStore("127.0.0.1", int(shared.get("port")), None, False, limit)  # type: ignore[attr-defined]
    td.destroy_process_group()
    td.init_process_group("gloo", store=store, rank=rank, world_size=n, timeout=limit)
    td.barrier()  # nobody asks the store for this job's sake any more


def holder_dies(at_step: int, timeout: float, depth: int, overlap: bool) -> Told:
    """Train; the rank that holds the store is killed."""
    hold_store()
    return train("kill", at_step, timeout, depth, overlap, victim=0)


def holder_dies_between(when: str) -> tuple[str, str, tuple[int, ...], float]:
    """The rank that holds the store is killed before a loader is built, or a pass begun; return what others hear."""
    hold_store()
    begin = 0.0
    try:
        if when == "pass":
            balanced = loader(own_packs([5] * td.get_world_size()), device="cpu", transport="device")
        if td.get_rank() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.5)
        begin = time.monotonic()
        if when == "construction":
            balanced = loader(own_packs([5] * td.get_world_size()))
        list(balanced)
    except ExchangeError as error:
        return type(error).__name__, str(error), error.ranks, time.monotonic() - begin
    return "nothing", "", (), 0.0


def planning_takes_longer_than_the_group_waits() -> Told:
    """The gloo group waits 1 s, rank 1 plans for 3 s."""
    before = dist.transport.GROUP_TIMEOUT
    dist.transport.GROUP_TIMEOUT = timedelta(seconds=1)
    try:
        return train("nothing", 0, 20, 2, balancer=Wrong("sleep"))
    finally:
        dist.transport.GROUP_TIMEOUT = before


def memory_is_short() -> Told:
    """Rank 1 has no memory for a transfer, in which the other waits for it already."""

    def fails(*_: object) -> None:
        raise RuntimeError("you tried to allocate 64 bytes")

    limit = mock.patch.object(dist.transport, "GROUP_TIMEOUT", timedelta(seconds=1))
    fault = mock.patch.object(dist.transport.HostTransport, "exchange", fails)
    with limit, fault if td.get_rank() == 1 else nullcontext():
        return train("nothing", -1, 20.0, 2, packs_per_cell=2)


def disagree(how: str) -> tuple[str, str]:
    """Build loaders that differ between ranks; return the error."""
    rank = td.get_rank()
    try:
        match how:
            case "arguments":
                loader(own_packs([2, 2]), balancer=LPT() if rank else Wrong()).close()
            case "order":
                for depth in (1, 3) if rank else (3, 1):
                    loader(own_packs([2, 2]), depth=depth)
            case "missing":
                if rank == 0:
                    loader(own_packs([2, 2]), timeout=1.0)
            case "grid":
                BalancedLoader([], balancer=LPT(), grid=4, loads=load_of)
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""


def forked(overlap: bool) -> tuple[list[int], int]:
    """Fork in mid-pass. The child asks for packs, begins a pass, closes, drops all; what the rank itself gets, and how
    often its child was refused."""
    built = loader(own_packs([8, 8]), overlap=overlap)
    batches = iter(built)
    found = seeds(next(batches))
    gc.collect()  # groups of earlier jobs: torch cannot free one in a child
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later: there are other threads
        child = os.fork()
    if child == 0:
        refused = 0
        try:
            for ask in (batches.__next__, built.__iter__):
                try:
                    ask()
                except ForkedProcess:
                    refused += 1
            built.close()
            del ask, batches, built
            gc.collect()
        finally:
            os._exit(refused)
    _, status = os.waitpid(child, 0)
    found += [seed for batch in batches for seed in seeds(batch)]
    built.close()
    return found, os.waitstatus_to_exitcode(status)
