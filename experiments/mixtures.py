"""Samples of a mixture of three families, drawn from figures or from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from packing import Samples

from .tables import read_samples
from .workload import SHARES, InvalidWorkload, draw

__all__ = ["FAMILIES", "MIXTURES", "TARGET", "mixed"]

FAMILIES = tuple(SHARES)
MIXTURES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("M1", (1, 0, 0)),
    ("M2", (0.4, 0.1, 0.5)),
    ("M3", (0, 0.2, 0.8)),
    ("M4", (0, 0.5, 0.5)),
    ("M5", (0, 0.8, 0.2)),
)
"""Name, and shares of images in chat, tiled images with questions, and text."""
TARGET = "image_tokens"


def mixed(shares: Sequence[float], n_samples: int, seed: int, longest: int, files: Sequence[Path] = ()) -> Samples:
    """Return samples with ``shares`` of the three families in random order, of at most ``longest`` tokens.

    ``files``: a table for each family to draw from; none: the figures of real sources.
    """
    if not files:
        named = {name: share for name, share in zip(FAMILIES, shares, strict=True) if share}
        drawn = draw(n_samples, named, seed, longest).samples
        return Samples(drawn.tokens, {TARGET: drawn.columns[TARGET]})
    if len(files) != len(shares):
        raise InvalidWorkload(f"give one file for each of {', '.join(FAMILIES)}; got {len(files)}.")
    rng = np.random.default_rng(seed)
    parts = []
    for path, share in zip(files, shares, strict=True):
        table = read_samples(path).samples
        short = np.flatnonzero(table.tokens <= longest)
        if not len(short):
            raise InvalidWorkload(f"{path}: no sample has at most {longest} tokens, which a pack holds.")
        chosen = short[rng.integers(0, len(short), round(share * n_samples))]
        parts.append(np.stack([table.tokens[chosen], table.columns[TARGET][chosen]]))
    tokens, amounts = rng.permutation(np.concatenate(parts, axis=1), axis=1)
    if not tokens.any():
        raise InvalidWorkload(
            f"{n_samples} samples in shares of {tuple(shares)} of these files have no tokens. Draw more."
        )
    return Samples(tokens, {TARGET: amounts})
