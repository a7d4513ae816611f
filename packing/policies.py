"""From samples to the pieces that a packer sees: alignment, oversize and empty samples. All that is lost is listed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrays import SUM_LIMIT, Immutable, Int64
from .errors import CannotCut, InvalidLimits, Oversized
from .samples import OF_SPANS, Limits, Oversize, Samples
from .spans import Spans

__all__ = ["Cut", "LeftOver", "LeftOverRow", "Pieces", "Reason", "check_places_known", "cut"]


class Reason(Enum):
    """Why tokens of a sample are in no pack."""

    EMPTY = 0  # the sample has no tokens
    DROPPED = 1  # it fits in no pack, and ``Oversize.DROP`` was asked for
    TRUNCATED = 2  # its tokens behind what fits, under ``Oversize.TRUNCATE``
    UNCUTTABLE = 3  # a span of it fits in no pack, so that it cannot be cut as ``TRUNCATE`` and ``SPLIT`` ask


class LeftOverRow(NamedTuple):
    """One sample of which something is in no pack."""

    sample: int
    tokens: int  # how many of its tokens are lost
    reason: Reason


@dataclass(frozen=True, eq=False)
class LeftOver(Immutable):
    """All that is in no pack: ``sample``, ``tokens`` lost and ``reason`` (values of `Reason`), (n,) each, by sample."""

    sample: Int64
    tokens: Int64
    reason: NDArray[np.int8]

    @classmethod
    def nothing(cls) -> LeftOver:
        """Return the list of no sample."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int8))

    def __len__(self) -> int:
        return len(self.sample)

    def __iter__(self) -> Iterator[LeftOverRow]:
        for sample, tokens, reason in zip(self.sample, self.tokens, self.reason, strict=True):
            yield LeftOverRow(int(sample), int(tokens), Reason(int(reason)))


@dataclass(frozen=True, eq=False)
class Pieces:
    """What a packer sees, policies applied: every piece fits in a pack of its own.

    ``sizes``: (n_pieces, k) and ``caps``: (k,), one column per hard limit; column 0 is aligned tokens, then each
    budget, then the number of samples if that is limited. ``soft``: (n_pieces, m) amounts of the packer's targets.
    ``call`` numbers the calls of a stream, for seeding.
    """

    sizes: Int64
    caps: Int64
    soft: Int64
    call: int = 0


class Cut(NamedTuple):
    """The pieces of samples, in sample order; the arrays are parallel to each other."""

    kept: Int64 | None  # sample of each piece; None: every sample is one piece
    start: Int64 | None  # first token of the piece in its sample, and the one behind its last; None: nothing was cut
    stop: Int64 | None
    sizes: Int64  # (n_pieces, k)
    caps: Int64  # (k,)
    alone: Int64  # which pieces are above a limit and get a pack of their own, rising
    left_over: LeftOver

    @property
    def sample(self) -> Int64:
        """Sample of each piece, (n_pieces,)."""
        return np.arange(len(self.sizes)) if self.kept is None else self.kept


def cut(samples: Samples, limits: Limits) -> Cut:
    """Apply the policies of ``limits`` to ``samples``.

    Raises `Oversized` or `CannotCut` for the first sample that the policy does not admit, `InvalidLimits` for a budget
    on a column that the samples lack.
    """
    sizes, caps, names = _sizes(samples, limits)
    whole = samples.shortest > 0 and samples.longest <= limits.longest and (sizes[:, 1:] <= caps[1:]).all()
    if whole:  # the common case
        return Cut(None, None, None, sizes, caps, np.zeros(0, np.int64), LeftOver.nothing())
    empty = samples.tokens == 0
    over = (sizes > caps).any(axis=1) & ~empty
    if over.any():
        if limits.oversize is Oversize.ERROR:
            _raise_oversized(sizes, caps, names, over)
        if limits.oversize in (Oversize.TRUNCATE, Oversize.SPLIT):
            return _cut_tokens(samples, limits, caps, over, empty)
    gone = empty | over if limits.oversize is Oversize.DROP else empty
    left_over = _left_over(gone, samples.tokens, np.where(empty, Reason.EMPTY.value, Reason.DROPPED.value))
    if not len(left_over):
        return Cut(None, None, None, sizes, caps, np.flatnonzero(over), left_over)
    kept = np.flatnonzero(~gone)
    return Cut(kept, None, None, sizes[kept], caps, np.flatnonzero(over[kept]), left_over)


