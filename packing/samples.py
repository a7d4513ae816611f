"""What goes into packs: samples with their lengths, and the limits of a pack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Int64, as_int, as_int64, bounded_int64, read_only
from .errors import InvalidLimits, InvalidSamples
from .spans import Spans
from .texts import as_python, one_of

__all__ = ["Limits", "LimitsLike", "Oversize", "Samples", "SamplesLike"]


LARGEST_CAPACITY = 2**31 - 1  # places inside a pack are int32, as attention kernels take them
OF_SPANS = ("image_tokens", "images")  # columns that follow from spans
RESERVED = ("tokens", "packs", "samples", "tokens_squared")  # what `Packing.sums` counts itself


class Oversize(Enum):
    """What happens to a sample that fits in no pack. Whatever is lost is listed in `Packing.left_over`.

    No cut goes through a span: a piece ends in front of the first one that does not fit into it, by tokens or by a
    budget of images, and has all the images that lie in it. A sample with a span that fits in no pack is left out
    whole. What a sample carries in other columns has no known place: such a sample is not cut (`CannotCut`).
    """

    ERROR = "error"  # raise `Oversized`, naming the first such sample
    DROP = "drop"  # leave the sample out
    TRUNCATE = "truncate"  # keep as much of its beginning as fits
    SPLIT = "split"  # cut it into pieces, each as long as fits
    ISOLATE = "isolate"  # give it a pack of its own, larger than the others


@dataclass(frozen=True, eq=False)
class Samples:
    """Lengths of training examples, checked once; the arrays are read-only copies.

    ``tokens``: (n_samples,) all tokens of each sample, >= 0.
    ``columns``: further amounts per sample by name, (n_samples,) each, >= 0: "image_tokens", "images", "supervised".
    ``spans``: where the images are, so that samples can be cut around them; the columns "image_tokens" and "images"
    follow from them. ``shortest`` and ``longest``: of all ``tokens``, 0 where there are no samples.
    """

    tokens: Int64
    columns: Mapping[str, Int64] = field(default_factory=dict)
    spans: Spans | None = None
    shortest: int = field(init=False)
    longest: int = field(init=False)

    def __init__(
        self, tokens: ArrayLike, columns: Mapping[str, ArrayLike] | None = None, spans: Spans | None = None
    ) -> None:
        remedy = "Lengths are counts: whole numbers >= 0 whose sum is below 2**62."
        checked, shortest, longest = bounded_int64("tokens", tokens, InvalidSamples, remedy=remedy)
        named: dict[str, Int64] = {}
        if not isinstance(columns, Mapping | None):
            raise InvalidSamples(f"columns must be a mapping from names to values; got {type(columns).__name__}.")
        if not isinstance(spans, Spans | None):
            raise InvalidSamples(f"spans must be Spans; got {type(spans).__name__}. Use Spans.of for a list of pairs.")
        for name, values in (columns or {}).items():
            given: object = name
            if not isinstance(given, str):
                raise InvalidSamples(f"a column must be named by a text; got {given!r}.")
            if not name or name in RESERVED:
                raise InvalidSamples(f'a column cannot be called "{name}"; {", ".join(RESERVED)} are counted anyway.')
            named[name] = as_int64(name, values, InvalidSamples, remedy=remedy)
            if len(named[name]) != len(checked):
                raise InvalidSamples(f"{name} must have one value per sample; {len(named[name])} for {len(checked)}.")
        _check_image_tokens(checked, named)
        if spans is not None:
            _add_columns_of(spans, checked, named)
        object.__setattr__(self, "tokens", checked)
        object.__setattr__(self, "columns", MappingProxyType(named))
        object.__setattr__(self, "spans", spans)
        object.__setattr__(self, "shortest", shortest)
        object.__setattr__(self, "longest", longest)

    def __len__(self) -> int:
        return len(self.tokens)

    def __reduce__(self) -> tuple[type[Samples], tuple[Int64, dict[str, Int64], Spans | None]]:
        return Samples, (self.tokens, dict(self.columns), self.spans)

    def __repr__(self) -> str:
        names = "".join(f", {name}" for name in self.columns)
        return f"Samples({len(self)} samples, {int(self.tokens.sum())} tokens{names})"

    def amounts(self, name: str, sample: Int64, start: Int64 | None, stop: Int64 | None) -> Int64:
        """Return a column of pieces, tokens ``start : stop`` of ``sample``, (n_pieces,); None: whole samples.

        What is not in spans belongs to whole samples: pieces that were cut off carry none of it.
        """
        if self.spans is None or start is None or stop is None or name not in OF_SPANS:
            return self.columns[name][sample]
        return self.spans.inside(self.tokens, sample, start, stop)[name]

    @classmethod
    def of(cls, samples: SamplesLike) -> Samples:
        """Return ``samples`` itself, or ``Samples(samples)`` for an array of lengths."""
        return samples if isinstance(samples, cls) else cls(samples)  # type: ignore[arg-type]


SamplesLike: TypeAlias = Samples | ArrayLike


def _add_columns_of(spans: Spans, tokens: Int64, columns: dict[str, Int64]) -> None:
    """Put into ``columns`` what follows from ``spans``, or refuse what contradicts them."""
    if spans.n_samples != len(tokens):
        raise InvalidSamples(f"spans must have one row per sample; {spans.n_samples} for {len(tokens)}.")
    beyond = spans.stop > tokens[spans.owner]
    if beyond.any():
        i = int(np.argmax(beyond))
        raise InvalidSamples(
            f"spans must end inside their sample; span {i} ends at {spans.stop[i]}, sample {spans.owner[i]} has "
            f"{tokens[spans.owner[i]]} tokens. Tokens count text and images."
        )
    for name, amounts in spans.columns().items():
        given = columns.get(name, amounts)
        if (given != amounts).any():
            i = int(np.argmax(given != amounts))
            raise InvalidSamples(
                f"{name} must be what the spans say; sample {i} has {given[i]}, its spans {amounts[i]}. Leave the "
                f"column out: it follows from the spans."
            )
        columns[name] = read_only(amounts)


def _check_image_tokens(tokens: Int64, columns: Mapping[str, Int64]) -> None:
    images = columns.get("image_tokens")
    if images is not None and np.any(images > tokens):
        i = int(np.argmax(images > tokens))
        raise InvalidSamples(
            f"image_tokens must be <= tokens; sample {i} has {images[i]} of {tokens[i]}. Tokens count text and images."
        )


@dataclass(frozen=True, repr=False)
class Limits:
    """What a pack may hold: the same in every call.

    ``capacity``: tokens per pack, below 2**31. ``budgets``: pairs (column, most per pack). ``max_samples``: per pack.
    ``align``: every sample takes up a multiple of this many tokens. ``oversize``: for samples that fit in no pack.
    """

    capacity: int
    budgets: tuple[tuple[str, int], ...] = ()
    max_samples: int | None = None
    align: int = 1
    oversize: Oversize = Oversize.ERROR

    def __post_init__(self) -> None:
        for name in ("capacity", "align"):
            checked = as_int(name, getattr(self, name), InvalidLimits, least=1, most=LARGEST_CAPACITY)
            object.__setattr__(self, name, checked)
        if self.align > self.capacity:
            raise InvalidLimits(f"align must be <= capacity; got {self.align} > {self.capacity}.")
        if self.max_samples is not None:
            object.__setattr__(self, "max_samples", as_int("max_samples", self.max_samples, InvalidLimits, least=1))
        given: object = self.budgets.items() if isinstance(self.budgets, Mapping) else self.budgets
        pairs = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else None
        if pairs is None or any(not isinstance(each, tuple | list) or len(each) != 2 for each in pairs):
            raise InvalidLimits(f"budgets must be pairs (column, most per pack); got {self.budgets!r}.")
        budgets = tuple((str(name), as_int(f'budget "{name}"', most, InvalidLimits, least=0)) for name, most in pairs)
        names = [name for name, _ in budgets]
        if len(set(names)) < len(names) or "tokens" in names:
            raise InvalidLimits(f"budgets must name each column once, and not tokens (the capacity); got {names}.")
        object.__setattr__(self, "budgets", budgets)
        if not isinstance(self.oversize, Oversize):
            raise InvalidLimits(
                f"oversize must be a member of Oversize; got {self.oversize!r}. Use {one_of(Oversize)}."
            )

    def __repr__(self) -> str:
        return as_python(self)

    @property
    def longest(self) -> int:
        """The most tokens that a piece can have: with its alignment it is within the capacity."""
        return self.capacity // self.align * self.align

    @classmethod
    def of(cls, limits: LimitsLike) -> Limits:
        """Return ``limits`` itself, or ``Limits(limits)`` for an int."""
        return limits if isinstance(limits, cls) else cls(limits)  # type: ignore[arg-type]


LimitsLike: TypeAlias = Limits | int
