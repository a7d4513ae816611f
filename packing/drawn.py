"""Cases to test with: lengths of every kind, in real numbers from a seed and in small ones from hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from .arrays import Int64
from .base import Packer
from .samples import Limits, Oversize, Samples
from .spans import Spans
from .targets import TOKENS_SQUARED

__all__ = ["FAMILIES", "Case", "cases", "large_cases"]

FAMILIES: Mapping[str, Callable[[np.random.Generator, int, int], Int64]] = {
    "uniform": lambda rng, n, capacity: rng.integers(1, capacity + 1, n),
    "heavy_tail": lambda rng, n, capacity: (
        rng.lognormal(np.log(capacity) - 2.5, 1, n).clip(1, capacity).astype(np.int64)
    ),
    "about_half": lambda rng, n, capacity: capacity // 2 + rng.integers(-(capacity // 9), capacity // 9 + 1, n),
    "few_lengths": lambda rng, n, capacity: rng.choice(rng.integers(1, capacity + 1, 3), n),
    "all_equal": lambda rng, n, capacity: np.full(n, rng.integers(1, capacity + 1)),
    "one_giant": lambda rng, n, capacity: np.where(np.arange(n) == n // 2, capacity, rng.integers(1, 4, n)),
}
"""Lengths from 1 to the capacity by kind, from (seeded generator, number, capacity)."""


@dataclass(frozen=True, eq=False)
class Case:
    """What a packer is asked to pack."""

    samples: Samples
    limits: Limits

    def __repr__(self) -> str:
        samples = self.samples
        columns = {name: values.tolist() for name, values in samples.columns.items()}
        spans = ""
        if samples.spans is not None:
            columns = {name: values for name, values in columns.items() if name not in samples.spans.columns()}
            ranges = (samples.spans.offsets.tolist(), samples.spans.start.tolist(), samples.spans.stop.tolist())
            spans = f", spans=Spans{ranges}"
        return f"Samples({samples.tokens.tolist()}, {columns}{spans}), {self.limits!r}"


@st.composite
def cases(draw: st.DrawFn, targets: tuple[str, ...] = (), max_samples: int = 20) -> Case:
    """Small cases of all kinds: ties, empty and oversize samples, images with a place and without, budgets, none.

    ``targets``: columns that samples must have.
    """
    capacity = draw(st.one_of(st.integers(1, 30), st.sampled_from([97, 8192])))
    n = draw(st.integers(0, max_samples))
    align = draw(st.one_of(st.just(1), st.integers(1, min(capacity, 4))))
    oversize = draw(st.sampled_from(list(Oversize)))
    longest = capacity // align * align if oversize is Oversize.ERROR else 3 * capacity
    tokens = draw(_lengths(n, capacity).map(lambda lengths: [min(length, longest) for length in lengths]))
    columns = {name: draw(_each(n, st.integers(0, 9))) for name in targets if name != TOKENS_SQUARED}
    spans, most_samples = None, None
    budgets: tuple[tuple[str, int], ...] = ()
    if draw(st.booleans()):  # half of the cases know tokens only
        if "image_tokens" not in columns and draw(st.booleans()):
            spans = draw(_spans(tokens))
            columns.pop("images", None)
        else:
            columns["images"] = draw(_each(n, st.integers(0, 3)))
        most_samples = draw(st.one_of(st.none(), st.integers(1, 4)))
        budgets = draw(st.sampled_from([(), (("images", 3),)]))
    if "image_tokens" in columns:  # counted in the tokens
        columns["image_tokens"] = [min(pair) for pair in zip(columns["image_tokens"], tokens, strict=True)]
    return Case(Samples(tokens, columns, spans), Limits(capacity, budgets, most_samples, align, oversize))


def large_cases(packer: Packer) -> dict[str, Case]:
    """Return fixed cases of every family, by description, that ``packer`` does not refuse."""
    rng = np.random.default_rng(0)
    result = {}
    kinds = (((), None, "tokens"), ((("images", 20),), None, "tokens and images"), ((), 8, "tokens and samples"))
    for family, make in FAMILIES.items():
        for budgets, most_samples, name in kinds:
            tokens = make(rng, 400, 2048)
            columns = {each: rng.integers(0, 9, 400) for each in (*packer.targets, "images") if each != TOKENS_SQUARED}
            if "image_tokens" in columns:
                columns["image_tokens"] = np.minimum(columns["image_tokens"], tokens)
            if packer.cuts:  # what it cuts has no amounts
                columns = {}
            case = Case(Samples(tokens, columns), Limits(2048, budgets, most_samples))
            if packer.reason_against(case.samples, case.limits) is None:
                result[f'large_cases(...)["{family}, {name}"]'] = case
    return result


def _lengths(n: int, capacity: int) -> st.SearchStrategy[list[int]]:
    short, half = st.integers(0, capacity), max(capacity // 2, 1)
    return st.one_of(
        _each(n, short),
        _each(n, st.integers(half - half // 4, half + half // 4)),
        _each(n, st.sampled_from([1, max(capacity // 3, 1), half])),  # many of the same
        short.map(lambda length: [length] * n),  # all equal
        _each(n, st.one_of(short, st.integers(0, 3 * capacity))),  # some too long
        _each(n, st.integers(0, 3)).map(lambda lengths: [*lengths[:-1], capacity][:n]),  # one giant
    )


def _each(n: int, values: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
    return st.lists(values, min_size=n, max_size=n)


@st.composite
def _spans(draw: st.DrawFn, tokens: list[int]) -> Spans:
    """Up to two spans in each sample."""
    rows = []
    for n in tokens:
        places = sorted(draw(st.sets(st.integers(0, n), max_size=4)))
        rows.append([*zip(places[::2], places[1::2], strict=False)])
    return Spans.of(rows)
