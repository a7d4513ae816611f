"""Soft targets: amounts that a packer evens out, or keeps low, without a limit to keep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Int64
from .policies import Cut
from .samples import Samples

__all__ = ["TOKENS_SQUARED", "missing_target", "soft_amounts"]

TOKENS_SQUARED = "tokens_squared"  # attention: the square of the length of each piece


def missing_target(samples: Samples, targets: Sequence[str]) -> str | None:
    """Return what is wrong with the names of ``targets``, or None if ``samples`` have them all."""
    for name in targets:
        if name != TOKENS_SQUARED and name not in samples.columns:
            known = ", ".join((TOKENS_SQUARED, *samples.columns))
            return f'it has the target "{name}", but the samples have no such column (they have {known}).'
    return None


def soft_amounts(samples: Samples, parts: Cut, targets: Sequence[str]) -> Int64:
    """Return the amounts of each piece, (n_pieces, n_targets)."""
    soft = np.empty((len(parts.sizes), len(targets)), dtype=np.int64)
    if not targets:
        return soft
    sample = parts.sample
    for k, name in enumerate(targets):
        if name == TOKENS_SQUARED:
            whole = parts.start is None or parts.stop is None
            lengths = samples.tokens[sample] if whole else parts.stop - parts.start  # type: ignore[operator]
            soft[:, k] = lengths * lengths
        else:
            soft[:, k] = samples.amounts(name, sample, parts.start, parts.stop)
    return soft
