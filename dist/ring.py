"""Pinned host buffers between ranks and device, used in turn."""

from __future__ import annotations

import torch

from .memory import power_of_two
from .streams import Event, Streams

__all__ = ["Ring", "Slot"]


class Slot:
    """One turn of a buffer: written by the host, then read by the device."""

    def __init__(self, buffer: torch.Tensor) -> None:
        self.buffer = buffer
        self._read: Event | None = None

    def read_until(self, event: Event) -> None:
        """The device has read the buffer once ``event`` passes."""
        self._read = event

    def wait(self) -> None:
        """Wait until the device has read it."""
        assert self._read is not None, "a buffer came round before its step was launched"
        self._read.synchronize()


class Ring:
    """``n`` buffers of pinned memory, as large as the largest step needs, up to the next power of two.

    Pinning is slow, so buffers are kept. The allocator's own protection is for buffers that are freed; these are
    written again, and so each waits for its own event.
    """

    def __init__(self, streams: Streams, n: int) -> None:
        self._streams, self._turn = streams, 0
        self._buffers = [streams.pinned(0) for _ in range(n)]
        self._slots: list[Slot | None] = [None] * n

    def take(self, n_bytes: int) -> Slot:
        """Return the next buffer, (n_bytes,) uint8, after waiting until the device has read what it held."""
        turn, self._turn = self._turn, (self._turn + 1) % len(self._buffers)
        before = self._slots[turn]
        if before is not None:
            before.wait()
        if len(self._buffers[turn]) < n_bytes:
            self._buffers[turn] = self._streams.pinned(power_of_two(n_bytes))
        slot = Slot(self._buffers[turn][:n_bytes])
        self._slots[turn] = slot
        return slot
