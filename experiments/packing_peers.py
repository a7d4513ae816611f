"""How do the packing packages of others compare with the packers that compute the same, on the same lengths?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TypeAlias

import numpy as np

from packing import BestFitDecreasing, FirstFitDecreasing, InvalidGroups, Packer
from packing.arrays import Int64

from .peers import PATIENCE_US, SkippedPeer, best_of, installed

__all__ = ["PACKING_PEERS", "PackingPeer", "PackingPeerRow", "compare_with_packing_peer"]

CAPACITY = 8192
Packs: TypeAlias = Sequence[Sequence[int]]
Pack: TypeAlias = Callable[[ModuleType, list[int], int], Packs]


@dataclass(frozen=True)
class PackingPeer:
    """An algorithm of another package, and the packer here that computes the same or stands nearest.

    ``pack(package, lengths, capacity)`` returns the indices of each pack. ``sizes``: numbers of samples, small first.
    """

    package: str  # to import, and to install
    algorithm: str
    ours: Packer
    pack: Pack
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)


@dataclass(frozen=True)
class PackingPeerRow:
    """A peer and ours on the same lengths. Ratios are peer / ours: above 1 the peer takes more."""

    package: str
    algorithm: str
    case: str
    ours: str
    peer_us: float
    ours_us: float
    time_ratio: float
    packs_ratio: float


def compare_with_packing_peer(peer: PackingPeer, seed: int = 0) -> Iterator[PackingPeerRow | SkippedPeer]:
    """Yield a row for each size, on long-tailed lengths; one row if the peer is not installed.

    Times are the best of a few runs, compiling not counted; ours are of `Packer.pack` whole, from a list of integers.
    """
    package = installed(peer.package, peer.algorithm)
    if isinstance(package, SkippedPeer):
        yield package
        return
    us_per_pair = 0.0  # at the size before; the peers are quadratic
    for n in peer.sizes:
        case = f"{n:,} samples"
        if us_per_pair * n * n > PATIENCE_US:
            seconds = us_per_pair * n * n / 1_000_000
            yield SkippedPeer(peer.package, peer.algorithm, case, f"would take up to {seconds:,.0f} s")
            return
        lengths = _lengths(np.random.default_rng(seed), n)
        row = _compared(peer, package, case, lengths.tolist())
        yield row
        if isinstance(row, SkippedPeer):
            return
        us_per_pair = row.peer_us / n / n


def _compared(peer: PackingPeer, package: ModuleType, case: str, lengths: list[int]) -> PackingPeerRow | SkippedPeer:
    packs, peer_us = best_of(lambda: peer.pack(package, lengths, CAPACITY))
    try:
        n_packs = _count(packs, lengths, f"{peer.package} {peer.algorithm}")
    except InvalidGroups as error:
        return SkippedPeer(peer.package, peer.algorithm, case, str(error))
    peer.ours.pack(lengths[:10], CAPACITY)  # compiles; not counted
    ours, ours_us = best_of(lambda: peer.ours.pack(lengths, CAPACITY))
    return PackingPeerRow(
        package=peer.package,
        algorithm=peer.algorithm,
        case=case,
        ours=repr(peer.ours),
        peer_us=peer_us,
        ours_us=ours_us,
        time_ratio=peer_us / ours_us,
        packs_ratio=n_packs / len(ours),
    )


def _count(packs: Packs, lengths: list[int], name: str) -> int:
    """Return the number of packs with something in them; raise `InvalidGroups` if they are no packing."""
    samples = [sample for pack in packs for sample in pack]
    if sorted(samples) != list(range(len(lengths))):
        raise InvalidGroups(f"{name} must pack each of {len(lengths)} samples once; it packed {len(samples)}.")
    fullest = max(sum(lengths[sample] for sample in pack) for pack in packs)
    if fullest > CAPACITY:
        raise InvalidGroups(f"{name} put {fullest} tokens into a pack of {CAPACITY}.")
    return sum(1 for pack in packs if len(pack))


def _lengths(rng: np.random.Generator, n: int) -> Int64:
    return rng.lognormal(6.5, 1.0, n).astype(np.int64).clip(16, CAPACITY)


def _prtpy(algorithm: str) -> Pack:
    def pack(prtpy: ModuleType, lengths: list[int], capacity: int) -> Packs:
        packs: Packs = prtpy.pack(
            algorithm=getattr(prtpy.packing, algorithm), binsize=capacity, items=dict(enumerate(lengths))
        )
        return packs

    return pack


def _binpacking(binpacking: ModuleType, lengths: list[int], capacity: int) -> Packs:
    return [list(pack) for pack in binpacking.to_constant_volume(dict(enumerate(lengths)), capacity)]


def _lightbinpack(algorithm: str) -> Pack:
    def pack(lightbinpack: ModuleType, lengths: list[int], capacity: int) -> Packs:
        packs: Packs = getattr(lightbinpack, algorithm)(lengths, capacity)
        return packs

    return pack


PACKING_PEERS = (
    PackingPeer("prtpy", "first_fit_decreasing", FirstFitDecreasing(), _prtpy("first_fit_decreasing")),
    PackingPeer("binpacking", "to_constant_volume", BestFitDecreasing(), _binpacking),
    PackingPeer("lightbinpack", "ffd", FirstFitDecreasing(), _lightbinpack("ffd")),
    PackingPeer("lightbinpack", "bfd", BestFitDecreasing(), _lightbinpack("bfd")),
    PackingPeer("lightbinpack", "obfd", BestFitDecreasing(), _lightbinpack("obfd")),
)
