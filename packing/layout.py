"""What a trainer needs of a pack: where each sample begins and ends, positions, segments, padding, and loss weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Immutable, Int32, Int64, as_int64
from .errors import InvalidSamples

__all__ = ["Layout", "count_supervised", "loss_weights"]


@dataclass(frozen=True, eq=False)
class Layout(Immutable):
    """One pack, place by place: n pieces in their order, each padded to the alignment, then padding to the end.

    A segment attends to itself only. Segments are the pieces and, where it was asked for and there is some, the padding
    at the end. Take boundaries from ``cu_seqlens`` or ``segment_ids``, never from position 0: padding has that too.

    ``samples``: (n,) sample of each piece (in a stream its arrival number); ``start``, ``stop``: (n,) its tokens there.
    ``cu_seqlens``: (n_segments + 1,) boundaries of the segments with alignment, as places in the pack: from 0, strictly
    increasing, as attention kernels take them.
    ``cu_tokens``: (n_segments + 1,) the same without alignment: sums of true lengths, for kernels that take both.
    ``position_ids``: (n_slots,) place of each token in its piece, 0 in padding. A piece cut from a sample begins at 0
    too: add ``start`` to continue the sample's count.
    ``segment_ids``: (n_slots,) 1 to n for the tokens of the pieces, 0 for padding of both kinds.
    """

    samples: Int64
    start: Int64
    stop: Int64
    cu_seqlens: Int32
    cu_tokens: Int32
    position_ids: Int32
    segment_ids: Int32

    @classmethod
    def of(
        cls, samples: Int64, start: Int64, stop: Int64, align: int, n_slots: int, *, padding_segment: bool
    ) -> Layout:
        """Lay out the pieces of a pack of ``n_slots`` places."""
        lengths = stop - start
        footprints = -(-lengths // align) * align
        ends = np.cumsum(footprints)
        used = int(ends[-1])
        place = np.arange(n_slots, dtype=np.int32)
        piece = np.searchsorted(ends, place, side="right")
        offset = place - np.concatenate([ends - footprints, [0]])[piece]
        real = offset < np.concatenate([lengths, [0]])[piece]
        if padding_segment and used < n_slots:
            lengths, footprints = (np.append(each, n_slots - used) for each in (lengths, footprints))
        return cls(
            samples,
            start,
            stop,
            _boundaries(footprints),
            _boundaries(lengths),
            np.where(real, offset, 0).astype(np.int32),
            np.where(real, piece + 1, 0).astype(np.int32),
        )

    @property
    def n_slots(self) -> int:
        """Places in the pack."""
        return len(self.segment_ids)

    @property
    def lengths(self) -> Int64:
        """True length of each piece, (n,)."""
        return self.stop - self.start

    @property
    def padding(self) -> NDArray[np.bool_]:
        """Whether each place is padding, (n_slots,)."""
        empty: NDArray[np.bool_] = self.segment_ids == 0
        return empty

    @property
    def longest(self) -> int:
        """The longest segment, alignment included: what attention kernels call ``max_seqlen``."""
        return int(np.diff(self.cu_seqlens).max(initial=0))


def count_supervised(labels: ArrayLike, offsets: ArrayLike, ignored: int = -100) -> Int64:
    """Return how many labels of each sample are learned from, (n_samples,): its column "supervised".

    Sample i has ``labels[offsets[i] : offsets[i + 1]]``; the two arrays are those of the samples, or of a pack with
    its ``cu_seqlens``. Its first label is never counted, whether it is ``ignored`` or not: no token of the same sample
    predicts it. So nothing has to be subtracted for boundaries, neither once nor twice.
    """
    remedy = "offsets begin at 0, do not fall, and end at the number of labels."
    ends = as_int64("offsets", offsets, InvalidSamples, remedy=remedy)
    try:
        known = np.asarray(labels) != ignored
    except ValueError as error:  # a list for each sample
        raise InvalidSamples(f"labels must be one row, those of all samples end to end; {error}") from error
    if known.ndim != 1 or not len(ends) or ends[0] != 0 or ends[-1] != len(known) or (np.diff(ends) < 0).any():
        raise InvalidSamples(f"offsets must fit the labels, of shape {known.shape}; got {ends.tolist()[:10]}. {remedy}")
    known[ends[:-1][np.diff(ends) > 0]] = False
    return np.diff(np.concatenate([[0], np.cumsum(known)])[ends])


def loss_weights(supervised: ArrayLike) -> NDArray[np.float64]:
    """Return what the mean loss of each pack counts in the mean over all supervised tokens, (n_packs,).

    ``supervised``: tokens learned from in each pack of a step, on all ranks: ``packing.sums()["supervised"]``. A weight
    is its share of them; a pack without any weighs 0.0, also where no pack has any. The mean over all does not depend
    on how samples are grouped into packs; a mean of means would.
    """
    remedy = "Counts are whole numbers >= 0."
    counts = as_int64("supervised", supervised, InvalidSamples, remedy=remedy)
    return counts / max(int(counts.sum()), 1)


def _boundaries(lengths: Int64) -> Int32:
    """Return where segments of these lengths begin and end, (n + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