def _sizes(samples: Samples, limits: Limits) -> tuple[Int64, Int64, list[str]]:
    """Return sizes (n, k), caps (k,) and the name of each of the k limits."""
    tokens = samples.tokens
    if limits.align > 1:
        tokens = -(-tokens // limits.align) * limits.align
    columns, caps, names = [tokens], [limits.capacity], ["tokens"]
    for name, most in limits.budgets:
        if name not in samples.columns:
            known = ", ".join(samples.columns) or "none"
            raise InvalidLimits(
                f'there is a budget for "{name}", but the samples have no such column (they have {known}).'
            )
        columns.append(samples.columns[name])
        caps.append(most)
        names.append(name)
    if limits.max_samples is not None:
        columns.append(np.ones_like(tokens))
        caps.append(limits.max_samples)
        names.append("samples")
    sizes = np.ascontiguousarray(tokens[:, None]) if len(columns) == 1 else np.stack(columns, axis=1)
    return sizes, np.array(caps, dtype=np.int64), names


def _cut_tokens(
    samples: Samples, limits: Limits, caps: Int64, over: NDArray[np.bool_], empty: NDArray[np.bool_]
) -> Cut:
    """Truncate or split the samples marked ``over`` around their spans."""
    from .cuts import cut_around_spans

    check_places_known(
        samples, limits, over, "Give Samples(spans=...) for images; else use Oversize.DROP or Oversize.ISOLATE."
    )
    spans = samples.spans or Spans(np.zeros(len(samples) + 1, np.int64), [], [])
    longest = limits.longest
    budgets = dict(limits.budgets)
    most_in_spans, most_spans = (budgets.get(name, SUM_LIMIT) for name in OF_SPANS)
    stuck = np.zeros(len(samples), dtype=np.bool_)
    stuck[spans.owner[spans.stop - spans.start > (min(longest, most_in_spans) if most_spans else 0)]] = True
    stuck &= over
    to_cut, first_only = np.flatnonzero(over & ~stuck), limits.oversize is Oversize.TRUNCATE
    cuts = cut_around_spans(
        to_cut,
        samples.tokens,
        spans.offsets,
        spans.start,
        spans.stop,
        longest,
        most_in_spans,
        most_spans,
        first_only,
    )
    whole = np.flatnonzero(~over & ~empty)
    both = zip((whole, np.zeros_like(whole), samples.tokens[whole]), cuts, strict=True)
    sample, start, stop = (np.concatenate(pair) for pair in both)
    order = np.argsort(sample, kind="stable")
    sample, start, stop = sample[order], start[order], stop[order]
    sizes = np.ones((len(sample), len(caps)), dtype=np.int64)  # the last column may count samples
    sizes[:, 0] = -(-(stop - start) // limits.align) * limits.align
    for k, (name, _) in enumerate(limits.budgets, start=1):
        sizes[:, k] = samples.amounts(name, sample, start, stop)
    lost = samples.tokens.copy()
    np.subtract.at(lost, sample, stop - start)
    reason = np.select([empty, stuck], [Reason.EMPTY.value, Reason.UNCUTTABLE.value], Reason.TRUNCATED.value)
    left_over = _left_over(empty | (lost > 0), lost, reason)
    return Cut(sample, start, stop, sizes, caps, np.zeros(0, np.int64), left_over)


def check_places_known(samples: Samples, limits: Limits, cut_up: NDArray[np.bool_], remedy: str) -> None:
    """Raise `CannotCut` for the first sample marked ``cut_up`` that carries something of unknown place."""
    unknown = [name for name in samples.columns if not (samples.spans and name in OF_SPANS)]
    bad = np.zeros(len(samples), dtype=np.bool_)
    for name in unknown:
        bad |= cut_up & (samples.columns[name] > 0)
    if bad.any():
        i = int(np.argmax(bad))
        amount, name = next((samples.columns[name][i], name) for name in unknown if samples.columns[name][i])
        raise CannotCut(
            f"sample {i} ({samples.tokens[i]} tokens, limit {limits.capacity}) carries {amount} {name}, whose "
            f"place in it is unknown, so it cannot be cut. {remedy}"
        )


def _left_over(gone: NDArray[np.bool_], lost: Int64, reason: Int64) -> LeftOver:
    """Return the samples marked ``gone``, each with its tokens ``lost`` and its ``reason``; (n_samples,) arrays."""
    which = np.flatnonzero(gone)
    return LeftOver(which, lost[which], reason[which].astype(np.int8))


def _raise_oversized(sizes: Int64, caps: Int64, names: list[str], over: NDArray[np.bool_]) -> None:
    i = int(np.argmax(over))
    k = int(np.argmax(sizes[i] > caps))
    amount, limit, resource = int(sizes[i, k]), int(caps[k]), names[k]
    raise Oversized(
        f"every sample must fit in a pack; sample {i} takes {amount} {resource}, the limit is {limit} "
        f"({int(over.sum())} too long in all). Set Limits(oversize=...) to DROP, TRUNCATE, SPLIT or ISOLATE.",
        i,
        resource,
        amount,
        limit,
    )
