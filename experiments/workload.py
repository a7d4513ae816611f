"""The default input: samples drawn by seed from the figures of 99 real sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from packing import EvenstepError, Samples
from packing.arrays import Int64, as_int, sums_by_key

__all__ = ["SHARES", "InvalidWorkload", "Workload", "draw"]

SHARES: Mapping[str, float] = MappingProxyType({"vlm": 0.4, "vqa": 0.1, "text": 0.5})
FEWEST_KEPT = 1_000  # of a family at least one sample in so many must be short enough, else drawing would not end


class InvalidWorkload(EvenstepError, ValueError):
    """Shares, or a longest sample, that nothing can be drawn for."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Samples with the columns "image_tokens" and, where known, "images"; ``source``: (n_samples,) names, or None."""

    samples: Samples
    source: NDArray[np.str_] | None = None


def draw(n_samples: int, shares: Mapping[str, float] = SHARES, seed: int = 0, longest: int = 8192) -> Workload:
    """Return ``n_samples`` samples of at most ``longest`` tokens, in random order.

    ``shares``: family -> its share of the samples, relative to their sum; exact up to rounding. The families are "vlm"
    (images in a chat service), "vqa" (tiled images with questions), "text" (chat) and "short_text". Inside a family a
    source is drawn by its number of samples, then the number of images, the tokens of each image and the tokens of the
    text, independently, from the source's figures. Samples above ``longest`` are drawn anew.
    """
    rng = np.random.default_rng(as_int("seed", seed, InvalidWorkload, least=0))
    parts = [_draw_up_to(name, n, longest, rng) for name, n in _counts(n_samples, shares).items()]
    order = rng.permutation(n_samples)
    names = np.concatenate([_figures()[name].names[part.source] for name, part in zip(shares, parts, strict=True)])
    tokens, image_tokens, images = (np.concatenate(columns)[order] for columns in list(zip(*parts, strict=True))[1:])
    return Workload(Samples(tokens, {"image_tokens": image_tokens, "images": images}), names[order])


class _Drawn(NamedTuple):
    """Samples of one family, (n,) each."""

    source: Int64
    tokens: Int64
    image_tokens: Int64
    images: Int64


class _Source(TypedDict):
    """One line of the table of figures."""

    source: str
    family: str
    samples: int
    images: dict[str, float]
    tokens_per_image: list[int]
    text_tokens: list[int]


class _Family(NamedTuple):
    """Figures of the sources of a family; source s has the image counts ``images[first[s] : first[s + 1]]``."""

    names: NDArray[np.str_]
    shares: NDArray[np.float64]
    images: Int64
    cumulative: NDArray[np.float64]  # s + the probability of at most so many images
    first: Int64
    tokens_per_image: NDArray[np.float64]  # (n_sources, 33) quantiles
    text_tokens: NDArray[np.float64]


def _counts(n_samples: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Return the number of samples of each family, summing to ``n_samples``."""
    if n_samples < 1:
        raise InvalidWorkload(f"at least 1 sample must be drawn; got {n_samples}.")
    for name, share in shares.items():
        if name not in _figures():
            raise InvalidWorkload(f'no family "{name}"; there are {", ".join(_figures())}.')
        if not 0 <= share < np.inf:
            raise InvalidWorkload(f"shares must be finite and >= 0; that of {name} is {share}.")
    total = sum(shares.values())
    if total <= 0:
        raise InvalidWorkload("some share must be above 0.")
    if total == np.inf:
        raise InvalidWorkload("shares must have a finite sum; give smaller ones.")
    ends = np.rint(np.cumsum(list(shares.values())) / total * n_samples).astype(np.int64)
    return dict(zip(shares, np.diff(ends, prepend=0).tolist(), strict=True))


def _draw_up_to(name: str, n: int, longest: int, rng: np.random.Generator) -> _Drawn:
    """Draw until ``n`` samples of the family have at most ``longest`` tokens."""
    rounds, missing = [_draw_family(_figures()[name], 0, rng)], n
    while missing > 0:
        drawn = _draw_family(_figures()[name], missing + FEWEST_KEPT, rng)
        kept = np.flatnonzero(drawn.tokens <= longest)[:missing]
        if not len(kept):
            raise InvalidWorkload(f"hardly any sample of {name} has at most {longest} tokens. Allow longer ones.")
        rounds.append(_Drawn(*(column[kept] for column in drawn)))
        missing -= len(kept)
    return _Drawn(*(np.concatenate(columns) for columns in zip(*rounds, strict=True)))


def _draw_family(family: _Family, n: int, rng: np.random.Generator) -> _Drawn:
    source = rng.choice(len(family.names), size=n, p=family.shares)
    at = np.searchsorted(family.cumulative, source + rng.random(n), side="right")
    images = family.images[np.minimum(at, family.first[source + 1] - 1)]  # s + 0.99... may round up to s + 1
    owner = np.repeat(np.arange(n), images)
    per_image = _invert(family.tokens_per_image, source[owner], rng)
    image_tokens = sums_by_key(per_image, owner, n)
    return _Drawn(source, image_tokens + _invert(family.text_tokens, source, rng), image_tokens, images)


def _invert(quantiles: NDArray[np.float64], source: Int64, rng: np.random.Generator) -> Int64:
    """Draw from each source's distribution, linear between its quantiles, rounded; (n,)."""
    position = rng.random(len(source)) * (quantiles.shape[1] - 1)
    low = position.astype(np.int64)
    below, above = quantiles[source, low], quantiles[source, low + 1]
    drawn: Int64 = np.rint(below + (position - low) * (above - below)).astype(np.int64)
    return drawn


@cache
def _figures() -> dict[str, _Family]:
    sources: list[_Source] = json.loads(files("experiments.data").joinpath("sources.json").read_text())
    names = dict.fromkeys(source["family"] for source in sources)
    return {name: _family([source for source in sources if source["family"] == name]) for name in names}


def _family(sources: list[_Source]) -> _Family:
    n_samples = np.array([source["samples"] for source in sources], dtype=np.float64)
    tables = [source["images"] for source in sources]
    cumulative = [s + np.cumsum([*table.values()]) / sum(table.values()) for s, table in enumerate(tables)]
    return _Family(
        names=np.array([source["source"] for source in sources]),
        shares=n_samples / n_samples.sum(),
        images=np.array([int(count) for table in tables for count in table]),
        cumulative=np.concatenate(cumulative),
        first=np.cumsum([0, *map(len, tables)]),
        tokens_per_image=np.array([source["tokens_per_image"] or [0] * 33 for source in sources], dtype=np.float64),
        text_tokens=np.array([source["text_tokens"] for source in sources], dtype=np.float64),
    )
