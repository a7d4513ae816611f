"""One step of a pass: agree, plan, move. No threads here: whoever calls is the one thread that communicates."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np
import torch

from balancers import Plan, Problem
from balancers.verification import busy_times
from packing.arrays import Int64

from .agreement import Offer, Table
from .errors import ExchangeError, RankLost
from .exchange import Route, route
from .meeting import Meeting
from .metrics import Span
from .payload import Parcel, parcel, unpack
from .settings import Mode, Settings
from .source import Weighed
from .transport import Transport

__all__ = ["Delivery", "Executor", "Gains", "PackId"]


class PackId(NamedTuple):
    """Which pack: the rank that loaded it, and its number in that rank's source, from 0 in each pass."""

    rank: int
    number: int


class Gains(NamedTuple):
    """What a plan is worth over all ranks, and what of it moves from and to this one."""

    packs: int
    dummies: int
    cost_before: int
    cost_after: int
    busy_before: int
    busy_after: int
    moved_packs: int
    moved_bytes: int
    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True, eq=False)
class Delivery:
    """A step's packs of this rank, by micro-step: (pack, its id or None for a dummy)."""

    step: int
    cells: tuple[tuple[tuple[object, PackId | None], ...], ...]
    totals: Mapping[str, int]
    gains: Gains
    spans: tuple[Span, ...]


