"""A device that is as lazy as the rules of streams, events and allocator permit, in the memory of the host.

Work runs when somebody waits for it and not earlier; or, on streams that are eager, as soon as no event is in its way.
Memory that nobody refers to is given out again at once, on the stream that it belongs to; work that waits refers to
none. So whoever forgets an event, writes a buffer too early, or drops a reference too early, gets wrong bytes every
time, where a real device gives them once in a while.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np
import torch
import torch.distributed as td

import dist.loader
import dist.transport
import dist.upload
from dist.payload import write_tensors
from dist.streams import Event, Stream

LOOKS = 3  # how often an event may be asked before it has passed


class Mark:
    """An event that passes when it is asked for the ``n``-th time, and notes who waited for it."""

    def __init__(self, n: float = float("inf")) -> None:
        self._left = n
        self.looks = self.waits = 0

    def query(self) -> bool:
        self.looks += 1
        self._left -= 1
        return self._left <= 0

    def synchronize(self) -> None:
        self.waits += 1


def broken(*_: object) -> bool:
    """What a device that has failed says to every call."""
    raise RuntimeError("CUDA error: device-side assert triggered")


class LazyEvent:
    """Passed once its stream has done the first ``n`` pieces of work."""

    def __init__(self, stream: LazyStream, n: int) -> None:
        self._stream, self._n, self._looks = stream, n, 0

    @property
    def passed(self) -> bool:
        return self._stream.done >= self._n

    def query(self) -> bool:
        self._looks += 1
        if self._looks > LOOKS:
            self.synchronize()
        return self.passed

    def synchronize(self) -> None:
        self._stream.run(self._n)


class LazyStream:
    """Work in order, and the events that are in its way."""

    def __init__(self, number: int, eager: bool, lock: threading.RLock) -> None:
        self.number, self._eager, self._lock = number, eager, lock
        self._work = deque[tuple[Callable[[], None], LazyEvent | None]]()
        self._issued = self.done = 0

    def enqueue(self, work: Callable[[], None], after: LazyEvent | None = None) -> None:
        self._work.append((work, after))
        self._issued += 1
        while self._eager and self._work and (self._work[0][1] is None or self._work[0][1].passed):
            self.run(self.done + 1)

    def run(self, n: int) -> None:
        if self.done >= n:  # without the lock: another thread may hold it and wait for other ranks
            return
        with self._lock:
            while self.done < n:
                self._work.popleft()[0]()
                self.done += 1

    def record_event(self) -> Event:
        return LazyEvent(self, self._issued)

    def wait_event(self, event: Event, /) -> None:
        assert isinstance(event, LazyEvent)
        self.enqueue(event.synchronize, event)


class LazyStreams:
    """The device, called ``device``: "cpu", so that packs can lie in its memory, or another name, so that none do."""

    def __init__(self, device: str, eager: bool) -> None:
        """``eager``: all streams but that of the training loop are."""
        self.device = torch.device(device)
        self._lock, self._n_streams, self._eager = threading.RLock(), 0, eager
        self.consumer = self.new()
        self._inside = threading.local()
        self._free: dict[int, list[np.ndarray]] = {}  # by stream
        self._blocks: dict[int, np.ndarray] = {}  # the device's memory, by address
        self.allocated = 0

    def make_current(self) -> None:
        pass

    def current(self) -> Stream:
        return self.inside() or self.consumer

    def new(self) -> LazyStream:
        self._n_streams += 1
        return LazyStream(self._n_streams - 1, self._eager and self._n_streams > 1, self._lock)

    def inside(self) -> LazyStream | None:
        """The stream on which this thread enqueues; None for the one that trains, whose host work is no device work."""
        return getattr(self._inside, "stream", None)

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        before, self._inside.stream = self.inside(), stream
        try:
            yield
        finally:
            self._inside.stream = before

    def empty(self, n_bytes: int) -> torch.Tensor:
        free = self._free.setdefault(id(self.current()), [])
        fitting = [i for i, block in enumerate(free) if len(block) >= n_bytes]
        if fitting:
            block = free.pop(fitting[0])
        else:
            block = np.full(max(n_bytes, 64), 0xEE, dtype=np.uint8)
            self.allocated += len(block)
        self._blocks[block.ctypes.data] = block
        held = block[:n_bytes]
        weakref.finalize(held, free.append, block).atexit = False
        return torch.from_numpy(held)

    def pinned(self, n_bytes: int) -> torch.Tensor:
        return torch.empty(n_bytes, dtype=torch.uint8, device="cpu")

    def is_mine(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._blocks

    def weak(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the same bytes without a reference to what was allocated."""
        if not self.is_mine(tensor):
            return tensor
        block = torch.from_numpy(self._blocks[tensor.untyped_storage().data_ptr()])
        flat = block[: len(block) // tensor.itemsize * tensor.itemsize].view(tensor.dtype)
        return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def write_tensors(self, tensors: Iterable[torch.Tensor], buffer: torch.Tensor) -> None:
        """`dist.payload.write_tensors`, later, if the device takes part."""
        given = list(tensors)
        stream = self.inside()
        if stream is None or not any(map(self.is_mine, (*given, buffer))):
            write_tensors(given, buffer)
            return
        weak, into = [self.weak(each) for each in given], self.weak(buffer)
        stream.enqueue(lambda: write_tensors(weak, into))

    def all_to_all_single(
        self, arrived: torch.Tensor, content: torch.Tensor, into: list[int], out: list[int], group: td.ProcessGroup
    ) -> None:
        """The collective of that name, later, if it was called on a stream."""
        stream = self.inside()
        if stream is None:
            _all_to_all_single(arrived, content, into, out, group=group)
            return
        into_, content_ = self.weak(arrived), self.weak(content)
        stream.enqueue(lambda: _all_to_all_single(into_, content_, into, out, group=group))


_all_to_all_single = td.all_to_all_single


@contextmanager
def lazy_device(device: str, transport: str, eager: bool) -> Iterator[LazyStreams]:
    """Loaders that are built inside deliver on a lazy device."""
    streams = LazyStreams(device, eager)
    with ExitStack() as stack:

        def patch(target: object, name: str, value: object) -> None:
            stack.enter_context(mock.patch.object(target, name, value))

        patch(dist.loader, "streams_of", lambda device: streams)
        patch(dist.upload, "write_tensors", streams.write_tensors)
        if transport != "host":
            patch(td, "get_default_backend_for_device", lambda device: "gloo")
            patch(td, "is_nccl_available", lambda: True)
            patch(td, "all_to_all_single", streams.all_to_all_single)
        yield streams
