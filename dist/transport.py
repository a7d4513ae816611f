"""The two collectives of the executor, on a gloo group of its own that one thread uses."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Protocol

import numpy as np
import torch
import torch.distributed as td

from packing.arrays import Int64

from .exchange import CHUNK, Route

__all__ = ["HostTransport", "NoTransport", "Transport"]

GROUP_TIMEOUT = timedelta(seconds=4)  # all ranks have met before: it covers the transfer of one chunk alone


class Transport(Protocol):
    """How integers and bytes reach other ranks. Errors of the connection are RuntimeErrors."""

    def gather(self, message: Int64) -> Int64:
        """Return the messages of all ranks, (n_ranks, length)."""
        ...

    def exchange(self, content: torch.Tensor, route: Route) -> torch.Tensor:
        """Send ``content`` (uint8, in the order of `Route.sent`), return what arrives, in that of `Route.received`."""
        ...

    def close(self) -> None:
        """Free the group; again is harmless."""
        ...


class HostTransport:
    """Gloo: bytes go through the memory of the host. Building one is collective over ``ranks``."""

    def __init__(self, ranks: list[int], chunk: int = CHUNK) -> None:
        self._group: td.ProcessGroup | None = td.new_group(
            ranks, timeout=GROUP_TIMEOUT, backend="gloo", use_local_synchronization=len(ranks) < td.get_world_size()
        )
        self._rank, self._n_ranks, self._chunk = td.get_rank(self._group), len(ranks), chunk

    def gather(self, message: Int64) -> Int64:
        rows = torch.empty(self._n_ranks * len(message), dtype=torch.int64)
        td.all_gather_single(rows, torch.from_numpy(message), group=self._group)
        return rows.numpy().reshape(self._n_ranks, -1)

    def exchange(self, content: torch.Tensor, route: Route) -> torch.Tensor:
        out, into = route.sizes[self._rank], route.sizes[:, self._rank]
        arrived = torch.empty(int(into.sum()), dtype=torch.uint8)
        rounds = list(route.rounds(self._chunk))
        if len(rounds) == 1:
            self._all_to_all(arrived, content, into, out)
            return arrived
        first_out, first_in = np.cumsum(out) - out, np.cumsum(into) - into
        for start, stop in rounds:
            begin, end = start[self._rank] + first_out, stop[self._rank] + first_out
            some = torch.cat([content[a:b] for a, b in zip(begin, end, strict=True)])
            begin, end = start[:, self._rank] + first_in, stop[:, self._rank] + first_in
            part = torch.empty(int((end - begin).sum()), dtype=torch.uint8)
            self._all_to_all(part, some, end - begin, stop[self._rank] - start[self._rank])
            for a, b, piece in zip(begin, end, torch.split(part, (end - begin).tolist()), strict=True):
                np.copyto(arrived.numpy()[a:b], piece.numpy())
        return arrived

    def close(self) -> None:
        if self._group is not None:
            with suppress(ValueError, RuntimeError):  # the user may have destroyed all groups
                td.destroy_process_group(self._group)
            self._group = None

    def _all_to_all(self, arrived: torch.Tensor, content: torch.Tensor, into: Int64, out: Int64) -> None:
        td.all_to_all_single(arrived, content, into.tolist(), out.tolist(), group=self._group)


class NoTransport:
    """One rank alone: nothing to reach."""

    def gather(self, message: Int64) -> Int64:
        return message[None]

    def exchange(self, content: torch.Tensor, route: Route) -> torch.Tensor:
        return content

    def close(self) -> None:
        pass