class Executor:
    """Runs the steps of one pass on this rank, one after the other, in the order that all ranks share."""

    def __init__(self, settings: Settings, rank: int, pass_number: int, meeting: Meeting, transport: Transport) -> None:
        self.meeting = meeting
        self._settings, self._rank, self._pass, self._transport = settings, rank, pass_number, transport
        self._dummy: tuple[object] | None = None  # the first pack seen here
        self._buffer = torch.empty(0, dtype=torch.uint8)  # what is sent; kept from step to step
        self._spans: list[Span] = []

    def step(self, number: int, offered: Sequence[Weighed], error: Exception | None) -> Delivery | None:
        """Return this rank's packs of a step, or None where all ranks agree that the pass has ended.

        ``error`` is what the source raised instead of packs. Whatever is raised here or there, every rank raises.
        """
        self._spans = []
        try:
            with torch.no_grad():
                return self._run(number, offered, error)
        except ExchangeError:
            raise
        except Exception as problem:
            trace = "".join(traceback.format_exception(problem))
            with self._store_alive(number):
                self.meeting.fail(problem, trace)
            traceback.clear_frames(problem.__traceback__)  # else the error keeps packs and buffers alive
            raise

    def _run(self, number: int, offered: Sequence[Weighed], error: Exception | None) -> Delivery | None:
        meet, settings = self.meeting, self._settings
        meet.at(number, "source")
        if error is not None:
            raise error
        with self._span("pack"):
            parcels = [parcel(each.pack) for each in offered]
        if self._dummy is None and offered:
            self._dummy = (offered[0].pack,)
        with self._span("meet"), self._store_alive(number):
            meet.at(number, "agree")
            meet.meet()
        with self._span("agree"):
            table = self._agreed(number, offered, parcels)
        if settings.ended(table.counts):
            return None
        cell, plan = self._planned(number, table)
        way = self._way(table, cell)
        if settings.mode is Mode.BALANCE or len(way.pack):
            with self._span("meet"), self._store_alive(number):
                meet.meet(plan.digest() if plan else "home", self._explain)
        received = self._moved(number, table, way, parcels)
        cells, dummies = self._laid_out(table, cell, offered, received)
        return Delivery(number, cells, self._totals(table), self._gains(table, plan, way, dummies), tuple(self._spans))

    def _agreed(self, number: int, offered: Sequence[Weighed], parcels: Sequence[Parcel]) -> Table:
        offer = Offer(
            loads=[each.loads for each in offered],
            amounts=[each.amounts for each in offered],
            n_bytes=[each.n_bytes for each in parcels],
            index=[each.number for each in offered],
            has_dummy=self._dummy is not None,
        )
        form = self._settings.form
        with self._connected():
            rows = self._transport.gather(form.message(offer, self._pass, number))
        return form.table(rows)

    def _planned(self, number: int, table: Table) -> tuple[Int64, Plan | None]:
        """Return the cell of every pack, (n_packs,), and the plan, if one was made."""
        home = self._settings.home(table)
        if self._settings.mode is Mode.OFF:
            return home, None
        with self._store_alive(number):
            self.meeting.enter(number, "plan")
        with self._span("plan"):
            problem = self._settings.problem(table, number)
            plan = self._settings.plan(problem) if self._settings.portable else self._planned_by_rank_0(number, problem)
        return (plan.cell.astype(np.int64) if self._settings.mode is Mode.BALANCE else home), plan

    def _planned_by_rank_0(self, number: int, problem: Problem) -> Plan:
        """The balancer may differ between machines: the cells of rank 0 travel through the store."""
        planned = self._settings.plan(problem).cell.tolist() if self._rank == 0 else []
        with self._store_alive(number):
            if self._rank == 0:
                self.meeting.tell(" ".join(map(str, planned)))
            self.meeting.meet()
            cell = np.array(self.meeting.told().split(), dtype=np.int32)
        return self._settings.plan(problem, cell)

    def _way(self, table: Table, cell: Int64) -> Route:
        """Return who sends what: the packs that move, and a copy of pack 0 to each rank that needs a dummy of which it
        has none."""
        n_ranks = self._settings.grid.n_ranks
        source, target = table.home_rank, cell % n_ranks
        moved = np.flatnonzero(source != target)
        held = np.bincount(target, minlength=n_ranks)
        bare = np.flatnonzero((table.has_dummy == 0) & (held == 0))
        pack = np.concatenate([moved, np.zeros(len(bare), dtype=np.int64)])
        ends = [np.concatenate(each) for each in ((source[moved], source[:1].repeat(len(bare))), (target[moved], bare))]
        return route(pack, ends[0], ends[1], table.n_bytes[pack], n_ranks)

    def _moved(self, number: int, table: Table, way: Route, parcels: Sequence[Parcel]) -> dict[int, object]:
        """Return what arrives here, by pack."""
        if not len(way.pack):
            return {}
        with self._store_alive(number):
            self.meeting.enter(number, "exchange")
        sent, arriving = way.sent(self._rank), way.received(self._rank)
        with self._span("pack"):
            content = self._sending(int(table.n_bytes[sent].sum()))
            start = 0
            for pack in sent:
                packed = parcels[int(table.place[pack])]
                packed.write(content[start : start + packed.n_bytes])
                start += packed.n_bytes
        with self._span("exchange"), self._connected():
            arrived = self._transport.exchange(content, way)
        with self._span("unpack"):
            pieces = torch.split(arrived, table.n_bytes[arriving].tolist()) if len(arriving) else ()
            return {int(pack): unpack(piece) for pack, piece in zip(arriving, pieces, strict=True)}

    def _sending(self, n_bytes: int) -> torch.Tensor:
        if len(self._buffer) < n_bytes:
            self._buffer = torch.empty(1 << max(n_bytes - 1, 1).bit_length(), dtype=torch.uint8)
        return self._buffer[:n_bytes]

    def _laid_out(
        self, table: Table, cell: Int64, offered: Sequence[Weighed], received: Mapping[int, object]
    ) -> tuple[tuple[tuple[tuple[object, PackId | None], ...], ...], int]:
        """Return this rank's packs by micro-step, dummies at the end of each, and the number of dummies of all."""
        grid = self._settings.grid
        held = np.bincount(cell, minlength=grid.n_cells)
        wanted = self._settings.fill(held)
        if self._dummy is None and received:
            self._dummy = (next(iter(received.values())),)
        cells = []
        for micro_step in range(grid.n_micro_steps):
            own = micro_step * grid.n_ranks + self._rank
            packs: list[tuple[object, PackId | None]] = []
            for pack in np.flatnonzero(cell == own).tolist():
                rank, place = int(table.home_rank[pack]), int(table.place[pack])
                content = offered[place].pack if rank == self._rank else received[pack]
                packs.append((content, PackId(rank, int(table.index[pack]))))
            for _ in range(int(wanted[own] - held[own])):
                assert self._dummy is not None
                packs.append((self._dummy[0], None))
            cells.append(tuple(packs))
        return tuple(cells), int((wanted - held).sum())

    def _totals(self, table: Table) -> dict[str, int]:
        sums = dict(zip(self._settings.amounts, table.amounts.sum(axis=0).tolist(), strict=True))
        return {"packs": int(table.counts.sum()), **sums}

    def _gains(self, table: Table, plan: Plan | None, way: Route, dummies: int) -> Gains:
        problem = plan.problem if plan else self._settings.problem(table, 0)
        before = busy_times(problem, self._settings.home(table).astype(np.int32))
        cost = int(before.max(axis=1).sum())
        return Gains(
            packs=problem.n_packs,
            dummies=dummies,
            cost_before=cost,
            cost_after=plan.cost if plan else cost,
            busy_before=int(before.sum()),
            busy_after=int(plan.busy.sum() if plan else before.sum()),
            moved_packs=len(way.pack),
            moved_bytes=int(way.n_bytes.sum()),
            sent_bytes=int(way.sizes[self._rank].sum()),
            received_bytes=int(way.sizes[:, self._rank].sum()),
        )

    def _explain(self, ranks: Mapping[str, Sequence[int]]) -> str:
        return "plans differ: " + ", ".join(
            f"rank{'s' * (len(those) > 1)} {', '.join(map(str, those))} planned {digest[:8]}.."
            for digest, those in ranks.items()
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
        except RuntimeError as error:
            try:
                lost = self.meeting.lose(error)
            except RuntimeError as gone:
                lost = _store_gone(gone, -1)
            raise lost from error

    @contextmanager
    def _store_alive(self, number: int) -> Iterator[None]:
        """The store ends with the process that holds it, usually that of rank 0."""
        try:
            yield
        except ExchangeError:
            raise
        except RuntimeError as error:
            raise _store_gone(error, number) from error


def _store_gone(error: RuntimeError, number: int) -> RankLost:
    return RankLost(
        f"step {number}: the rendezvous store is gone; rank 0 usually holds it. {error}", (0,), number, "meet"
    )
