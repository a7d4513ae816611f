"""The collectives of the executor, on groups of its own: through the host (gloo), or from device to device (NCCL)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from enum import Enum
from typing import Protocol

import numpy as np
import torch
import torch.distributed as td

from packing.arrays import Int64

from .errors import ExchangeTimeout, InvalidLoader
from .exchange import CHUNK, Route
from .settings import chosen
from .streams import Event, Streams
from .watchdog import passed

__all__ = ["CLOSE_S", "DeviceTransport", "Disconnected", "HostTransport", "NoTransport", "Transport", "TransportKind"]

GROUP_TIMEOUT = timedelta(seconds=4)  # all ranks have met before: it covers the transfer of one chunk alone
BEYOND_S = 3600.0  # NCCL ends the process when its own time is up: that must be long after ours
FOR_EVER_S = 1e9  # the longest that torch is told: it takes no infinite time
CLOSE_S = 3.0  # what is under way when a group is freed may take this long
ONE_QUEUE = "CUDA_DEVICE_MAX_CONNECTIONS"


class TransportKind(Enum):
    """How the tensors of packs travel between ranks that deliver them on a device."""

    HOST = "host"  # gloo, beside the training loop
    DEVICE = "device"  # NCCL, enqueued by the training loop
    DEVICE_ONE_QUEUE = "device-one-queue"  # the same, though the device has one hardware queue for all streams

    @classmethod
    def checked(cls, transport: str, streams: Streams | None) -> TransportKind:
        """Raises `InvalidLoader`."""
        kind = chosen("transport", cls, transport)
        if kind is cls.HOST:
            return kind
        if streams is None:
            raise InvalidLoader(f'transport={transport!r} needs the device that packs are delivered on: device="cuda".')
        if streams.device.type == "cpu":
            return kind
        if not td.is_nccl_available():
            raise InvalidLoader(f'transport={transport!r} needs NCCL, which this torch lacks. Use transport="host".')
        if kind is cls.DEVICE and os.environ.get(ONE_QUEUE) == "1":
            raise InvalidLoader(
                f"{ONE_QUEUE} is 1: an exchange that waits for a late rank would hold up all that this rank enqueues "
                f'behind it. Set it to 8 or more, use transport="host", or accept that: transport='
                f"{cls.DEVICE_ONE_QUEUE.value!r}."
            )
        return kind


class Disconnected(RuntimeError):
    """A collective broke off: a rank, or a connection, is gone. What else goes wrong here is this rank's own fault."""


class Transport(Protocol):
    """How integers and bytes reach other ranks. A connection that breaks raises `Disconnected`."""

    def gather(self, message: Int64) -> Int64:
        """Return the messages of all ranks, (n_ranks, length)."""
        ...

    def exchange(self, content: torch.Tensor, arrived: torch.Tensor, route: Route) -> None:
        """Send ``content`` (uint8, in the order of `Route.sent`), fill ``arrived``, in that of `Route.received`."""
        ...

    def close(self) -> None:
        """Free the group; again is harmless."""
        ...


class HostTransport:
    """Gloo: bytes go through the memory of the host. One thread uses it. Building one is collective over ``ranks``."""

    def __init__(self, ranks: list[int], name: str, chunk: int = CHUNK) -> None:
        """``name``: of the loader; no other group of the job has it."""
        self._group = _group(ranks, f"{name}/host", "gloo", GROUP_TIMEOUT)
        self._rank, self._n_ranks, self._chunk = td.get_rank(self._group), len(ranks), chunk

    def gather(self, message: Int64) -> Int64:
        rows = torch.empty(self._n_ranks * len(message), dtype=torch.int64, device="cpu")
        with _collective():
            td.all_gather_single(rows, torch.from_numpy(message), group=self._group)
        return rows.numpy().reshape(self._n_ranks, -1)

    def exchange(self, content: torch.Tensor, arrived: torch.Tensor, route: Route) -> None:
        out, into = route.sizes[self._rank], route.sizes[:, self._rank]
        rounds = list(route.rounds(self._chunk))
        if len(rounds) == 1:
            self._all_to_all(arrived, content, into, out)
            return
        first_out, first_in = np.cumsum(out) - out, np.cumsum(into) - into
        for start, stop in rounds:
            begin, end = start[self._rank] + first_out, stop[self._rank] + first_out
            some = torch.cat([content[a:b] for a, b in zip(begin, end, strict=True)])
            begin, end = start[:, self._rank] + first_in, stop[:, self._rank] + first_in
            part = torch.empty(int((end - begin).sum()), dtype=torch.uint8, device="cpu")
            self._all_to_all(part, some, end - begin, stop[self._rank] - start[self._rank])
            for a, b, piece in zip(begin, end, torch.split(part, (end - begin).tolist()), strict=True):
                np.copyto(arrived.numpy()[a:b], piece.numpy())

    def close(self) -> None:
        _freed(self._group)
        self._group = None

    def _all_to_all(self, arrived: torch.Tensor, content: torch.Tensor, into: Int64, out: Int64) -> None:
        with _collective():
            td.all_to_all_single(arrived, content, into.tolist(), out.tolist(), group=self._group)


