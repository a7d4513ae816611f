"""Cutting samples into pieces that fit, without cutting a span."""

from __future__ import annotations

import numpy as np

from .arrays import Int64
from .jit import kernel

__all__ = ["cut_around_spans"]


@kernel
def cut_around_spans(
    samples: Int64,
    tokens: Int64,
    offsets: Int64,
    start: Int64,
    stop: Int64,
    longest: int,
    most_in_spans: int,
    most_spans: int,
    first_only: bool,
) -> tuple[Int64, Int64, Int64]:
    """Return (sample, start, stop) of the pieces of ``samples``: each as long as the limits let it be, in turn.

    A piece has at most ``longest`` tokens, ``most_in_spans`` of them in spans, and ``most_spans`` spans. Text is cut
    anywhere, a span that does not fit begins the next piece; every span fits in a piece of its own. ``first_only``: no
    piece but the first of each sample. O(pieces + spans).
    """
    n_most = 0
    for sample in samples:
        n_most += tokens[sample] // longest + 1 + offsets[sample + 1] - offsets[sample]
    pieces = np.empty((3, n_most), dtype=np.int64)
    n = 0
    for sample in samples:
        span, last_span = offsets[sample], offsets[sample + 1]
        begin, place, in_spans, n_spans = 0, 0, 0, 0
        while place < tokens[sample]:
            ahead = start[span] if span < last_span else tokens[sample]
            room = longest - (place - begin)
            if place < ahead:
                fits = room > 0
                place += min(room, ahead - place)
            else:
                size = stop[span] - start[span]
                fits = size <= room and in_spans + size <= most_in_spans and n_spans < most_spans
                if fits:
                    place += size
                    in_spans += size
                    n_spans += 1
                    span += 1
            if not fits or place == tokens[sample]:
                pieces[0, n], pieces[1, n], pieces[2, n] = sample, begin, place
                n += 1
                begin, in_spans, n_spans = place, 0, 0
                if first_only:
                    break
    return pieces[0, :n].copy(), pieces[1, :n].copy(), pieces[2, :n].copy()
