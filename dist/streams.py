"""Streams of a device: queues of work, ordered among each other by events alone. On the CPU, work is done at once."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, cast

import torch

from .errors import InvalidLoader

__all__ = ["CpuStreams", "CudaStreams", "Event", "Stream", "Streams", "streams_of"]


class Event(Protocol):
    """What is used of a ``torch.cuda.Event``: a mark in a stream, passed once all work before it is done."""

    def query(self) -> bool:
        """Return whether it has passed."""
        ...

    def synchronize(self) -> None:
        """Wait, on this thread, until it has."""
        ...


class Stream(Protocol):
    """What is used of a ``torch.cuda.Stream``. Neither call waits."""

    def record_event(self) -> Event: ...
    def wait_event(self, event: Event, /) -> None: ...


class Streams(Protocol):
    """What is used of a device. Memory belongs to the stream that is current where it is allocated."""

    @property
    def device(self) -> torch.device: ...
    def make_current(self) -> None:
        """Make the device current in a new thread, which would begin on another."""
        ...

    def current(self) -> Stream:
        """Return the current stream of this thread."""
        ...

    def new(self) -> Stream: ...
    def on(self, stream: Stream) -> AbstractContextManager[object]:
        """Enqueue what is done inside on ``stream``."""
        ...

    def empty(self, n_bytes: int) -> torch.Tensor:
        """Return memory of the device, (n_bytes,) uint8."""
        ...

    def pinned(self, n_bytes: int) -> torch.Tensor:
        """Return memory of the host that the device copies from and to by itself, (n_bytes,) uint8."""
        ...


class CudaStreams:
    """A GPU of this process."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def make_current(self) -> None:
        torch.cuda.set_device(self.device)

    def current(self) -> Stream:
        return cast("Stream", torch.cuda.current_stream(self.device))

    def new(self) -> Stream:
        return cast("Stream", _SideStream(self.device))  # type: ignore[no-untyped-call]

    def on(self, stream: Stream) -> AbstractContextManager[object]:
        return torch.cuda.stream(cast("torch.cuda.Stream", stream))

    def empty(self, n_bytes: int) -> torch.Tensor:
        return torch.empty(n_bytes, dtype=torch.uint8, device=self.device)

    def pinned(self, n_bytes: int) -> torch.Tensor:
        return torch.empty(n_bytes, dtype=torch.uint8, device="cpu", pin_memory=True)


class _SideStream(torch.cuda.Stream):
    """A thread that waits for its events sleeps. With torch's own events it would keep a core busy."""

    def record_event(self, event: torch.cuda.Event | torch.Event | None = None) -> torch.cuda.Event | torch.Event:
        recorded = torch.cuda.Event(blocking=True) if event is None else event  # type: ignore[no-untyped-call]
        recorded.record(self)
        return recorded


class CpuStreams:
    """The same path without a GPU, to rehearse it."""

    device = torch.device("cpu")

    def make_current(self) -> None:
        pass

    def current(self) -> Stream:
        return _DONE

    def new(self) -> Stream:
        return _DONE

    def on(self, stream: Stream) -> AbstractContextManager[object]:
        return nullcontext()

    def empty(self, n_bytes: int) -> torch.Tensor:
        return torch.empty(n_bytes, dtype=torch.uint8, device="cpu")

    pinned = empty


class _Done:
    """A stream in which nothing is ever left to do, and the event that says so."""

    def record_event(self) -> Event:
        return self

    def wait_event(self, event: Event, /) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


_DONE = _Done()


def streams_of(device: torch.device | str | None) -> Streams | None:
    """Return the streams of ``device``, None where packs stay as they are. Raises `InvalidLoader`."""
    if device is None:
        return None
    refusal = f'device must be "cpu" or "cuda"; got {str(device)!r}. Move packs there after delivery.'
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InvalidLoader(refusal) from error
    if wanted.type == "cpu":
        return CpuStreams()
    if wanted.type != "cuda":
        raise InvalidLoader(refusal)
    if not torch.cuda.is_available():
        raise InvalidLoader(
            f"device is {str(device)!r}, but torch finds no GPU here. Leave device out, or repair CUDA."
        )
    index = torch.cuda.current_device() if wanted.index is None else wanted.index
    n_gpus = torch.cuda.device_count()
    if index >= n_gpus:
        raise InvalidLoader(
            f'device is {str(device)!r}, but torch finds {n_gpus} GPUs here: the last is "cuda:{n_gpus - 1}".'
        )
    return CudaStreams(torch.device("cuda", index))