class DeviceTransport:
    """The backend of the device, NCCL, or gloo to rehearse on the CPU: bytes stay in the device's memory.

    NCCL wants one order of all its operations on all ranks: so all calls are made by the thread that trains, at places
    of its program that are the same on all ranks. Building one is such a place.
    """

    def __init__(self, ranks: list[int], name: str, streams: Streams, timeout_s: float) -> None:
        """Raises `ExchangeTimeout` where ranks do not connect in ``timeout_s``."""
        backend = td.get_default_backend_for_device(streams.device)
        limit = timeout_s if backend == "gloo" else timeout_s + BEYOND_S
        self._group = _group(ranks, f"{name}/device", backend, timedelta(seconds=min(limit, FOR_EVER_S)))
        self._streams = streams
        self._rank = td.get_rank(self._group)
        self.launched = 0  # exchanges; one that only some ranks have launched would take the bytes of the next
        # The first collective builds the communicator, and waits for all ranks to do so: now, with nothing beside it.
        each, whole = np.full((len(ranks), len(ranks)), 1), streams.empty(len(ranks))
        none = np.zeros(0, dtype=np.int64)
        self.exchange(whole, streams.empty(len(ranks)), Route(none, none, none, none, each))
        if not passed(self._last, lambda seconds: seconds > timeout_s):
            text = f"connecting the devices of ranks {ranks} took more than {timeout_s:g} s; raise timeout."
            raise ExchangeTimeout(text, (), 0, "construction")

    def exchange(self, content: torch.Tensor, arrived: torch.Tensor, route: Route) -> None:
        """Enqueue the transfer on the current stream. Nothing is waited for, unless the device is the CPU."""
        out, into = route.sizes[self._rank], route.sizes[:, self._rank]
        with _collective():
            td.all_to_all_single(arrived, content, into.tolist(), out.tolist(), group=self._group)
        self._last: Event = self._streams.current().record_event()
        self.launched += 1

    def close(self, patience_s: float = CLOSE_S) -> None:
        """Free the group once what is under way has ended; what takes longer than ``patience_s`` keeps it."""
        group, self._group = self._group, None
        with suppress(RuntimeError):  # the device is broken: nothing ends
            if group is not None and passed(self._last, lambda seconds: seconds >= patience_s):
                _freed(group)


class NoTransport:
    """One rank alone: nothing to reach."""

    def gather(self, message: Int64) -> Int64:
        return message[None]

    def exchange(self, content: torch.Tensor, arrived: torch.Tensor, route: Route) -> None:
        pass

    def close(self) -> None:
        pass


@contextmanager
def _collective() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise Disconnected(str(error)) from error


def _group(ranks: list[int], name: str, backend: str, timeout: timedelta) -> td.ProcessGroup | None:
    """Return a new group, under a ``name`` that no group had before.

    ``new_group`` names a group of some ranks by how many groups the process has. Ranks that have more of them than
    others would look for each other under different names; and a name that is used again, once its group is freed,
    leads to addresses that no longer exist.
    """
    c10d = td.distributed_c10d
    places = {rank: place for place, rank in enumerate(ranks)}
    place, kind, store = places[td.get_rank()], td.Backend(backend), c10d._get_default_store()
    whole = c10d._get_default_group()
    # Where it has a device of its own, NCCL would split its communicator: all ranks of the job would have to take part.
    bound, whole.bound_device_id = whole.bound_device_id, None
    group: td.ProcessGroup
    try:
        group, _ = c10d._new_process_group_helper(
            len(ranks), place, ranks, kind, store, c10d.GroupName(name), timeout=timeout
        )
    finally:
        whole.bound_device_id = bound
    c10d._world.pg_group_ranks[group] = places
    return group


def _freed(group: td.ProcessGroup | None) -> None:
    if group is not None:
        with suppress(ValueError, RuntimeError):  # the user may have destroyed all groups
            td.destroy_process_group(group)
