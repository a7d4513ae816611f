"""Several sources as one stream, in fixed shares and in the same order every time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, TypedDict, TypeVar

from .arrays import as_int
from .errors import InvalidParameter
from .state import check_state

__all__ = ["Drawn", "Mixture", "MixtureState"]

T = TypeVar("T")
MASK = 2**64 - 1


class Drawn(NamedTuple, Generic[T]):
    """One item of a mixture: the name of its source, its number in that source, and the item itself."""

    source: str
    number: int
    item: T


class MixtureState(TypedDict):
    """How many items each source has given, who has ended, and how many draws there were."""

    weights: dict[str, int]
    seed: int
    draws: int
    given: dict[str, int]
    ended: list[str]


@dataclass(init=False)
class Mixture(Generic[T]):
    """Iterate over `Drawn` items of several sources, each drawn with probability weight / sum of weights.

    ``sources``: name -> a function that takes a number of items to skip and returns an iterable of those that follow;
    it may be endless. ``weights``: name -> a whole number > 0 (shares of 0.4 and 0.1 are weights 4 and 1).

    The k-th draw depends on ``seed``, k, the names, and who has ended before, not on the items nor on the order in
    which sources are given, so any part of the stream can be repeated. A source that ends leaves the draw, and the
    others go on in their proportions, until all have ended; `ended` lists them in the order of their end. Nothing is
    repeated or dropped, nor where a source raises: the next call asks it for the same item again.
    `state_dict` is exact between two items: sources are reopened behind what they have given.
    """

    weights: Mapping[str, int]
    seed: int

    def __init__(
        self, sources: Mapping[str, Callable[[int], Iterable[T]]], weights: Mapping[str, int], seed: int = 0
    ) -> None:
        if not isinstance(sources, Mapping) or not isinstance(weights, Mapping):
            raise InvalidParameter(f"sources and weights must be mappings by name; got {sources!r} and {weights!r}.")
        if not sources or sources.keys() != weights.keys():
            raise InvalidParameter(
                f"every source needs a weight and every weight a source; got sources {', '.join(sources) or 'none'} "
                f"and weights for {', '.join(weights) or 'none'}."
            )
        for name, source in sources.items():
            if not callable(source):
                raise InvalidParameter(
                    f'the source "{name}" must be a function of the number of items to skip; got {source!r}. '
                    f"Of a list: lambda skipped: items[skipped:]."
                )
        self._sources = {name: sources[name] for name in sorted(sources)}  # a folder may list them in any order
        self.weights = {
            name: as_int(f'the weight of "{name}"', weights[name], InvalidParameter, least=1, most=2**32)
            for name in self._sources
        }
        self.seed = as_int("seed", seed, InvalidParameter, least=0)
        self._draws = 0
        self._given = dict.fromkeys(self._sources, 0)
        self._ended: list[str] = []
        self._open: dict[str, Iterator[T]] = {}

    @property
    def ended(self) -> tuple[str, ...]:
        """The sources that have no more items, in the order of their end."""
        return tuple(self._ended)

    def __iter__(self) -> Iterator[Drawn[T]]:
        return self

    def __next__(self) -> Drawn[T]:
        while len(self._ended) < len(self._sources):
            name = self._drawn()
            try:
                if name not in self._open:
                    self._open[name] = iter(self._sources[name](self._given[name]))
                items = [*islice(self._open[name], 1)]
            except BaseException:  # an iterator that has failed is at its end: the next try opens the source anew
                self._open.pop(name, None)
                raise
            self._draws += 1
            for item in items:
                number = self._given[name]
                self._given[name] += 1
                return Drawn(name, number, item)
            self._ended.append(name)
        raise StopIteration

    def state_dict(self) -> MixtureState:
        """Return the state, as plain values."""
        return MixtureState(
            weights=dict(self.weights),
            seed=self.seed,
            draws=self._draws,
            given=dict(self._given),
            ended=list(self._ended),
        )

    def load_state_dict(self, state: MixtureState) -> None:
        """Continue where ``state`` was taken; `InvalidParameter` unless sources, weights and seed are the same."""
        check_state(state, self.state_dict())
        if ([*state["weights"].items()], state["seed"]) != ([*self.weights.items()], self.seed):  # in this order
            raise InvalidParameter(
                f"the state is of weights {state['weights']} and seed {state['seed']}; this mixture has "
                f"{dict(self.weights)} and {self.seed}. Build it with the same parameters."
            )
        self._draws, self._given, self._ended = state["draws"], dict(state["given"]), list(state["ended"])
        self._open = {}

    def _drawn(self) -> str:
        """Return the source of the next draw, of those that have not ended."""
        alive = [name for name in self._sources if name not in self._ended]
        at = _mixed(self.seed, self._draws) * sum(self.weights[name] for name in alive) >> 64
        for name in alive:
            at -= self.weights[name]
            if at < 0:
                break
        return name


def _mixed(seed: int, number: int) -> int:
    """Return 64 random bits for this seed and number (splitmix64)."""
    z = (seed * 0xD1342543DE82EF95 + (number + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31
