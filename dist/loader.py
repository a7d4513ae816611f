"""Balanced packs for a training loop: planned and exchanged while it computes."""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Event, Thread
from typing import Generic, Literal, TypeVar, cast

import torch
import torch.distributed as td

from balancers import Balancer, Grid
from balancers.grid import GridLike
from packing.arrays import SUM_LIMIT, as_int

from .delivery import MicroBatch, Pass, Progress
from .errors import CannotResume, CannotWrap, InvalidLoader
from .executor import Executor
from .meeting import Patience
from .metrics import StepRecord
from .rank_group import RankGroup
from .runner import Background, Inline, Runner, ended
from .settings import AtEnd, Settings
from .source import Loads, Position, Source, WeighedPack, check_source
from .streams import streams_of
from .transport import TransportKind

__all__ = ["BalancedLoader"]

T = TypeVar("T")

STATE_VERSION = 2


class BalancedLoader(Iterable[MicroBatch[T]], Generic[T]):
    """Wraps what each rank iterates, and yields `MicroBatch`es of packs, balanced over the ranks.

    * ``packs``: a DataLoader, a list, any iterable of packs; one pass per ``iter``. Every rank has its own share. Packs
      are nested dicts, lists, tuples and dataclasses of tensors, numpy arrays and plain values. The source must not
      change a pack after it yielded it.
    * ``loads(pack)``: the pack's load, an integer >= 0; one per stage of the grid, as a sequence; or a mapping with the
      names of the stages, of ``amounts`` and of ``caps``.
    * ``packs_per_cell``: packs that this rank loads per micro-step.
    * ``amounts``: what is summed over all ranks for `MicroBatch.totals`. ``caps``: the most of an amount in a cell.
    * ``at_end``: "pad", "min" or "carry". ``mode``: "balance", "shadow" or "off".
    * ``overlap``: False does all of it inside ``next``, without a thread.
    * ``group``: the data-parallel group; None: all ranks.
    * ``device``: where every tensor is delivered, and where packs may hold some already; None: packs are on the CPU and
      stay there. ``transport``: how tensors travel between devices, "host" (gloo, through pinned memory), "device"
      (NCCL) or "device-one-queue".
    * ``depth``: steps that are loaded and exchanged ahead; up to ``depth`` + 2 steps of packs are held.
    * ``timeout``: seconds that a rank waits for another, once its training loop waits.
    * ``on_step``: called with a `StepRecord` per step, in the training loop.

    Building one is collective: all ranks of the group do it, in the same order, with equal arguments. It raises
    `InvalidLoader` and `CannotWrap` before any rank is waited for, and `RankDisagreement` where arguments differ.
    Iterating raises an `ExchangeError` on every rank where one fails. The user's guide: docs/executor.md.
    """

    def __init__(
        self,
        packs: Iterable[T],
        *,
        balancer: Balancer,
        grid: GridLike,
        loads: Loads[T],
        packs_per_cell: int = 1,
        amounts: Sequence[str] = (),
        caps: Mapping[str, int] | None = None,
        at_end: Literal["pad", "min", "carry"] = "pad",
        mode: Literal["balance", "shadow", "off"] = "balance",
        overlap: bool = True,
        group: td.ProcessGroup | None = None,
        device: torch.device | str | None = None,
        transport: Literal["host", "device", "device-one-queue"] = "host",
        depth: int = 2,
        timeout: float = 600,
        on_step: Callable[[StepRecord], None] | None = None,
    ) -> None:
        if isinstance(packs, BalancedLoader | Pass):
            raise CannotWrap(
                "packs come from a BalancedLoader, which communicates by itself and yields micro-batches. Wrap what it "
                "wraps."
            )
        check_source(packs)
        if not (isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0):
            raise InvalidLoader(f"timeout must be above 0 s, as a number; got {timeout!r}.")
        if not callable(loads):
            raise InvalidLoader(f"loads must be a function of a pack; got {loads!r}.")
        if not (on_step is None or callable(on_step)):
            raise InvalidLoader(f"on_step must be a function of a StepRecord, or None; got {on_step!r}.")
        if not isinstance(overlap, bool):
            raise InvalidLoader(f"overlap must be True or False; got {overlap!r}.")
        self._depth = as_int("depth", depth, InvalidLoader, least=1) if overlap else 0
        self._settings = Settings.checked(
            balancer, Grid.of(grid), packs_per_cell, amounts, {} if caps is None else caps, at_end, mode
        )
        self._packs, self._loads, self._on_step = packs, loads, on_step
        streams = streams_of(device)
        kind = TransportKind.checked(transport, streams)
        self._group = RankGroup(group, self._settings.grid.n_ranks, timeout, streams, kind)
        device_type = streams and streams.device.type
        word = (
            f"{self._settings.word()}, overlap={overlap}, depth={depth}, device={device_type}, transport={kind.value}"
        )
        lengths = self._group.connect(word, self._settings.warm_up, _length_of(packs))
        self._n_steps = _steps(self._settings, lengths.tolist())
        self._progress = Progress(0, 0, Position(0, None, ()))
        self._resuming = False
        self._pass: Callable[[], Pass[T] | None] = lambda: None
        self._thread: Thread | None = None  # of the last pass

    def __iter__(self) -> Pass[T]:
        """Begin a pass. One that is under way ends: what it had loaded ahead is lost, as with any loader."""
        self._end_pass()
        if not self._resuming:
            carried = self._progress.carried
            self._progress = Progress(0, 0, Position(0, None, carried), carried)
        settings, group, progress = self._settings, self._group, self._progress
        patience, stop = Patience(group.timeout_s), Event()
        number, meeting, transport = group.begin(patience, stop)
        try:
            loads = cast("Loads[object]", self._loads)  # it is asked about what ``packs`` yields, and nothing else
            source = Source(self._packs, loads, settings.grid.stages, settings.amounts, progress.position)
        except Exception as error:
            meeting.at(progress.step, "source")
            meeting.fail(error, traceback.format_exc())
            raise
        self._resuming, progress.carried = False, ()  # once the source has begun: they lead this pass and no other
        uploader = group.uploader(patience, self._depth)
        begins = f"begins at micro-step {progress.micro_step} of step {progress.step}"
        if group.launched:
            begins += f", after {group.launched} exchanges between devices"
        executor = Executor(settings, group.rank, number, meeting, transport, uploader, begins)
        runner: Runner = Background(executor, patience, stop) if self._depth else Inline(executor, patience)
        begun: Pass[T] = Pass(settings, source, runner, group, progress, self._depth, uploader, self._on_step)
        self._pass, self._thread = weakref.ref(begun), runner.thread
        return begun

    def __len__(self) -> int:
        """Micro-batches in a pass, by the lengths of all sources when the loader was built; never communicates.

        TypeError if a source has no length, or with "carry", where it changes from pass to pass.
        """
        if self._n_steps is None:
            raise TypeError('this loader has no length: a source has none, or at_end is "carry".')
        return self._n_steps * self._settings.grid.n_micro_steps

    def __repr__(self) -> str:
        return (
            f"BalancedLoader({self._settings.balancer!r}, {self._settings.grid!r}, mode={self._settings.mode.value!r})"
        )

    @property
    def dropped(self) -> int:
        """Packs that the last pass loaded on this rank and that came to nobody; 0 while a pass is under way.

        They were left over at its end under "min", or loaded ahead when it was broken off. Packs that the source never
        yielded are not counted. After `load_state_dict` the count is 0: they will be loaded again.
        """
        under_way = self._pass()
        return 0 if under_way is not None and under_way.close.alive else self._progress.pending

    @property
    def carried(self) -> int:
        """Packs of this rank that lead the next pass, under "carry"."""
        return len(self._progress.carried)

    def state_dict(self) -> dict[str, object]:
        """Return where the training loop is: after the last micro-batch that it was given. Never communicates.

        Plain values, but for the source's own state and for packs carried over.
        """
        progress, position = self._progress, self._progress.position
        return {
            "version": STATE_VERSION,
            "n_ranks": self._settings.grid.n_ranks,
            "settings": repr(self._settings),
            "step": progress.step,
            "micro_step": progress.micro_step,
            "drawn": position.drawn,
            "source": position.state,
            "ended": position.ended,
            "carried": [tuple(each) for each in position.carried],
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Let the next pass begin where ``state`` was taken. All ranks do it.

        A source with ``state_dict`` and ``load_state_dict`` is given its own state; of another, as many packs are
        skipped. Raises `CannotResume` for another number of ranks unless the source has a state, a step was complete
        and no packs were carried over; and inside of a step for other settings, which would plan it otherwise.
        """
        step, micro_step, position = _parsed(state)
        n_ranks = self._settings.grid.n_ranks
        if state["n_ranks"] != n_ranks and (micro_step or (position.drawn and position.state is None)):
            raise CannotResume(
                f"the state is of {state['n_ranks']} ranks, micro-step {micro_step}, this loader has {n_ranks}: "
                f"only a source with load_state_dict can re-shard, and only between steps."
            )
        if state["n_ranks"] != n_ranks and position.carried:
            raise CannotResume(
                f"the state is of {state['n_ranks']} ranks, this loader has {n_ranks}: packs carried over, "
                f"{len(position.carried)} here, would be lost. Resume with as many ranks, or save once they have come."
            )
        same = state.get("settings") == repr(self._settings)
        if micro_step and not (same and micro_step < self._settings.grid.n_micro_steps):
            raise CannotResume(
                f"the state is of micro-step {micro_step} of a step of {state.get('settings')}; this loader, "
                f"{self._settings!r}, may plan it otherwise. Resume with the same settings, or save between steps."
            )
        if not same:
            position = replace(position, carried=tuple(each._replace(loads=()) for each in position.carried))
        if state["n_ranks"] != n_ranks:
            position = replace(position, ended=False)  # what was left is dealt anew
        self._end_pass()
        self._progress = Progress(step, micro_step, position, position.carried)
        self._resuming = True

    def close(self) -> None:
        """End the pass under way, its thread, and the group; again is harmless. Returns within 5 s."""
        self._end_pass()
        self._group.close()

    def _end_pass(self) -> None:
        under_way, thread = self._pass(), self._thread
        if under_way is not None:
            under_way.close()
        if thread is not None and not self._group.stuck and not ended(thread):  # it may have dropped the pass itself
            self._group.leave_thread_behind()


def _parsed(state: Mapping[str, object]) -> tuple[int, int, Position]:
    """Return step, micro-step and the source's position of a `BalancedLoader.state_dict`, or raise `CannotResume`."""
    held = f"the keys {sorted(map(str, state))}" if isinstance(state, Mapping) else f"the type {type(state).__name__}"
    refusal = f"not a state of a BalancedLoader, version {STATE_VERSION}: it has {held}."
    match state:
        case {
            "version": int(version),
            "n_ranks": int(),
            "step": int(step),
            "micro_step": int(micro_step),
            "drawn": int(drawn),
            "carried": list(carried),
            "source": source,
            "ended": bool(ended),
        } if version == STATE_VERSION and 0 <= min(step, micro_step, drawn) <= max(step, micro_step, drawn) < SUM_LIMIT:
            try:
                return step, micro_step, Position(drawn, source, tuple(WeighedPack(*each) for each in carried), ended)
            except TypeError as error:
                raise CannotResume(refusal) from error
    raise CannotResume(refusal)


def _length_of(packs: Iterable[object]) -> int:
    """Return the number of packs, -1 if the source does not know it."""
    try:
        return len(packs)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError, AttributeError):  # as torch and its users' samplers say it
        return -1


def _steps(settings: Settings, lengths: list[int]) -> int | None:
    """Return the steps of a pass over sources of these lengths, None if that is not known."""
    if min(lengths) < 0 or settings.at_end is AtEnd.CARRY:
        return None
    if settings.at_end is AtEnd.MIN:
        return min(lengths) // settings.packs_per_rank
    return -(-max(lengths) // settings.packs_per_rank)
