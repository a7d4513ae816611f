"""Rank processes that train on a lazy device, with and without the rules that keep it right."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from unittest import mock

import numpy as np
import torch
import torch.distributed as td

import dist.rank_group
import dist.upload
from dist import MicroBatch, PackId, RankDisagreement
from dist.ring import Slot
from dist.store import cloned
from dist.streams import Event, Stream
from dist.upload import LaunchedUpload, Upload

from .jobs import loader
from .lazy import LazyStream, LazyStreams, lazy_device


@dataclass(frozen=True)
class Run:
    """What is trained on, and how."""

    transport: str = "host"
    resident: bool = True  # packs lie in the device's memory; else in that of the host
    mode: str = "balance"
    overlap: bool = True
    eager: bool = False  # side streams run as early as they may; else as late
    broken: str = ""  # the rule that is left out
    counts: tuple[int, ...] = (40, 40)


def content(rank: int, number: int) -> tuple[int, np.ndarray]:
    """Load and bytes of a pack."""
    rng = np.random.default_rng((rank, number))
    return int(rng.integers(1, 100)), rng.integers(0, 255, int(rng.integers(1, 5000)), dtype=np.uint8)


def packs(streams: LazyStreams, run: Run, rank: int) -> Iterator[object]:
    """Packs whose bytes the device is yet to make, or the host has made."""
    for number in range(run.counts[rank]):
        load, made = content(rank, number)
        if run.resident:
            tensor = streams.empty(len(made))
            streams.consumer.enqueue(partial(np.copyto, streams.weak(tensor).numpy(), made))
        else:
            tensor = torch.from_numpy(made)
        yield {"load": load, "bytes": tensor, "note": np.array([rank, number])}


def train(run: Run) -> tuple[list[PackId], list[PackId], int]:
    """Return which packs came, which of them had wrong bytes when the device came to them, and the device's memory."""
    with lazy_device("cpu" if run.resident else "cuda:0", run.transport, run.eager) as streams:
        with RULES[run.broken]():
            came, wrong = _trained(streams, run)
        return sorted(came), sorted(wrong), streams.allocated


def _trained(streams: LazyStreams, run: Run) -> tuple[list[PackId], list[PackId]]:
    came: list[PackId] = []
    wrong: list[PackId] = []

    def compare(pack_id: PackId, weak: torch.Tensor) -> None:
        if not np.array_equal(weak.numpy(), content(*pack_id)[1]):
            wrong.append(pack_id)

    def use(batch: MicroBatch[object]) -> None:
        """Enqueue some work on what came, and forget it."""
        for pack, pack_id in zip(batch.packs, batch.ids, strict=True):
            assert isinstance(pack, dict)
            assert not pack["bytes"].is_inference()
            if pack_id is not None:
                assert pack["note"].tolist() == list(pack_id)
                came.append(pack_id)
                streams.consumer.enqueue(partial(compare, pack_id, streams.weak(pack["bytes"])))

    balanced = loader(
        packs(streams, run, td.get_rank()),
        loads=lambda pack: pack["load"],
        packs_per_cell=2,
        n_micro_steps=2,
        mode=run.mode,
        overlap=run.overlap,
        device="anything",
        transport=run.transport,
    )
    for batch in balanced:
        use(batch)
        del batch
    streams.consumer.record_event().synchronize()
    balanced.close()
    return came, wrong


def _without_waits(number: int) -> AbstractContextManager[object]:
    """A stream of each device waits for no other: 0 trains, 1 is the side stream, 2 that of the exchange thread."""
    wait_event = LazyStream.wait_event

    def wait(self: LazyStream, event: Event) -> None:
        if self.number != number:
            wait_event(self, event)

    return mock.patch.object(LazyStream, "wait_event", wait)


def _unreferred(upload: Upload, buffer: torch.Tensor, consumer: Stream, done: Event) -> LaunchedUpload:
    assert isinstance(upload.streams, LazyStreams)
    return LaunchedUpload(upload, upload.streams.weak(buffer), consumer, done)


RULES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "": nullcontext,
    "the training loop waits for the upload": partial(_without_waits, 0),
    "what is launched waits for the training loop": partial(_without_waits, 1),
    "packs are read once they are made": partial(_without_waits, 2),
    "a buffer is written once it was read": lambda: mock.patch.object(Slot, "wait"),
    "what is under way is referred to": lambda: mock.patch.object(dist.upload, "LaunchedUpload", _unreferred),
}


def recorded(transport: str, steps: int) -> list[tuple[str, str, str]]:
    """Train with an all-reduce per step, ranks out of step; return (thread, group, collective) of every call once the
    loader is built."""
    calls: list[tuple[str, str, str]] = []

    def recording(name: str) -> Callable[..., object]:
        collective = getattr(td, name)

        def call(*arguments: object, group: td.ProcessGroup | None = None, **rest: object) -> object:
            thread = "training" if threading.current_thread() is threading.main_thread() else "exchange"
            calls.append((thread, (group or td.group.WORLD).group_name, name))  # type: ignore[union-attr]
            return collective(*arguments, group=group, **rest)

        return call

    balanced = loader(
        [{"load": 1 + content(td.get_rank(), i)[0], "bytes": torch.ones(5_000)} for i in range(2 * steps)],
        loads=lambda pack: pack["load"],
        packs_per_cell=2,
        device="cpu",
        transport=transport,
    )
    rng = random.Random(td.get_rank())
    with ExitStack() as stack:
        for name in ("all_to_all_single", "all_gather_single", "all_reduce"):
            stack.enter_context(mock.patch.object(td, name, recording(name)))
        for _ in balanced:
            td.all_reduce(torch.ones(8))
            time.sleep(0.01 * rng.random())
    balanced.close()
    return calls


def connections(passes: int) -> int:
    """Train over the same packs again and again; return how often this rank has connected to the store meanwhile."""
    balanced = loader([{"load": 1}] * 4, loads=lambda pack: pack["load"], device="cpu", transport="device")
    with mock.patch.object(dist.rank_group, "cloned", wraps=cloned) as connecting:
        for _ in range(passes):
            assert len(list(balanced)) == 4
    balanced.close()
    return connecting.call_count


def left_at_different_places(transport: str) -> str:
    """Begin a second pass where rank 1 has launched one exchange more than rank 0; return what this rank hears."""
    balanced = loader([{"load": 1}] * 4, loads=lambda pack: pack["load"], device="cpu", transport=transport)
    assert len(list(balanced)) == 4
    between_devices = balanced._group._between_devices
    if between_devices is not None:
        between_devices.launched += td.get_rank()
    try:
        list(balanced)
    except RankDisagreement as error:
        return str(error)
    finally:
        balanced.close()
    return ""
