"""How the tensors of packs come to this rank's device: an upload is prepared, then launched, then finished.

*Preparing* is done beside the training loop, by the thread that plans and exchanges. *Launching* and *finishing* are
done by the thread that trains, each at one place of `Pass`: what is enqueued there has the same place among the
training loop's own work on every rank.

The buffer of an upload belongs to the stream that trains. It is allocated there, and written on a side stream, which
first waits for that stream, and for which that stream then waits. So the allocator's rule, that memory freed on a
stream is free for later work of that stream, is enough for what training loops do with packs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch

from .errors import InvalidLoader, RankLost
from .exchange import Route
from .manifest import Manifest
from .memory import power_of_two
from .payload import aligned, write_tensors
from .ring import Ring, Slot
from .streams import Event, Stream, Streams
from .transport import DeviceTransport, Disconnected
from .watchdog import PHASE, Watchdog

__all__ = ["DeviceUploader", "HostUploader", "LaunchedUpload", "Upload", "Uploader", "abandon"]

Exchange: TypeAlias = Callable[[torch.Tensor, torch.Tensor, Route], None]
_abandoned: deque[LaunchedUpload] = deque()


@dataclass(frozen=True, eq=False)
class Upload:
    """The tensors of one step, ready to be launched. ``fill`` enqueues on the current stream what fills the buffer."""

    step: int
    streams: Streams
    side: Stream
    n_bytes: int
    fill: Callable[[torch.Tensor], None]
    slot: Slot
    watchdog: Watchdog | None

    def launch(self) -> LaunchedUpload:
        """Enqueue everything on the side stream. Nothing is waited for."""
        abandon(())  # of a pass that was broken off: its memory can be used again
        consumer = self.streams.current()
        buffer = self.streams.empty(power_of_two(self.n_bytes))[: self.n_bytes]
        self.side.wait_event(consumer.record_event())
        try:
            with self.streams.on(self.side):
                self.fill(buffer)
        except BaseException:  # some may run, behind an exchange that waits for a lost rank: no stream waits for it
            abandon([self._launched(buffer, consumer)])
            raise
        return self._launched(buffer, consumer)

    def _launched(self, buffer: torch.Tensor, consumer: Stream) -> LaunchedUpload:
        done = self.side.record_event()
        self.slot.read_until(done)
        return LaunchedUpload(self, buffer, consumer, done)


@dataclass(frozen=True, eq=False)
class LaunchedUpload:
    """An upload under way. It holds what the device reads and writes until the device has finished with it."""

    upload: Upload
    buffer: torch.Tensor
    consumer: Stream
    done: Event

    def finish(self) -> torch.Tensor:
        """Return the step's buffer, for the stream that trains. Raises `ExchangeTimeout` if a rank is missing."""
        if self.upload.watchdog is not None:
            self.upload.watchdog.wait(self.done, self.upload.step)
        if self.upload.streams.current() != self.consumer:
            raise InvalidLoader(
                f"step {self.upload.step} was launched while the training loop was on another stream than now: its "
                f"memory belongs to that one. Ask for all packs on one stream."
            )
        self.consumer.wait_event(self.done)
        return self.buffer


def abandon(uploads: Iterable[LaunchedUpload]) -> None:
    """Forget uploads that nobody will finish, each once its device has done with it."""
    _abandoned.extend(uploads)
    with suppress(IndexError):  # another thread may be at it
        for _ in range(len(_abandoned)):
            launched = _abandoned.popleft()
            with suppress(RuntimeError):  # the device is broken, and does nothing any more
                if not launched.done.query():
                    _abandoned.append(launched)


class Uploader(Protocol):
    """One pass's way of bringing tensors to the device."""

    @property
    def streams(self) -> Streams: ...
    def exchange_stream(self) -> AbstractContextManager[object]:
        """Enqueue what is done inside on the stream of the thread that prepares."""
        ...

    def prepare(self, step: int, manifest: Manifest, ready: Event, exchange: Exchange) -> Upload:
        """Do what can be done beside the training loop. ``ready``: after it, this rank's packs may be read.

        ``exchange`` sends and receives through the host. Collective.
        """
        ...


