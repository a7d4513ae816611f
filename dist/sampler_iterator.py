"""One pass of a sampler over an epoch, which can be saved and resumed between any two items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from .errors import CannotResume

__all__ = ["SamplerIterator"]

T = TypeVar("T")

STATE_VERSION = 1


class SamplerIterator(Iterator[T], Generic[T]):
    """The items of an epoch from item ``yielded`` on, as ``items(epoch, yielded)`` gives them.

    torchdata's StatefulDataLoader asks for the state right after each item, and holds it back until that item's batch
    is delivered: its own state is exact, however far its workers are ahead. A plain DataLoader hides its iterator, and
    a state of the sampler itself would be that of the workers; so samplers have none. There, count the micro-steps that
    were trained on, and resume with ``set_epoch(epoch, done=...)``.
    """

    def __init__(self, items: Callable[[int, int], Iterator[T]], settings: str, epoch: int, yielded: int) -> None:
        """``settings``: what the items of an epoch follow from, as text."""
        self._items, self._settings, self._epoch, self._yielded = items, settings, epoch, yielded
        self._rest: Iterator[T] | None = None  # begun by the first item: DataLoaders make iterators they never use

    def __next__(self) -> T:
        if self._rest is None:
            self._rest = self._items(self._epoch, self._yielded)
        item = next(self._rest)
        self._yielded += 1
        return item

    def state_dict(self) -> dict[str, int | str]:
        """Return the epoch and how many of its items were yielded, as plain values: the same on every rank."""
        return {
            "version": STATE_VERSION,
            "epoch": self._epoch,
            "yielded": self._yielded,
            "settings": self._settings,
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where ``state`` was taken, in its epoch, whatever the sampler was set to.

        Raises `CannotResume` for what is no such state, and inside an epoch for other settings: items would differ.
        """
        match state:
            case {
                "version": int(version),
                "epoch": int(epoch),
                "yielded": int(yielded),
                "settings": str(settings),
            } if version == STATE_VERSION and min(epoch, yielded) >= 0:
                pass
            case _:
                raise CannotResume(f"not a state of a sampler's iterator, version {STATE_VERSION}: {state!r}.")
        if yielded and settings != self._settings:
            raise CannotResume(
                f"the state was taken after item {yielded} of an epoch of {settings}; this sampler has "
                f"{self._settings}, which may yield other items. Resume with the same settings, or save between epochs."
            )
        self._epoch, self._yielded, self._rest = epoch, yielded, None
