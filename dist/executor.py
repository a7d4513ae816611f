"""One step of a pass: agree, plan, move. No threads here: whoever calls is the one thread that communicates."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np
import torch

from balancers import Plan, Problem
from packing.arrays import Int64

from .agreement import Offer, Table
from .errors import ExchangeError
from .exchange import Route, route_of
from .gains import Gains, gains_of, totals
from .manifest import Manifest, PendingPack
from .meeting import Meeting
from .memory import BufferPool
from .metrics import Span
from .payload import Parcel, parcel
from .roll import numbered
from .settings import Mode, Settings
from .source import WeighedPack
from .streams import Event
from .transport import Disconnected, Transport
from .trees import copied
from .upload import Upload, Uploader

__all__ = ["Delivery", "Executor", "PackId"]


class PackId(NamedTuple):
    """Which pack: the rank that loaded it, and its number in that rank's source, from 0 in each pass.

    A pack that was carried over keeps the number of its own pass.
    """

    rank: int
    number: int


@dataclass(frozen=True, eq=False)
class Delivery:
    """A step's packs of this rank, by micro-step: (pack, its id or None for a dummy).

    With an ``upload``, which brings tensors to the device, some packs are `PendingPack`s. ``own``: how many packs
    that were loaded here are trained on in each micro-step, on any rank.
    """

    step: int
    cells: tuple[tuple[tuple[object, PackId | None], ...], ...]
    own: tuple[int, ...]
    totals: Mapping[str, int]
    gains: Gains
    spans: tuple[Span, ...]
    upload: Upload | None


class Executor:
    """Runs the steps of one pass on this rank, one after the other, in the order that all ranks share."""

    def __init__(
        self,
        settings: Settings,
        rank: int,
        pass_number: int,
        meeting: Meeting,
        transport: Transport,
        uploader: Uploader | None,
        begins: str,
    ) -> None:
        """``begins``: where the training loop goes on, which all ranks must share."""
        self.meeting, self._uploader = meeting, uploader
        self._device = None if uploader is None else uploader.streams.device
        self._settings, self._rank, self._pass, self._transport = settings, rank, pass_number, transport
        self._begins = begins
        self._dummy: tuple[object] | None = None  # the first pack loaded here
        self._buffers = BufferPool()
        self._spans: list[Span] = []

    def begin_thread(self) -> None:
        """Prepare a new thread, in which `step` will be called."""
        if self._uploader is not None:
            self._uploader.streams.make_current()

    def step(
        self, number: int, offered: Sequence[WeighedPack], error: Exception | None, ready: Event | None
    ) -> Delivery | None:
        """Return this rank's packs of a step, or None where all ranks agree that the pass has ended.

        ``error`` is what the source raised instead of packs. ``ready``: when the device has made the packs. Whatever is
        raised here or there, every rank raises.
        """
        self._spans = []
        stream = nullcontext() if self._uploader is None else self._uploader.exchange_stream()
        try:
            with torch.inference_mode(False), torch.no_grad(), stream:
                return self._run(number, offered, error, ready)
        except ExchangeError:
            raise
        except BaseException as problem:  # sys.exit() of a balancer too
            trace = "".join(traceback.format_exception(problem))
            self.meeting.fail(problem, trace)
            traceback.clear_frames(problem.__traceback__)  # else the error keeps packs and buffers alive,
            del offered, error  # and this frame, which it holds too, the error
            raise

    def _run(
        self, number: int, offered: Sequence[WeighedPack], error: Exception | None, ready: Event | None
    ) -> Delivery | None:
        meet, settings = self.meeting, self._settings
        meet.at(number, "source")
        if error is not None:
            raise error
        with self._span("pack"):
            parcels = [parcel(each.pack, self._device) for each in offered]
        if self._dummy is None and offered:
            self._dummy = (copied(offered[0].pack),)  # the training loop may take apart what it gets
        with self._span("meet"):
            meet.at(number, "agree")
            meet.come(self._begins)
            self._begins = ""
        message = self._message(number, offered, parcels)
        with self._span("meet"):
            meet.wait()
        with self._span("agree"):
            with self._connected():
                rows = self._transport.gather(message)
            table = settings.message_format.table(rows)
        if settings.ended(table.counts):
            return None
        cell, plan = self._planned(number, table)
        frame_route, tensor_route = self._routes(table, cell)
        comparing = settings.mode is Mode.BALANCE or len(frame_route.pack) > 0
        if comparing:
            with self._span("meet"):
                meet.come(plan.digest() if plan else "home")
        grid = settings.grid
        held = np.bincount(cell, minlength=grid.n_cells)
        lacking = settings.cell_counts(held) - held
        gains = gains_of(settings, table, plan, (frame_route, tensor_route), self._rank, int(lacking.sum()))
        own = np.bincount(cell[table.home_rank == self._rank] // grid.n_ranks, minlength=grid.n_micro_steps).tolist()
        sums = totals(settings, table)
        if comparing:
            with self._span("meet"):
                meet.wait(self._explain)
        sent = [parcels[int(table.place[pack])] for pack in tensor_route.sent(self._rank)]
        leaving = [each for packed in sent for each in packed.tensors]
        manifest = Manifest(self._device, self._rank, tensor_route, leaving)
        received = self._moved(number, table, frame_route, sent, manifest)
        cells = self._laid_out(table, cell, lacking, offered, received, manifest)
        upload = None
        if self._uploader is not None:
            assert ready is not None
            upload = self._uploader.prepare(number, manifest, ready, self._exchange)
        return Delivery(number, cells, tuple(own), sums, gains, tuple(self._spans), upload)

    def _message(self, number: int, offered: Sequence[WeighedPack], parcels: Sequence[Parcel]) -> Int64:
        offer = Offer(
            loads=[each.loads for each in offered],
            amounts=[each.amounts for each in offered],
            n_bytes=[each.n_bytes for each in parcels],
            n_tensor_bytes=[each.n_tensor_bytes for each in parcels],
            index=[each.number for each in offered],
            has_dummy=self._dummy is not None,
        )
        return self._settings.message_format.message(offer, self._pass, number)

    def _planned(self, number: int, table: Table) -> tuple[Int64, Plan | None]:
        """Return the cell of every pack, (n_packs,), and the plan, if one was made."""
        home = self._settings.home(table)
        if self._settings.mode is Mode.OFF:
            return home, None
        self.meeting.at(number, "plan")
        with self._span("plan"):
            problem = self._settings.problem(table, number)
            plan = self._settings.plan(problem) if self._settings.portable else self._planned_by_rank_0(problem)
        return (plan.cell.astype(np.int64) if self._settings.mode is Mode.BALANCE else home), plan

    def _planned_by_rank_0(self, problem: Problem) -> Plan:
        """The balancer may differ between machines: the cells of rank 0 travel through the store."""
        planned = self._settings.plan(problem).cell.tolist() if self._rank == 0 else []
        if self._rank == 0:
            self.meeting.tell(" ".join(map(str, planned)))
        self.meeting.meet()
        cell = np.array(self.meeting.told().split(), dtype=np.int32)
        return self._settings.plan(problem, cell)

    def _routes(self, table: Table, cell: Int64) -> tuple[Route, Route]:
        """Return who sends what, of frames and of tensors that travel apart: the packs that move, and a copy of pack 0
        to each rank that needs a dummy of which it has none."""
        n_ranks = self._settings.grid.n_ranks
        source, target = table.home_rank, cell % n_ranks
        moved = np.flatnonzero(source != target)
        bare = np.flatnonzero((table.has_dummy == 0) & (np.bincount(target, minlength=n_ranks) == 0))
        if not len(moved) + len(bare):
            nothing = route_of(moved, moved, moved, moved, n_ranks)
            return nothing, nothing
        pack = np.concatenate([moved, np.zeros(len(bare), dtype=np.int64)])
        ends = [np.concatenate(each) for each in ((source[moved], source[:1].repeat(len(bare))), (target[moved], bare))]
        return (
            route_of(pack, ends[0], ends[1], table.n_bytes[pack], n_ranks),
            route_of(pack, ends[0], ends[1], table.n_tensor_bytes[pack], n_ranks),
        )

    def _moved(
        self, number: int, table: Table, frame_route: Route, sent: Sequence[Parcel], manifest: Manifest
    ) -> dict[int, object]:
        """Return what arrives here, by pack."""
        if not len(frame_route.pack):
            return {}
        self.meeting.enter(number, "exchange")
        with self._span("pack"):
            content = self._buffers.take(frame_route.sent_bytes(self._rank))
            start = 0
            for packed in sent:
                packed.write(content[start : start + packed.n_bytes])
                start += packed.n_bytes
        arrived = self._buffers.take(frame_route.received_bytes(self._rank))
        self._exchange(content, arrived, frame_route)
        arriving = frame_route.received(self._rank)
        with self._span("unpack"):
            pieces = torch.split(arrived, table.n_bytes[arriving].tolist()) if len(arriving) else ()
            return {
                int(pack): manifest.received(piece, int(table.n_tensor_bytes[pack]))
                for pack, piece in zip(arriving, pieces, strict=True)
            }

    def _exchange(self, content: torch.Tensor, arrived: torch.Tensor, route: Route) -> None:
        with self._span("exchange"), self._connected():
            self._transport.exchange(content, arrived, route)

    def _laid_out(
        self,
        table: Table,
        cell: Int64,
        lacking: Int64,
        offered: Sequence[WeighedPack],
        received: Mapping[int, object],
        manifest: Manifest,
    ) -> tuple[tuple[tuple[object, PackId | None], ...], ...]:
        """Return this rank's packs by micro-step, dummies at the end of each, as many as each cell is ``lacking``."""
        grid = self._settings.grid
        laid: list[list[tuple[object, PackId | None]]] = [[] for _ in range(grid.n_micro_steps)]
        here = np.flatnonzero(cell % grid.n_ranks == self._rank)
        origin = (each[here].tolist() for each in (cell, table.home_rank, table.place, table.index))
        for pack, own, rank, place, index in zip(here.tolist(), *origin, strict=True):
            content = manifest.stays(offered[place].pack) if rank == self._rank else received[pack]
            laid[own // grid.n_ranks].append((content, PackId(rank, index)))
        dummy: list[object] = []  # made once, where it is needed
        for packs, n in zip(laid, lacking[self._rank :: grid.n_ranks].tolist(), strict=True):
            if n:
                dummy = dummy or [manifest.stays(*self._dummy) if self._dummy else next(iter(received.values()))]
                packs.extend((each if isinstance(each, PendingPack) else copied(each), None) for each in dummy * n)
        return tuple(map(tuple, laid))

    def _explain(self, ranks: Mapping[str, Sequence[int]]) -> str:
        return "plans differ: " + ", ".join(
            f"{numbered(those)} planned {digest[:8]}.." for digest, those in ranks.items()
        )

    @contextmanager
    def _span(self, name: str) -> Iterator[None]:
        begin = perf_counter_ns()
        try:
            yield
        finally:
            self._spans.append(Span(name, begin // 1000, (perf_counter_ns() - begin) // 1000))

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """A collective that breaks off becomes an error that names who is gone."""
        try:
            yield
        except Disconnected as error:
            raise self.meeting.lose(error) from error