class HostUploader:
    """Tensors go to other ranks through pinned memory of the host; only the last copy, to the device, is launched."""

    def __init__(self, streams: Streams, side: Stream, own: Stream, slots: int) -> None:
        self.streams, self._side, self._own = streams, side, own
        self._ring, self._outgoing = Ring(streams, slots), Ring(streams, 1)

    def exchange_stream(self) -> AbstractContextManager[object]:
        return self.streams.on(self._own)

    def prepare(self, step: int, manifest: Manifest, ready: Event, exchange: Exchange) -> Upload:
        slot = self._ring.take(manifest.n_bytes)
        if manifest.route.sizes.any():
            outgoing = self._outgoing.take(manifest.leaving_bytes)
            if any(each.device == self.streams.device for each in manifest.leaving):  # else it has no part
                self._own.wait_event(ready)
            write_tensors(manifest.leaving, outgoing.buffer)
            written = self._own.record_event()
            written.synchronize()  # gloo reads it at once
            exchange(outgoing.buffer, slot.buffer[: manifest.arriving_bytes], manifest.route)
            outgoing.read_until(written)
        write_tensors(manifest.staying, slot.buffer[manifest.arriving_bytes :])

        def fill(buffer: torch.Tensor) -> None:
            write_tensors([slot.buffer], buffer)

        return Upload(step, self.streams, self._side, manifest.n_bytes, fill, slot, None)


class DeviceUploader:
    """Tensors go from device to device. Beside the training loop, those of the host are laid into pinned memory."""

    def __init__(
        self, streams: Streams, side: Stream, transport: DeviceTransport | None, watchdog: Watchdog, slots: int
    ) -> None:
        """``transport``: None for one rank alone."""
        self.streams, self._side, self._transport, self._watchdog = streams, side, transport, watchdog
        self._ring = Ring(streams, slots)

    def exchange_stream(self) -> AbstractContextManager[object]:
        return nullcontext()

    def prepare(self, step: int, manifest: Manifest, ready: Event, exchange: Exchange) -> Upload:
        on_host = [each for each in manifest.leaving if each.device != self.streams.device]
        n_host = sum(aligned(each.nbytes) for each in on_host)
        slot = self._ring.take(n_host + manifest.n_bytes - manifest.arriving_bytes)
        write_tensors(on_host, slot.buffer[:n_host])
        write_tensors(manifest.staying, slot.buffer[n_host:])
        leaving = self._staged(manifest.leaving, slot.buffer)

        def fill(buffer: torch.Tensor) -> None:
            if manifest.route.sizes.any():
                content = self.streams.empty(power_of_two(manifest.leaving_bytes))[: manifest.leaving_bytes]
                write_tensors(leaving, content)
                self._exchange(step, content, buffer[: manifest.arriving_bytes], manifest.route)
            write_tensors([slot.buffer[n_host:]], buffer[manifest.arriving_bytes :])

        return Upload(step, self.streams, self._side, manifest.n_bytes, fill, slot, self._watchdog)

    def _staged(self, tensors: list[torch.Tensor], buffer: torch.Tensor) -> list[torch.Tensor]:
        """Return ``tensors``, those of the host replaced by their bytes in ``buffer``."""
        start, staged = 0, []
        for tensor in tensors:
            if tensor.device == self.streams.device:
                staged.append(tensor)
            else:
                staged.append(buffer[start : start + tensor.nbytes])
                start += aligned(tensor.nbytes)
        return staged

    def _exchange(self, step: int, content: torch.Tensor, arrived: torch.Tensor, route: Route) -> None:
        assert self._transport is not None
        self._watchdog.launched(step)
        try:
            self._transport.exchange(content, arrived, route)
        except Disconnected as error:
            text = f"step {step}, {PHASE}: the connection between devices broke. Reported here: {error}"
            raise RankLost(text, (), step, PHASE) from error
