"""The result of packing: which samples meet in which pack, and what is in none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from operator import index

import numpy as np

from .arrays import Immutable, Int32, Int64, read_only
from .errors import InvalidParameter, InvalidSamples
from .layout import Layout
from .policies import LeftOver
from .samples import Limits, Samples
from .targets import TOKENS_SQUARED

__all__ = ["Packing"]

LONGEST_SQUARED = 2**31 - 1  # only an isolated piece can be longer


@dataclass(frozen=True, eq=False, repr=False)
class Packing(Immutable):
    """Packs of whole samples (or pieces, where a policy cut them), as compressed rows.

    Pack p holds the pieces ``offsets[p] : offsets[p + 1]``; piece i is sample ``sample[i]``, of it the tokens
    ``start[i] : stop[i]`` where something was cut (else both are None and every piece is a whole sample).
    ``slots``: (n_packs,) tokens paid for: the capacity, or its own size for an isolated oversize sample.
    ``arrival``: (n_samples,) the number of each sample in its stream, rising; None outside of streams.
    ``held``: by column, (n_pieces,) what each piece holds; None: as `Samples.amounts` has it. A stream does not keep
    spans, which tell it of samples that were cut.
    """

    samples: Samples
    limits: Limits
    offsets: Int64
    sample: Int64
    start: Int64 | None
    stop: Int64 | None
    slots: Int64
    left_over: LeftOver
    arrival: Int64 | None = None
    held: Mapping[str, Int64] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_packs(self) -> int:
        """Number of packs."""
        return len(self)

    def __getitem__(self, pack: int) -> Int64:
        """Return the samples of one pack, (n,), in their order inside the pack: indices in ``samples``.

        In a stream too: ``packing.arrival[packing[pack]]`` are their numbers there.
        """
        try:
            pack = index(pack)
        except TypeError:
            kind = type(pack).__name__
            raise TypeError(f"packing[pack] takes the number of one pack, an integer; got {pack!r} ({kind}).") from None
        if not -len(self) <= pack < len(self):
            raise IndexError(f"pack {pack} of {len(self)}")
        pack %= len(self)
        return self.sample[self.offsets[pack] : self.offsets[pack + 1]]

    def layout(self, pack: int, *, padding_segment: bool = True) -> Layout:
        """Return where every token of one pack stands, as a trainer takes it.

        ``padding_segment``: the padding at the end is the last segment of ``cu_seqlens``, so that these reach the end
        of the pack; False leaves it out. Pieces without tokens do not exist, so that no segment is empty.
        """
        samples = self[pack]
        pieces = slice(*self.offsets[pack % len(self) :][:2])
        lengths = self.piece_tokens[pieces]
        start = np.zeros_like(lengths) if self.start is None else self.start[pieces]
        return Layout.of(
            samples if self.arrival is None else self.arrival[samples],
            start,
            start + lengths,
            self.limits.align,
            int(self.slots[pack]),
            padding_segment=padding_segment,
        )

    def __repr__(self) -> str:
        return f"Packing({len(self)} packs, fill {self.fill:.4f}, {len(self.left_over)} samples left over)"

    @cached_property
    def piece_tokens(self) -> Int64:
        """Tokens of each piece, (n_pieces,), without alignment padding."""
        if self.start is None or self.stop is None:
            return read_only(self.samples.tokens[self.sample])
        return read_only(self.stop - self.start)

    @property
    def arrivals(self) -> Int64:
        """The number of each piece's sample in the stream, (n_pieces,); outside of streams its index."""
        return self.sample if self.arrival is None else self.arrival[self.sample]

    @cached_property
    def tokens(self) -> Int64:
        """Real tokens of each pack, (n_packs,)."""
        return read_only(self._per_pack(self.piece_tokens))

    @property
    def fill(self) -> float:
        """Real tokens / tokens paid for; 0.0 where nothing is paid for."""
        paid = int(self.slots.sum())
        return int(self.tokens.sum()) / paid if paid else 0.0

    @cached_property
    def pack_of_sample(self) -> Int32:
        """Pack of each sample, (n_samples,): -1 for one in no pack, the pack of its last piece for one that was cut."""
        pack_of = np.full(len(self.samples), -1, dtype=np.int32)
        pack_of[self.sample] = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.offsets))
        return read_only(pack_of)

    @property
    def n_cut_samples(self) -> int:
        """Samples of which a piece is in a pack, but not the whole in one."""
        return len(np.unique(self.sample[self.piece_tokens < self.samples.tokens[self.sample]]))

    @property
    def n_cut_spans(self) -> int:
        """Spans (images) with a cut inside. No policy cuts one; the stream method of `Concatenate` does."""
        if self.samples.spans is None or self.start is None or self.stop is None:
            return 0
        cuts = (self.samples.spans.cut_by(self.samples.tokens, self.sample, at) for at in (self.start, self.stop))
        return len(np.union1d(*cuts))

    def digest(self) -> str:
        """Return a text that is the same for the same packs of the same samples, on every machine."""
        digest = blake2b(digest_size=16)
        for array in (self.offsets, self.sample, self.start, self.stop, self.slots, self.left_over.sample):
            values = np.zeros(0, dtype="<i8") if array is None else array.astype("<i8")
            digest.update(len(values).to_bytes(8, "little"))
            digest.update(values.tobytes())
        return digest.hexdigest()

    def sums(self) -> dict[str, Int64]:
        """Return what each pack holds, (n_packs,) each: "packs" (1), "samples" (its pieces), "tokens", "tokens_squared"
        (the sum of squared piece lengths: attention), and one per column of the samples."""
        return {
            "packs": np.ones(len(self), dtype=np.int64),
            "samples": np.diff(self.offsets),
            "tokens": self.tokens,
            **{name: self.sum_of(name) for name in (TOKENS_SQUARED, *self.samples.columns)},
        }

    def sum_of(self, name: str) -> Int64:
        """Return what each pack holds of a column of the samples, or of "tokens_squared", (n_packs,)."""
        if name == TOKENS_SQUARED:
            return self._per_pack(self._squares())
        if self.held and name in self.held:
            return self._per_pack(self.held[name])
        if name not in self.samples.columns:
            known = ", ".join((TOKENS_SQUARED, *self.samples.columns))
            raise InvalidParameter(f'there is no column "{name}" to sum; there are {known}.')
        return self._per_pack(self.samples.amounts(name, self.sample, self.start, self.stop))

    def _squares(self) -> Int64:
        lengths = self.piece_tokens
        if int(lengths.max(initial=0)) > LONGEST_SQUARED:
            raise InvalidSamples(f"a piece has {lengths.max()} tokens; squares are counted up to {LONGEST_SQUARED}.")
        return lengths * lengths

    def _per_pack(self, amounts: Int64) -> Int64:
        """Sum ``amounts``, one per piece, over each pack. No pack is empty, so reduceat is safe."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat(amounts, self.offsets[:-1])
