"""Which tensors of a step come to this rank, and in which packs they belong. Nothing is copied here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from .exchange import Route
from .payload import aligned, on_device, parcel, unpack

__all__ = ["Manifest", "PendingPack"]


@dataclass(frozen=True, eq=False)
class PendingPack:
    """A pack whose tensors are on their way: bytes ``start`` to ``stop`` of the step's buffer."""

    complete: Callable[[torch.Tensor], object]
    start: int
    stop: int

    def pack(self, buffer: torch.Tensor | None) -> object:
        """Return the pack, given the step's buffer, (n,) uint8 on the device."""
        assert buffer is not None
        return self.complete(buffer[self.start : self.stop])


class Manifest:
    """The tensors of one step on one rank. The step's buffer holds what is received, by sender, then what stays.

    ``leaving``: what this rank sends, in the order of `Route.sent`. ``staying``: of packs that stay here, the tensors
    that are not yet on ``device``. Without a device, packs hold their tensors already, and none is pending.
    """

    def __init__(self, device: torch.device | None, rank: int, route: Route, leaving: list[torch.Tensor]) -> None:
        self.route, self.leaving = route, leaving
        self.staying: list[torch.Tensor] = []
        self.arriving_bytes = self.n_bytes = route.received_bytes(rank)
        self.leaving_bytes = route.sent_bytes(rank)
        self._device, self._received = device, 0

    def received(self, frame: torch.Tensor, n_bytes: int) -> object:
        """Return the next pack in the order of `Route.received`, with ``n_bytes`` of tensors."""
        if self._device is None:
            return unpack(frame)
        start, self._received = self._received, self._received + n_bytes
        return PendingPack(partial(unpack, frame), start, start + n_bytes)

    def stays(self, pack: object) -> object:
        """Return a pack that is here already: itself if nothing of it is elsewhere."""
        if self._device is None:
            return pack
        elsewhere = [each for each in parcel(pack, self._device).tensors if each.device != self._device]
        if not elsewhere:
            return pack
        start = self.n_bytes
        self.n_bytes += sum(aligned(each.nbytes) for each in elsewhere)
        self.staying += elsewhere
        return PendingPack(partial(on_device, pack, self._device), start, self.n_bytes)
