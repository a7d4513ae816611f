"""One pass over the data as the training loop sees it: micro-batches in order, and where to resume."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Generic, TypeVar, cast

import torch

from .errors import RankLost
from .executor import Delivery, PackId
from .manifest import PendingPack
from .metrics import Span, StepRecord, record_of
from .rank_group import RankGroup
from .runner import Answer, Order, Runner
from .settings import AtEnd, Settings
from .source import Position, Source, WeighedPack
from .upload import LaunchedUpload, Uploader, abandon

__all__ = ["MicroBatch", "Pass", "Progress"]

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class MicroBatch(Generic[T]):
    """What a rank trains on in one micro-step: the packs of one cell, dummies last.

    ``totals``: "packs" and the loader's amounts, summed over all ranks and micro-steps of the step. A loss summed over
    packs and divided by one of these does not depend on the plan.
    """

    packs: tuple[T, ...] = field(repr=False)
    ids: tuple[PackId | None, ...]  # None: a dummy
    step: int
    micro_step: int
    totals: Mapping[str, int]

    @property
    def pack(self) -> T:
        """The only pack, dummy or not. ValueError if the cell holds another number."""
        if len(self.packs) != 1:
            where = f"micro-step {self.micro_step} of step {self.step}"
            raise ValueError(f"{where} holds {len(self.packs)} packs on this rank, not one: use packs.")
        return self.packs[0]

    @property
    def weights(self) -> tuple[int, ...]:
        """1 for a pack, 0 for a dummy, whose loss must not count; dummies come last."""
        return tuple(int(each is not None) for each in self.ids)


@dataclass
class Progress:
    """Where the training loop is. The loader holds it, so that it outlives the iterator."""

    step: int
    micro_step: int
    position: Position  # of the source before ``step``
    carried: tuple[WeighedPack, ...] = ()  # packs that lead the next pass
    pending: int = 0  # packs that were loaded on this rank and have not come to any, nor are carried


@dataclass
class _Held:
    """A step whose packs are being pulled, or that was ordered and is not yet delivered as a whole."""

    position: Position  # of the source before it
    packs: list[WeighedPack] = field(default_factory=list)


class Pass(Iterator[MicroBatch[T]], Generic[T]):
    """An iterator over micro-batches. The source is pulled here, in ``next``, at the same places in every mode.

    What must have the same order on the devices of all ranks is launched here too: once, in the ``next`` that begins a
    step.
    """

    def __init__(
        self,
        settings: Settings,
        source: Source,
        runner: Runner,
        group: RankGroup,
        progress: Progress,
        depth: int,
        uploader: Uploader | None,
        on_step: Callable[[StepRecord], None] | None,
    ) -> None:
        self._settings, self._source, self._runner, self._group = settings, source, runner, group
        self._progress, self._depth, self._uploader, self._on_step = progress, depth, uploader, on_step
        self._ahead = int(uploader is not None and depth > 1)  # steps on their way to the device beside training
        self._begun: deque[tuple[Answer, LaunchedUpload | None]] = deque()  # taken, launched, not yet finished
        self._skip = progress.micro_step  # of the first step: they were delivered before the state was taken
        self._ordered = progress.step  # the step that is being pulled
        self._next, self._held = _Held(source.position()), deque[_Held]()
        self._pulled, self._asked = 0, progress.micro_step  # micro-steps of this pass
        self._source_over = self._over = False
        self._batches: deque[MicroBatch[T]] = deque()
        self._own: tuple[int, ...] = ()  # packs of ``source`` that come, to any rank, in each micro-step of the step
        self._came = 0  # packs of ``source`` that have come
        progress.pending = source.loaded
        self._spans: list[Span] = []
        self._left_us = _now_us()
        self.close = weakref.finalize(self, _close, runner, group, self._begun)

    def __next__(self) -> MicroBatch[T]:
        self._group.require_own_process()
        try:
            batch = self._following()
        except StopIteration as error:  # which would end the training loop's ``for`` as if the pass were over
            raise RuntimeError("the source, the balancer or on_step raised StopIteration.") from error
        if batch is None:
            raise StopIteration
        return batch

    def _following(self) -> MicroBatch[T] | None:
        """Return the next micro-batch, None once the pass is over."""
        self._span("compute", self._left_us)
        if self._over or not self.close.alive:
            return None
        per_step = self._settings.grid.n_micro_steps
        ahead = self._depth * per_step + self._asked + 1
        begin = _now_us()
        while self._pulled < max(ahead, (self._asked // per_step + 1) * per_step):
            self._pull()
        self._span("source", begin)
        if not self._batches and not self._take():
            return None
        batch = self._batches.popleft()
        self._asked += 1
        last = not self._batches
        if last:
            self._held.popleft()
        self._came += self._own[batch.micro_step]
        self._progress.pending = self._source.loaded - self._came
        self._progress.step, self._progress.micro_step = batch.step + last, 0 if last else batch.micro_step + 1
        self._progress.position = (self._held[0] if self._held else self._next).position
        self._left_us = _now_us()
        return batch

    def _pull(self) -> None:
        """Pull the packs of one micro-step; order the step once it has those of all."""
        error = None
        if not self._source_over:
            try:
                self._next.packs += self._source.pull(self._settings.packs_per_cell)
            except Exception as problem:
                error, self._source_over = problem, True
        self._pulled += 1
        self._progress.pending = self._source.loaded - self._came
        if self._pulled % self._settings.grid.n_micro_steps and error is None:
            return
        ready = None if self._uploader is None else self._uploader.streams.current().record_event()
        self._runner.order(Order(self._ordered, tuple(self._next.packs), error, ready))
        self._held.append(self._next)
        self._ordered += 1
        self._next = _Held(self._next.position if self._source_over else self._source.position())

    def _take(self) -> bool:
        """Wait for the next step, and lay its micro-batches ready. Return whether there is one."""
        ready, begin = self._runner.ready, _now_us()
        with torch.inference_mode(False), torch.no_grad():
            answer = self._finished()
        self._span("wait", begin)
        if isinstance(answer, Delivery):
            self._own = answer.own
            for micro_step in range(self._skip):
                self._batches.popleft()
                self._came += self._own[micro_step]
            self._skip = 0
            self._report(answer, ready)  # last: what on_step raises costs no pack
            return True
        self._over = True
        self.close()
        if answer is not None:
            self._held.clear()
            if isinstance(answer, RankLost):
                self._group.broken = str(answer)
            try:
                raise answer
            finally:
                del answer  # the error holds this frame
        progress, source = self._progress, self._source.position()
        progress.step = progress.micro_step = 0
        if self._settings.at_end is AtEnd.CARRY:
            left = (pack for held in (*self._held, self._next) for pack in held.packs)
            progress.carried, progress.pending = (*left, *source.carried), 0
        self._held.clear()
        progress.position = Position(0, source.state, progress.carried)
        return False

    def _finished(self) -> Answer:
        """Take and launch steps, up to one ahead; return the next with its batches laid ready, or why there is none."""
        try:
            while len(self._begun) <= self._ahead and not (self._begun and self._begun[-1][1] is None):
                answer = self._runner.take()
                launched = answer.upload.launch() if isinstance(answer, Delivery) and answer.upload else None
                self._begun.append((answer, launched))
            answer, launched = self._begun[0]
            buffer = None if launched is None else launched.finish()
        except Exception as error:  # here, and not on the other ranks: what is under way between devices is lost
            self._group.broken = str(error)
            return error
        self._begun.popleft()
        if isinstance(answer, Delivery):
            for micro_step, cell in enumerate(answer.cells):
                packs, ids = zip(*cell, strict=True) if cell else ((), ())
                whole = tuple(each.pack(buffer) if isinstance(each, PendingPack) else each for each in packs)
                batch = MicroBatch(cast("tuple[T, ...]", whole), ids, answer.step, micro_step, answer.totals)
                self._batches.append(batch)
        return answer

    def _report(self, delivery: Delivery, ready: int) -> None:
        spans, self._spans = (*delivery.spans, *self._spans), []
        record = record_of(delivery, self._settings, self._group.rank, ready, spans)
        log.debug("%s", record)
        if self._on_step is not None:
            self._on_step(record)

    def _span(self, name: str, begin: int) -> None:
        self._spans.append(Span(name, begin, _now_us() - begin))


def _close(runner: Runner, group: RankGroup, begun: deque[tuple[Answer, LaunchedUpload | None]]) -> None:
    if group.is_forked:
        return
    abandon(launched for _, launched in begun if launched is not None)
    begun.clear()
    if not runner.close():
        group.leave_thread_behind()


def _now_us() -> int:
    return perf_counter_ns() // 1000
