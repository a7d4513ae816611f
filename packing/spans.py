"""Spans: ranges of tokens that no policy cuts, such as the tokens of an image."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Int64, as_int64
from .errors import InvalidSamples

__all__ = ["Spans"]


@dataclass(frozen=True, eq=False)
class Spans:
    """Ranges of tokens that stay whole, checked once, as compressed rows; the arrays are read-only copies.

    Sample s has the spans ``offsets[s] : offsets[s + 1]``; span i is the tokens ``start[i] : stop[i]`` of its sample.
    Spans of a sample are in order, do not overlap, and none is empty.
    """

    offsets: Int64
    start: Int64
    stop: Int64

    def __init__(self, offsets: ArrayLike, start: ArrayLike, stop: ArrayLike) -> None:
        for name, values in (("offsets", offsets), ("start", start), ("stop", stop)):
            checked = as_int64(f"spans.{name}", values, InvalidSamples, remedy="Places are whole numbers >= 0.")
            object.__setattr__(self, name, checked)
        n = len(self.start)
        rows = self.offsets
        if len(self.stop) != n or not len(rows) or rows[0] != 0 or rows[-1] != n or (np.diff(rows) < 0).any():
            raise InvalidSamples(
                f"spans.offsets must begin at 0, not fall, and end at the number of spans; got "
                f"{rows.tolist()[:10]} for {n} starts and {len(self.stop)} stops."
            )
        before = np.concatenate([[0], self.stop[:-1]])[:n]  # where the span before ends
        before[rows[:-1][np.diff(rows) > 0]] = 0
        for bad, rule in ((self.stop <= self.start, "not be empty"), (self.start < before, "follow each other")):
            if bad.any():
                i = int(np.argmax(bad))
                raise InvalidSamples(
                    f"spans of a sample must {rule}; span {i}, of sample {self.owner[i]}, is "
                    f"{self.start[i]} to {self.stop[i]}."
                )

    @classmethod
    def of(cls, per_sample: Iterable[Iterable[tuple[int, int]]]) -> Spans:
        """Return the spans of a list, per sample, of pairs (start, stop)."""
        try:
            rows = [[(start, stop) for start, stop in spans] for spans in per_sample]
        except (TypeError, ValueError) as error:
            raise InvalidSamples(f"spans must be a list of pairs (start, stop) for each sample; {error}.") from error
        pairs = list(chain.from_iterable(rows))
        return cls(np.cumsum([0, *map(len, rows)]), [start for start, _ in pairs], [stop for _, stop in pairs])

    def __len__(self) -> int:
        """Return the number of spans of all samples."""
        return len(self.start)

    def __reduce__(self) -> tuple[type[Spans], tuple[Int64, Int64, Int64]]:
        return Spans, (self.offsets, self.start, self.stop)

    @property
    def n_samples(self) -> int:
        """Number of samples, with spans or without."""
        return len(self.offsets) - 1

    @property
    def owner(self) -> Int64:
        """The sample of each span, (n,)."""
        return np.repeat(np.arange(self.n_samples), np.diff(self.offsets))

    def columns(self) -> dict[str, Int64]:
        """Return "image_tokens", the tokens in spans, and "images", their number, (n_samples,) each."""
        covered = np.concatenate([[0], np.cumsum(self.stop - self.start)])
        return {"image_tokens": np.diff(covered[self.offsets]), "images": np.diff(self.offsets)}

    def inside(self, tokens: Int64, sample: Int64, start: Int64, stop: Int64) -> dict[str, Int64]:
        """Return the `columns` of pieces: tokens ``start : stop`` of ``sample``, (n_pieces,) each; O((n + m) log m).

        ``tokens``: (n_samples,) their lengths. A span that a piece cuts gives each side its tokens, and counts where it
        begins.
        """
        base = np.concatenate([[0], np.cumsum(tokens)])  # samples end to end
        first = base[self.owner] + self.start
        covered = np.concatenate([[0], np.cumsum(self.stop - self.start)])

        def before(place: Int64) -> Int64:
            """Tokens in spans in front of each place."""
            started = np.searchsorted(first, place)
            into = place - np.concatenate([[0], first])[started]  # the span before it may reach beyond it
            size = np.diff(covered, prepend=0)[started]
            held: Int64 = covered[started] - np.maximum(size - into, 0) * (started > 0)
            return held

        begin, end = base[sample] + start, base[sample] + stop
        return {
            "image_tokens": before(end) - before(begin),
            "images": np.searchsorted(first, end) - np.searchsorted(first, begin),
        }

    def cut_by(self, tokens: Int64, sample: Int64, place: Int64) -> Int64:
        """Return the spans, rising, with one of the places ``place`` of ``sample`` inside them."""
        base = np.concatenate([[0], np.cumsum(tokens)])
        spans = base[self.owner]
        at = base[sample] + place
        span = np.searchsorted(spans + self.start, at) - 1  # the last one that begins in front of the place
        inside = (span >= 0) & (at < np.append(spans + self.stop, 0)[span])
        return np.unique(span[inside])
