"""Messages, routes, and bytes between ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.distributed as td
from hypothesis import given
from hypothesis import strategies as st

from dist import RankDisagreement
from dist.agreement import MessageFormat, Offer
from dist.exchange import Route, route_of
from dist.transport import HostTransport
from packing.arrays import Int64
from tests.ranks import Ranks

FORMAT = MessageFormat(n_ranks=3, packs_per_rank=4, n_stages=2, n_amounts=1)


def offer(n: int, rank: int) -> Offer:
    return Offer(
        [(rank, i) for i in range(n)],
        [(10 * rank + i,) for i in range(n)],
        [64 * i for i in range(n)],
        [128 * i for i in range(n)],
        [*range(n)],
        n > 0,
    )


@given(st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_every_rank_reads_what_each_offered(counts: list[int]) -> None:
    messages = np.stack([FORMAT.message(offer(n, rank), 2, 7) for rank, n in enumerate(counts)])
    assert messages.shape == (3, FORMAT.length)
    table = FORMAT.table(messages)
    pairs = [(rank, i) for rank, n in enumerate(counts) for i in range(n)]
    assert table.counts.tolist() == counts
    assert [*zip(table.home_rank.tolist(), table.place.tolist(), strict=True)] == pairs
    assert table.loads.tolist() == [[rank, i] for rank, i in pairs]
    assert table.amounts.ravel().tolist() == [10 * rank + i for rank, i in pairs]
    assert table.n_bytes.tolist() == [64 * i for _, i in pairs]
    assert table.n_tensor_bytes.tolist() == [128 * i for _, i in pairs]
    assert table.index.tolist() == [i for _, i in pairs]
    assert table.has_dummy.tolist() == [int(n > 0) for n in counts]


def test_headers_that_differ_are_named() -> None:
    messages = np.stack([FORMAT.message(offer(1, rank), 2, 7 + (rank == 1)) for rank in range(3)])
    with pytest.raises(RankDisagreement, match=r"step is 7 on rank 0 and 8 on rank 1\. Nothing was moved"):
        FORMAT.table(messages)


@given(st.integers(1, 5), st.integers(1, 100), st.data())
def test_rounds_cover_every_byte_once_and_none_is_large(n_ranks: int, chunk: int, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 500), min_size=n_ranks**2, max_size=n_ranks**2))
    matrix = np.reshape(np.array(sizes, dtype=np.int64), (n_ranks, n_ranks))
    none = np.zeros(0, dtype=np.int64)
    at = np.zeros_like(matrix)
    for start, stop in Route(none, none, none, none, matrix).rounds(chunk):
        assert np.array_equal(start, at)
        at = stop
        moved = stop - start
        assert max(moved.sum(axis=0).max(), moved.sum(axis=1).max()) <= chunk + n_ranks  # each pair rounds up by one
    assert np.array_equal(at, matrix)


def bare(seed: int, chunk: int) -> bool:
    """Exchange random bytes along random routes; every byte must be that of its pack."""
    n_ranks, rank = td.get_world_size(), td.get_rank()
    transport = HostTransport(list(range(n_ranks)), "only", chunk)
    for trial in range(20):
        rng = np.random.default_rng((seed, trial))
        n = int(rng.integers(0, 9))
        n_bytes = rng.integers(0, 300, n)
        source, target = rng.integers(0, n_ranks, n), rng.integers(0, n_ranks, n)
        if trial % 3 == 0:
            target[:] = 0  # ranks that receive nothing, and send nothing
            source[:] = n_ranks - 1
        content: list[Int64] = [rng.integers(0, 256, size) for size in n_bytes]
        route = route_of(np.arange(n), source, target, n_bytes, n_ranks)
        sent = [content[pack] for pack in route.sent(rank)]
        out = torch.from_numpy(np.concatenate([*sent, np.zeros(0, np.int64)]).astype(np.uint8))
        arrived = torch.empty(route.received_bytes(rank), dtype=torch.uint8)
        transport.exchange(out, arrived, route)
        expected = [content[pack] for pack in route.received(rank)]
        assert np.array_equal(arrived.numpy(), np.concatenate([*expected, np.zeros(0, np.int64)]))
        gathered = transport.gather(np.array([rank, trial]))
        assert gathered.tolist() == [[each, trial] for each in range(n_ranks)]
    transport.close()
    transport.close()
    return True


@pytest.mark.parametrize("chunk", [64 << 20, 100], ids=["whole", "chunked"])
@pytest.mark.parametrize("n", [2, 3])
def test_bytes_arrive_where_the_route_says(ranks: Ranks, n: int, chunk: int) -> None:
    assert ranks.run(bare, n, chunk, n=n) == [True] * n
