"""The ranks of a loader and their devices: found, compared and connected once, when it is built."""

from __future__ import annotations

import os
import traceback
import weakref
from collections.abc import Callable
from threading import Event, RLock
from typing import cast

import numpy as np
import torch.distributed as td

from packing.arrays import Int64

from .errors import ExchangeError, ForkedProcess, InvalidLoader, RankClosed, RankLost
from .local_ranks import LocalRanks, address_of
from .meeting import Meeting, Patience
from .store import Store, StoreHolder, cloned, prefixed, store_of
from .streams import Streams
from .transport import CLOSE_S, DeviceTransport, HostTransport, NoTransport, Transport, TransportKind
from .upload import DeviceUploader, HostUploader, Uploader
from .watchdog import Watchdog

__all__ = ["RankGroup"]

WARM_UP_S = 600.0  # what compiling may take on one rank longer than on another, whatever the timeout of the steps is
CLOSED = "it was closed"


class RankGroup:
    """The store, the process groups and the pass numbers of a loader. The groups are freed when nobody refers to it.

    They belong to the process that built it. One that is forked from it has the same sockets, and none of the threads
    behind them: there it can be dropped, also by the garbage collector, and nothing else.
    """

    def __init__(
        self,
        group: td.ProcessGroup | None,
        n_ranks: int,
        timeout_s: float,
        streams: Streams | None,
        kind: TransportKind,
    ) -> None:
        """Raises `InvalidLoader` unless the group has ``n_ranks`` ranks and this process is one."""
        ranks = _ranks_of(group, n_ranks)
        self.rank, self.n_ranks, self.timeout_s = (td.get_rank(group) if ranks else 0), n_ranks, timeout_s
        self.broken: str | None = None  # why no further pass can begin
        self._closing = RLock()
        self.stuck = False  # whether a thread was left behind, after all the waiting that closing allows
        self._ranks, self._process = ranks, os.getpid()
        self._holder = StoreHolder.among(ranks)
        with self._holder.asked(0, "construction"):
            self._name, self._store = store_of(ranks, self.rank)
        self._for_training: Store | None = None  # a connection for its thread; one, since connecting may take seconds
        self._passes = 0
        self._last: Meeting | None = None
        self._transport: Transport = NoTransport()
        self._local_ranks = LocalRanks()
        self._transport_kind, self._between_devices = kind, cast("DeviceTransport | None", None)
        self._streams = streams
        self._exchange_streams = [streams.new() for _ in range(2)] if streams else []  # once: a device has only some

    def connect(self, word: str, warm_up: Callable[[], None], length: int) -> Int64:
        """Compare ``word`` with all ranks, warm up, build the groups. Collective. Return the ``length`` of every rank.

        Raises `RankDisagreement` where the words, or the order in which loaders are built, differ.
        """
        meeting = self._last = self._compared(word, warm_up)
        try:
            self._build_transports()
            said = self._transport.gather(np.array([length, *address_of(os.getpid())]))
        except ExchangeError:
            raise
        except RuntimeError as error:
            raise meeting.lose(error) from error
        self._local_ranks = LocalRanks([(mark, process) for _, mark, process in said.tolist()])
        self._when_gone(self._local_ranks.close)
        return said[:, 0]

    def _compared(self, word: str, warm_up: Callable[[], None]) -> Meeting:
        """Meet before and after warming up; return the meeting."""
        patience = Patience(self.timeout_s)
        meeting = Meeting(prefixed("built", self._store), self._holder, self.rank, self.n_ranks, patience, Event())
        with patience.waiting():
            meeting.at(0, "construction")
            meeting.meet(word)
        meeting.enter(0, "warm-up")
        try:
            warm_up()
        except Exception as error:
            meeting.fail(error, traceback.format_exc())
            raise
        patience.timeout_s = max(self.timeout_s, WARM_UP_S)
        with patience.waiting():
            meeting.meet()
        return meeting

    def _build_transports(self) -> None:
        """Collective: all ranks have just met."""
        if self.n_ranks == 1:
            return
        self._transport = HostTransport(self._ranks, self._name)
        self._when_gone(self._transport.close)
        if self._streams is not None and self._transport_kind is not TransportKind.HOST:
            self._between_devices = DeviceTransport(self._ranks, self._name, self._streams, self.timeout_s)
            self._when_gone(self._between_devices.close)

    def _when_gone(self, free: Callable[[], None]) -> None:
        weakref.finalize(self, _freed_in, self._process, free)

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that built the groups."""
        return os.getpid() != self._process

    def require_own_process(self) -> None:
        """Raise `ForkedProcess` in a child of the process that built the groups."""
        if self.is_forked:
            raise ForkedProcess(
                f"process {os.getpid()} was forked from {self._process}, which built this loader, and cannot use its "
                f"connections. Build the loader in the process that iterates it."
            )

    def begin(self, patience: Patience, stop: Event) -> tuple[int, Meeting, Transport]:
        """Return the number of a new pass, its meeting and its transport.

        Raises `ForkedProcess`, `RankClosed` if the loader was closed, and `RankLost` if a pass broke off.
        """
        self.require_own_process()
        if self.broken:
            text = f"this loader can no longer be used: {self.broken}. Build a new one."
            if self.broken == CLOSED:
                raise RankClosed(text, (self.rank,), 0, "begin")
            raise RankLost(text, (), 0, "begin")
        number, self._passes = self._passes, self._passes + 1
        store = prefixed(f"pass {number}", self._store)
        meeting = Meeting(
            store, self._holder, self.rank, self.n_ranks, patience, stop, self._last, self._local_ranks.ended
        )
        self._last = meeting
        return number, meeting, self._transport

    @property
    def launched(self) -> int:
        """Exchanges between devices so far: the same on all ranks, unless they left a pass at different places."""
        return 0 if self._between_devices is None else self._between_devices.launched

    def uploader(self, patience: Patience, depth: int) -> Uploader | None:
        """Return how tensors of the pass that was just begun come to the device; None without a device."""
        if self._streams is None:
            return None
        side, own = self._exchange_streams
        slots = depth + 2  # one more than steps that may be loaded and not yet launched
        if self._transport_kind is TransportKind.HOST:
            return HostUploader(self._streams, side, own, slots)
        if self._for_training is None:
            with self._holder.asked(0, "begin"):
                self._for_training = cloned(self._store)
        watchdog = Watchdog(self._for_training, self._holder, self.rank, self.n_ranks, self._passes - 1, patience)
        return DeviceUploader(self._streams, side, self._between_devices, watchdog, slots)

    def leave_thread_behind(self) -> None:
        """Note that an exchange thread did not end: it may still use the groups."""
        self.broken, self.stuck = "its exchange thread did not end in time", True

    def close(self) -> None:
        """Free the groups: no pass can begin any more. Again is harmless."""
        if self.is_forked:
            return
        with self._closing:  # any thread may close
            self._transport.close()
            self._local_ranks.close()
            if self._between_devices is not None:
                self._between_devices.close(0.0 if self.stuck else CLOSE_S)
            self.broken = self.broken or CLOSED
            self._last, self._store = None, store_of([], 0)[1]  # which frees the connection to the rendezvous store


def _freed_in(process: int, free: Callable[[], None]) -> None:
    if os.getpid() == process:
        free()


def _ranks_of(group: td.ProcessGroup | None, n_ranks: int) -> list[int]:
    """Return the ranks of the group in the job; an empty list without a job, which stands for one rank."""
    if not (td.is_available() and td.is_initialized()):
        if group is not None:
            raise InvalidLoader(
                f"group is {group!r}, but torch.distributed is not initialised: call init_process_group first, or "
                f"leave group out."
            )
        if n_ranks > 1:
            raise InvalidLoader(
                f"the grid has {n_ranks} ranks, but torch.distributed is not initialised: call init_process_group "
                f"first, or use Grid(1)."
            )
        return []
    whole: object = td.group.WORLD if group is None else group
    try:
        if not isinstance(whole, td.ProcessGroup):  # torch takes names and numbers of groups too
            raise TypeError
        ranks = td.get_process_group_ranks(whole)
    except (KeyError, TypeError) as error:
        raise InvalidLoader(
            f"group must be a process group of this job, or None; got {group!r}. A DeviceMesh gives it by get_group()."
        ) from error
    if len(ranks) != n_ranks:
        raise InvalidLoader(
            f"the grid has {n_ranks} ranks, the group {len(ranks)}. Give the group of data parallelism."
        )
    if td.get_rank() not in ranks:
        raise InvalidLoader(f"rank {td.get_rank()} is not in the group {ranks}.")
    return ranks
