"""Rank processes that break passes off, train in modes of their thread, and receive random trees, on a lazy device."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import NamedTuple
from unittest import mock

import numpy as np
import torch
import torch.distributed as td

import dist.upload
from dist.exchange import Route
from dist.streams import streams_of
from dist.transport import DeviceTransport, HostTransport
from dist.upload import LaunchedUpload, abandon
from packing.arrays import Int64

from .jobs import loader
from .lazy import LOOKS, LazyEvent, LazyStream, broken, lazy_device
from .test_bits import Sent, deliver
from .trees import content


@dataclass
class Left:
    """What is left behind once all passes are over and the device is through."""

    launched: int  # that anybody refers to
    abandoned: int
    threads: int
    grown: int  # bytes of the device, since the third pass
    whole: bool  # the pass after those that were broken off came as a whole
    slow: bool  # a pass took longer than 5 s to end


def broken_off(how: str, transport: str, eager: bool, passes: int) -> Left:
    """Break off pass after pass, each while the next steps are under way."""
    packs = [{"load": 1 + i % 7, "bytes": torch.full((3_000,), i % 251, dtype=torch.uint8)} for i in range(60)]
    exchange, slow = HostTransport.exchange, False

    def slowly(self: HostTransport, content: torch.Tensor, arrived: torch.Tensor, route: Route) -> None:
        time.sleep(0.02)
        exchange(self, content, arrived, route)

    def leave(batches: Iterator[object]) -> None:
        for i, _ in enumerate(batches):
            if i == 3:
                if how == "close":
                    balanced.close() if last else batches.close()  # type: ignore[attr-defined]
                if how == "error":
                    raise KeyError("the loss is NaN")
                break

    allocated = []
    with lazy_device("cuda:0", transport, eager) as streams, mock.patch.object(HostTransport, "exchange", slowly):
        options = {"packs_per_cell": 2, "n_micro_steps": 2, "device": "anything", "transport": transport}
        balanced = loader(packs, loads=lambda pack: pack["load"], **options)  # type: ignore[arg-type]
        for number in range(passes):
            last = number == passes - 1
            if last:
                whole = sum(sum(batch.weights) for batch in balanced)
            batches = iter(balanced)
            begin = time.monotonic()
            with suppress(KeyError):
                leave(batches)
            del batches
            slow |= time.monotonic() - begin > 5
            streams.consumer.record_event().synchronize()
            allocated.append(streams.allocated)
            td.barrier()
        begin = time.monotonic()
        balanced.close()
        slow |= time.monotonic() - begin > 5
        for _ in range(LOOKS + 1):
            abandon(())
    gc.collect()
    launched = sum(type(each) is LaunchedUpload for each in gc.get_objects())
    threads = sum(thread.name == "evenstep-exchange" for thread in threading.enumerate())
    total = torch.tensor(whole)
    td.all_reduce(total)
    grown = allocated[-1] - allocated[2]
    return Left(launched, len(dist.upload._abandoned), threads, grown, int(total) == 60 * td.get_world_size(), slow)


def device_fails(transport: str) -> tuple[str, int]:
    """Train until the device of rank 1 fails, which says so to every call; return what this rank hears, and how many
    threads and uploads are left behind."""
    packs = [{"load": 1 + i % 7, "bytes": torch.full((3_000,), i % 251, dtype=torch.uint8)} for i in range(60)]
    heard = "nothing"
    with lazy_device("cuda:0", transport, True), ExitStack() as stack:
        options = {"packs_per_cell": 2, "device": "anything", "transport": transport}
        balanced = loader(packs, loads=lambda pack: pack["load"], **options)  # type: ignore[arg-type]
        try:
            for batch in balanced:
                if (batch.step, td.get_rank()) == (3, 1):
                    for name in ("query", "synchronize"):
                        stack.enter_context(mock.patch.object(LazyEvent, name, broken))
                    stack.enter_context(mock.patch.object(LazyStream, "record_event", broken))
        except RuntimeError as error:  # an ExchangeError too
            heard = f"{type(error).__name__}: {error}"
        balanced.close()
        threads = sum(thread.name == "evenstep-exchange" for thread in threading.enumerate())
        abandoned = len(dist.upload._abandoned) if td.get_rank() == 1 else 0
        dist.upload._abandoned.clear()  # what rank 0 has under way waits for rank 1 in vain
    return heard, threads + abandoned


@contextmanager
def _default_dtype() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


MODES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "none": nullcontext,
    "inference_mode": torch.inference_mode,
    "no_grad": torch.no_grad,
    "default device": lambda: torch.device("meta"),
    "default dtype": _default_dtype,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}


class State(NamedTuple):
    """The modes of a thread."""

    inference: bool
    grad: bool
    device: str
    autocast: bool
    dtype: torch.dtype

    @classmethod
    def now(cls) -> State:
        return cls(
            torch.is_inference_mode_enabled(),
            torch.is_grad_enabled(),
            str(torch.get_default_device()),
            torch.is_autocast_enabled("cpu"),
            torch.get_default_dtype(),
        )


class Seen(NamedTuple):
    """What became of packs and modes."""

    packs: int
    wrong: list[str]  # packs that are not what was loaded
    changed: list[State]  # modes of the training loop after ``next`` that are not those before
    inside: set[State]  # modes of whoever plans and exchanges


def in_mode(mode: str, overlap: bool, transport: str) -> Seen:
    """Build a loader and train, all in a mode of this thread."""

    def pack(rank: int, number: int) -> dict[str, object]:
        rng = torch.Generator().manual_seed(100 * rank + number)
        weights = torch.randn(2_000, generator=rng)
        return {
            "load": 1 + int(torch.randint(99, (), generator=rng)),
            "weights": weights.requires_grad_(),
            "half": weights.detach()[:3].to(torch.bfloat16),
            "small": torch.zeros(2, 0),
            "array": weights.detach().numpy()[:5].astype(np.float64),
        }

    inside: set[State] = set()
    gather = HostTransport.gather

    def seen(self: HostTransport, message: Int64) -> Int64:
        inside.add(State.now())
        return gather(self, message)

    packs = [pack(td.get_rank(), number) for number in range(24)]
    n, wrong, changed = 0, [], []
    with lazy_device("cuda:0", transport, True) as streams:
        with MODES[mode]():
            before = State.now()
            balanced = loader(
                packs,
                loads=lambda pack: pack["load"],
                packs_per_cell=3,
                overlap=overlap,
                device="anything",
                transport=transport,
            )
            with mock.patch.object(HostTransport, "gather", seen):
                batches = [*balanced]
            after = State.now()
            balanced.close()
        streams.consumer.record_event().synchronize()
    changed = [after] if after != before else []
    for batch in batches:
        for came, pack_id in zip(batch.packs, batch.ids, strict=True):
            assert isinstance(came, dict)
            assert pack_id is not None
            n += 1
            tensors = (came["weights"], came["half"], came["small"])
            if content(came) != content(pack(*pack_id)) or any(each.is_inference() for each in tensors):
                wrong.append(str(pack_id))
            (came["weights"] * 2).sum().backward()
            if not torch.equal(came["weights"].grad, torch.full((2_000,), 2.0)):
                wrong.append(f"gradient of {pack_id}")
    return Seen(n, wrong, changed, inside)


def delivered_trees(shares: list[list[Sent]], device: str, transport: str, eager: bool) -> list[tuple[int, int, bytes]]:
    """Run one pass over ``shares`` on a lazy device; return rank, number and bytes of every pack that came."""
    with lazy_device(device, transport, eager) as streams:
        look = streams.consumer.record_event
        return deliver(shares, {"device": "anything", "transport": transport}, lambda: look().synchronize())


def sent_to_itself(device: str, warm_up: int, n: int, most: int) -> tuple[int, list[int]]:
    """Exchange random sizes, device to device, with nobody else; return wrong bytes, and what is held after each."""
    streams = streams_of(device)
    assert streams is not None
    streams.make_current()
    transport = DeviceTransport([0], "alone", streams, 60)
    side, rng = streams.new(), np.random.default_rng(0)
    none = np.zeros(0, dtype=np.int64)
    content = torch.arange(most, device=streams.device).to(torch.uint8)
    wrong = torch.zeros((), dtype=torch.int64, device=streams.device)
    held = []
    for number in range(warm_up + n):
        size = int(rng.integers(most // 64, most + 1))
        arrived = streams.empty(size).fill_(number % 256)
        side.wait_event(streams.current().record_event())
        with streams.on(side):
            transport.exchange(content[-size:], arrived, Route(none, none, none, none, np.array([[size]])))
        streams.current().wait_event(side.record_event())
        wrong += (arrived != content[-size:]).sum()
        held.append(torch.cuda.memory_reserved(streams.device) if streams.device.type == "cuda" else 0)
    transport.close()
    return int(wrong), held[warm_up:]
