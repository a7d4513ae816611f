"""Random payloads under random loads: the bytes of what is delivered are those of what was loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import pytest
import torch
import torch.distributed as td
from hypothesis import given, settings
from hypothesis import strategies as st

from balancers import LPT, Counts, Grid
from dist import BalancedLoader, parcel, unpack
from tests.ranks import Ranks

from .trees import trees


class Sent(NamedTuple):
    """A pack as bytes, with its load."""

    content: bytes
    load: int


Shares: TypeAlias = list[list[Sent]]
Came: TypeAlias = list[tuple[int, int, bytes]]


def as_bytes(tree: object) -> bytes:
    packed = parcel(tree)
    buffer = torch.empty(packed.n_bytes, dtype=torch.uint8)
    packed.write(buffer)
    return buffer.numpy().tobytes()


def deliver(shares: Shares, options: Mapping[str, str] | None = None, look: Callable[[], object] = bool) -> Came:
    """Run one pass; return rank, number and bytes of every pack that this rank is given. ``look``: before each."""
    packs: list[dict[str, Any]] = [
        {"load": load, "tree": unpack(torch.frombuffer(bytearray(content), dtype=torch.uint8))}
        for content, load in shares[td.get_rank()]
    ]
    loader = BalancedLoader(
        packs,
        balancer=LPT(),
        grid=Grid(len(shares), n_micro_steps=2, counts=Counts.FREE),
        loads=lambda pack: pack["load"],
        packs_per_cell=2,
        timeout=20,
        **(options or {}),  # type: ignore[arg-type]
    )
    found: Came = []
    for batch in loader:
        look()
        found += [
            (pack_id.rank, pack_id.number, as_bytes(pack["tree"]))
            for pack, pack_id in zip(batch.packs, batch.ids, strict=True)
            if pack_id is not None
        ]
    loader.close()
    return found


def check_bits(n: int, run: Callable[[Shares], list[Came]]) -> None:
    """``run`` must deliver every pack of random shares of ``n`` ranks once, with its bytes."""
    packs = st.builds(lambda tree, load: Sent(as_bytes(tree), load), trees, st.integers(0, 100))

    @settings(max_examples=5)
    @given(st.lists(st.lists(packs, max_size=9), min_size=n, max_size=n))
    def check(shares: Shares) -> None:
        found = [each for own in run(shares) for each in own]
        expected = [(rank, i, sent.content) for rank, share in enumerate(shares) for i, sent in enumerate(share)]
        assert sorted(found) == sorted(expected)

    check()


@pytest.mark.parametrize("n", [2, 3, 4])
def test_what_is_delivered_is_what_was_loaded_bit_by_bit(ranks: Ranks, n: int) -> None:
    check_bits(n, lambda shares: ranks.run(deliver, shares, n=n))
