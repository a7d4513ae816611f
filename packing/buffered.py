"""A stream of samples through a bounded buffer: packs come out as full as from a large set, without waiting for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import numpy as np

from .arrays import Int64, as_int, as_int64
from .base import Packer
from .errors import CannotServe, InvalidParameter, InvalidSamples
from .packs import Packing
from .policies import LeftOver, cut
from .samples import Limits, LimitsLike, Samples, SamplesLike
from .state import check_state

__all__ = ["Buffered", "BufferedState"]

LEAST = 32  # at least so small a part of the pieces leaves a full buffer, as packs of many pieces stay
OLDEST = 3  # buffers of arrivals after which a piece leaves with its pack, full or not
OF_PIECE, OF_SAMPLE = "piece: ", "sample: "  # of a column: what a piece holds, and what its sample does


class BufferedState(TypedDict):
    """All that a stream has to remember, in plain values: of the pieces that wait one list of integers per column."""

    packer: str
    limits: str
    buffer_size: int
    arrived: int
    entered: int
    call: int
    pieces: dict[str, list[int]]


class _Emitted(NamedTuple):
    """Some packs of one packing: their pieces in order, pieces per pack, and slots."""

    pieces: dict[str, Int64]
    counts: Int64
    slots: Int64


@dataclass(init=False, eq=False)
class Buffered:
    """Keeps ``buffer_size`` pieces; when it is full all of it is packed, and the most urgent 40 % of the packs leave.

    `push` takes samples and returns the packs that are ready, `flush` the rest. Samples are numbered as they arrive:
    `Packing.arrivals` names them; what belongs to them (tokens, pixels) stays with the caller until then. What a policy
    leaves over is listed once, by the push that brought it: ``packing.arrival[packing.left_over.sample]``.

    The first push that has samples fixes the columns. Packs do not depend on how the stream is cut into pushes. A pack
    with a piece older than 3 x ``buffer_size`` other pieces always leaves, so that none waits for more than 4 x
    ``buffer_size``. Every piece is packed two or three times; where those packs hold less than a 32nd of the pieces,
    more leave, so that it is 32 times at most on average: O(time of the packer), memory O(buffer_size + push). The
    packer's `Packer.urgency` chooses; ties: the lower pack.
    `state_dict` between two calls is exact: a stream that resumes from it continues as if never stopped.
    """

    packer: Packer
    limits: Limits
    buffer_size: int

    def __init__(self, packer: Packer, limits: LimitsLike, buffer_size: int) -> None:
        if not isinstance(packer, Packer):
            raise InvalidParameter(f"packer must be a packer, such as BestFitDecreasing(); got {packer!r}.")
        if packer.cuts:
            raise CannotServe(f"{packer!r} cuts samples wherever a pack ends, and needs no buffer to fill packs.")
        self.packer, self.limits = packer, Limits.of(limits)
        self.buffer_size = as_int("buffer_size", buffer_size, InvalidParameter, least=1)
        self._arrived = self._entered = self._call = 0
        self._waiting: dict[str, Int64] = {}

    def __len__(self) -> int:
        """Return the number of pieces that wait."""
        return len(self._waiting["entered"]) if self._waiting else 0

    @property
    def arrived(self) -> int:
        """Number of samples that have arrived: the next one has this number."""
        return self._arrived

    def push(self, samples: SamplesLike) -> Packing:
        """Take ``samples`` and return the packs that are ready, often none. Nothing is taken if this raises."""
        samples = Samples.of(samples)
        if not len(samples):
            samples = _none_of(self._columns() or samples.columns)
        reason = self.packer.reason_against(_none_of(samples.columns), self.limits)  # not of what one push brings
        if reason is not None:
            raise CannotServe(f"{self.packer!r} cannot serve {self.limits!r}: {reason}")
        incoming, left_over = self._pieces(samples)
        before = self._entered, self._call, self._waiting
        try:
            packing = self._packing(self._take(incoming), samples, left_over, self._arrived)
        except BaseException:
            self._entered, self._call, self._waiting = before
            raise
        if len(samples) and not self._waiting:  # all left over: the columns of the stream are known all the same
            self._waiting = incoming
        self._arrived += len(samples)
        return packing

    def flush(self) -> Packing:
        """Return packs of all that waits; the stream may go on afterwards."""
        emitted = [self._emit(everything=True)] if len(self) else []
        nothing = _none_of(self._columns())
        return self._packing(emitted, nothing, cut(nothing, Limits(self.limits.capacity)).left_over, self._arrived)

    def state_dict(self) -> BufferedState:
        """Return the state: a few integers, and the sizes of the pieces that wait. JSON and ``torch.save`` keep it."""
        pieces = {name: values.tolist() for name, values in self._waiting.items()}
        return BufferedState(
            packer=repr(self.packer),
            limits=repr(self.limits),
            buffer_size=self.buffer_size,
            arrived=self._arrived,
            entered=self._entered,
            call=self._call,
            pieces=pieces,
        )

    def load_state_dict(self, state: BufferedState) -> None:
        """Continue where ``state`` was taken; `InvalidParameter` unless packer, limits and size are the same."""
        own = self.state_dict()
        check_state(state, own)
        for name in ("packer", "limits", "buffer_size"):
            if state[name] != own[name]:
                raise InvalidParameter(
                    f"the state is of a stream with {name} {state[name]}; this one has {own[name]}. "
                    "Build the stream with the same parameters."
                )
        self._arrived, self._entered, self._call = state["arrived"], state["entered"], state["call"]
        self._waiting = {
            name: as_int64(
                f"pieces[{name!r}]", each, InvalidParameter, remedy="Pass what state_dict() gave.", summed=False
            )
            for name, each in state["pieces"].items()
        }

    def _columns(self) -> list[str]:
        return [name.removeprefix(OF_PIECE) for name in self._waiting if name.startswith(OF_PIECE)]

    def _pieces(self, samples: Samples) -> tuple[dict[str, Int64], LeftOver]:
        """Apply the policies: the pieces by column, and what is left over by index in ``samples``."""
        if self._waiting and sorted(samples.columns) != sorted(self._columns()):
            raise InvalidSamples(
                f"all samples of a stream must have the same columns, {', '.join(self._columns()) or 'none'}; "
                f"got {', '.join(samples.columns) or 'none'}."
            )
        parts = cut(samples, self.limits)
        sample = parts.sample
        whole = samples.tokens[sample]
        pieces = {
            "entered": self._entered + np.arange(len(whole)),
            "arrival": self._arrived + sample,
            "start": np.zeros_like(whole) if parts.start is None else parts.start,
            "stop": whole if parts.stop is None else parts.stop,
            f"{OF_SAMPLE}tokens": whole,
        }
        for name, amounts in samples.columns.items():
            pieces[OF_PIECE + name] = samples.amounts(name, sample, parts.start, parts.stop)
            pieces[OF_SAMPLE + name] = amounts[sample]
        return pieces, parts.left_over

    def _take(self, incoming: dict[str, Int64]) -> list[_Emitted]:
        """Let pieces in, and return the packs that leave each time the buffer is full."""
        self._entered += len(incoming["entered"])
        emitted, taken = [], 0
        while taken < len(incoming["entered"]):
            more = min(self.buffer_size - len(self), len(incoming["entered"]) - taken)
            self._waiting = {
                name: np.concatenate([self._waiting[name], values[taken : taken + more]])
                if self._waiting
                else values[:more]
                for name, values in incoming.items()
            }
            taken += more
            if len(self) == self.buffer_size:
                emitted.append(self._emit(everything=False))
        return emitted

    def _emit(self, everything: bool) -> _Emitted:
        """Pack all that waits, remove the pieces of the packs that leave, and return them."""
        amounts = {name: self._waiting[OF_PIECE + name] for name in self._columns()}
        tokens = self._waiting["stop"] - self._waiting["start"]
        packing = self.packer.pack(Samples(tokens, amounts), self.limits, self._call)
        self._call += 1
        counts, leaves = np.diff(packing.offsets), np.ones(len(packing), dtype=np.bool_)
        if not everything:
            urgent_first = np.argsort(-self.packer.urgency(packing).astype(np.int64), kind="stable")
            pieces = np.cumsum(counts[urgent_first])
            enough = int(np.searchsorted(pieces, len(self) / LEAST)) + 1  # packs
            leaves[urgent_first[max(-(-2 * len(packing) // 5), enough) :]] = False
            too_old = int(self._waiting["entered"][-1]) - OLDEST * self.buffer_size
            oldest = np.minimum.reduceat(self._waiting["entered"][packing.sample], packing.offsets[:-1])
            leaves |= oldest <= too_old
        gone = packing.sample[np.repeat(leaves, counts)]
        stays = np.delete(np.arange(len(self)), gone)
        emitted = _Emitted(
            {name: values[gone] for name, values in self._waiting.items()}, counts[leaves], packing.slots[leaves]
        )
        self._waiting = {name: values[stays] for name, values in self._waiting.items()}
        return emitted

    def _packing(self, emitted: list[_Emitted], samples: Samples, left_over: LeftOver, arrived: int) -> Packing:
        """Return the packs in order of emission, over the samples that they or ``left_over`` name, by arrival."""
        columns = samples.columns
        names = ["arrival", "start", "stop", f"{OF_SAMPLE}tokens"]
        names += [prefix + name for name in columns for prefix in (OF_PIECE, OF_SAMPLE)]
        pieces: Mapping[str, Int64] = {
            name: np.concatenate([np.zeros(0, np.int64), *(each.pieces[name] for each in emitted)]) for name in names
        }
        lost = left_over.sample
        arrival, first, sample = np.unique(
            np.concatenate([pieces["arrival"], arrived + lost]), return_index=True, return_inverse=True
        )
        of_sample = {
            name: np.concatenate([pieces[OF_SAMPLE + name], amounts[lost]])[first]
            for name, amounts in (("tokens", samples.tokens), *columns.items())
        }
        n = len(pieces["arrival"])
        is_whole = bool((pieces["stop"] - pieces["start"] == of_sample["tokens"][sample[:n]]).all())
        counts = np.concatenate([np.zeros(1, np.int64), *(each.counts for each in emitted)])
        return Packing(
            Samples(of_sample.pop("tokens"), of_sample),
            self.limits,
            np.cumsum(counts),
            sample[:n],
            None if is_whole else pieces["start"],
            None if is_whole else pieces["stop"],
            np.concatenate([np.zeros(0, np.int64), *(each.slots for each in emitted)]),
            LeftOver(sample[n:], left_over.tokens, left_over.reason),
            arrival,
            None if is_whole else {name: pieces[OF_PIECE + name] for name in columns},
        )


def _none_of(columns: Iterable[str]) -> Samples:
    """Return no samples, with these columns."""
    return Samples(np.zeros(0, np.int64), {name: np.zeros(0, np.int64) for name in columns})
