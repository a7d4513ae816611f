"""The packs of this rank: pulled on the caller's thread, weighed, numbered."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import index
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, cast

import torch
from torch.utils.data import DataLoader, RandomSampler

from packing.arrays import as_int

from .errors import CannotResume, CannotWrap, InvalidLoader

__all__ = ["Loads", "Position", "Source", "WeighedPack", "check_source"]

log = logging.getLogger(__name__)

T = TypeVar("T")

Loads: TypeAlias = Callable[[T], "int | Sequence[int] | Mapping[str, int]"]
COMMUNICATING = ("DataLoaderShard", "DataLoaderDispatcher")  # of accelerate: collectives inside iteration


class WeighedPack(NamedTuple):
    """A pack of this rank with what it costs and holds."""

    pack: object
    number: int  # in the source, from 0 in each pass
    loads: tuple[int, ...]  # one per stage; () for a pack that was weighed for other settings, and must be anew
    amounts: tuple[int, ...]  # one per name of amounts and caps


@dataclass(frozen=True)
class Position:
    """Where the source was before a pack was pulled."""

    drawn: int  # packs taken from the source in this pass
    state: object  # the source's own state_dict(), or None
    carried: tuple[WeighedPack, ...]  # packs of the pass before that were still to come
    ended: bool = False  # whether the source had no more: its own state may then be that of a new beginning


class Source:
    """One pass over the packs.

    All of it runs on the thread of the training loop, at places that depend on no other rank: a source or ``loads``
    that draws random numbers, or touches the accelerator, does so as it would without balancing.
    """

    def __init__(
        self,
        packs: Iterable[object],
        loads: Loads[object],
        stages: tuple[str, ...],
        amounts: tuple[str, ...],
        position: Position,
    ) -> None:
        self._packs, self._loads, self._stages, self._amounts = packs, loads, stages, amounts
        self._names = (*stages, *amounts)
        self._carried = deque(position.carried)
        self._drawn = position.drawn
        self._first = position.drawn - len(position.carried)
        self._stateful = hasattr(packs, "state_dict") and hasattr(packs, "load_state_dict")
        if position.state is not None:
            if not self._stateful:
                raise CannotResume(
                    f"the state holds that of its source, but a {type(packs).__name__} has no load_state_dict to take "
                    f"it. Resume with the kind of source that it was taken with."
                )
            cast("_Stateful", packs).load_state_dict(position.state)
        self._ended = position.ended and position.state is not None
        # this starts DataLoader workers: here, on the training loop's thread, and before the exchange thread is started
        self._iterator: Iterator[object] = iter(() if self._ended else packs)
        if position.drawn and position.state is None:
            if _draws_anew(packs):
                log.warning(
                    "packs are skipped to resume, but this DataLoader shuffles anew in every process: some come twice, "
                    "some never. Give it a seeded generator, or a source with state_dict."
                )
            skipped = sum(1 for _ in islice(self._iterator, position.drawn))
            if skipped < position.drawn:
                raise CannotResume(
                    f"the source ended after {skipped} packs; the state was taken after {position.drawn}."
                )

    def position(self) -> Position:
        """Return where the source is."""
        state = cast("_Stateful", self._packs).state_dict() if self._stateful else None
        return Position(self._drawn, state, tuple(self._carried), self._ended)

    @property
    def loaded(self) -> int:
        """Packs of this pass so far: those carried over, and those drawn."""
        return self._drawn - self._first

    def pull(self, n: int) -> list[WeighedPack]:
        """Return the next ``n`` packs, fewer at the end. Raises what the source or ``loads`` raises."""
        pulled = [self._carried.popleft() for _ in range(min(n, len(self._carried)))]
        pulled = [each if each.loads else self._weighed(each.pack, each.number) for each in pulled]
        for pack in islice(self._iterator, n - len(pulled)):
            pulled.append(self._weighed(pack, self._drawn))
            self._drawn += 1
        self._ended = self._ended or len(pulled) < n
        return pulled

    def _weighed(self, pack: object, number: int) -> WeighedPack:
        try:
            given: object = self._loads(pack)
        except StopIteration as error:  # which would end the training loop's ``for`` as if there were no more packs
            raise InvalidLoader(
                f"loads(pack {number}) raised StopIteration; it must return a value for every pack."
            ) from error
        names = self._names
        if isinstance(given, Mapping):
            missing = [name for name in names if name not in given]
            if missing:
                raise InvalidLoader(f"loads(pack {number}) must hold {missing}; it has {sorted(map(str, given))}.")
            values = [given[name] for name in names]
        elif self._amounts:
            raise InvalidLoader(
                f"loads(pack {number}) must return a mapping with {list(names)}, since amounts or caps are given; "
                f"got {given!r}."
            )
        else:
            values = list(given) if isinstance(given, Sequence) else [given]
        if len(values) != len(names):
            raise InvalidLoader(
                f"loads(pack {number}) must give one value per stage {self._stages}; got {given!r}. "
                f"Several go in a list or tuple."
            )
        whole = tuple(
            as_int(f"loads(pack {number})[{name!r}]", _plain(value), _invalid_load, least=0)
            for name, value in zip(names, values, strict=True)
        )
        return WeighedPack(pack, number, whole[: len(self._stages)], whole[len(self._stages) :])


class _Stateful(Protocol):
    """A source that says where it is, such as torchdata's StatefulDataLoader."""

    def state_dict(self) -> object: ...
    def load_state_dict(self, state: object) -> None: ...


def check_source(packs: object) -> None:
    """Raise `CannotWrap` for a source that is not iterable, or that communicates by itself."""
    if not isinstance(packs, Iterable):
        raise CannotWrap(f"packs must be iterable; got {type(packs).__name__}.")
    names = {each.__name__ for each in type(packs).__mro__} & {*COMMUNICATING}
    if names or hasattr(packs, "rng_types"):
        raise CannotWrap(
            f"a {type(packs).__name__} was prepared by accelerate: it shards again, and its iteration communicates on "
            f"the trainer's group. Build a plain DataLoader, shard it yourself, wrap it, and do not prepare the result."
        )


def _plain(value: object) -> object:
    """Return an integer of any kind as int, also where a tensor or an array holds it; anything else as it is."""
    if type(value) is int or (isinstance(value, torch.Tensor) and value.dtype is torch.bool):
        return value
    try:
        return value if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        return value


def _invalid_load(text: str) -> InvalidLoader:
    return InvalidLoader(f"{text} Loads and amounts are whole numbers >= 0: round others.")


def _draws_anew(packs: Iterable[object]) -> bool:
    """Return whether a source is a DataLoader that shuffles by the global random state: differently in each process."""
    sampler = packs.sampler if isinstance(packs, DataLoader) else None
    return isinstance(sampler, RandomSampler) and sampler.generator is None
