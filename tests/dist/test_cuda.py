"""The same on GPUs. One is enough for transport "host" with two ranks; NCCL wants one for each."""

from __future__ import annotations

import pytest
import torch

from tests.ranks import Ranks

from .devices import sent_to_itself
from .on_cuda import allocation, bit_exact, contexts_elsewhere

N_GPUS = torch.cuda.device_count()
pytestmark = [pytest.mark.cuda, pytest.mark.skipif(N_GPUS == 0, reason="torch finds no GPU")]
TRANSPORT = pytest.mark.parametrize(
    "transport",
    [
        "host",
        pytest.param("device", marks=pytest.mark.skipif(N_GPUS < 2, reason="NCCL needs a GPU for each of two ranks")),
    ],
)


@TRANSPORT
@pytest.mark.parametrize("mode", ["balance", "off"])
@pytest.mark.parametrize("overlap", [True, False], ids=["beside", "inline"])
@pytest.mark.parametrize("resident", [True, False], ids=["resident", "on-host"])
def test_what_arrives_has_the_bytes_that_left(
    ranks: Ranks, transport: str, mode: str, overlap: bool, resident: bool
) -> None:
    came = ranks.run(bit_exact, transport, mode, overlap, resident, 40, timeout=120)
    assert sorted(each for of_rank in came for each in of_rank) == [(r, i) for r in (0, 1) for i in range(40)]


@pytest.mark.parametrize("transport", ["host", "device"])
def test_one_rank_alone_gets_its_own_packs(ranks: Ranks, transport: str) -> None:
    (came,) = ranks.run(bit_exact, transport, "balance", True, False, 20, n=1, timeout=120)
    assert came == [(0, i) for i in range(20)]


@TRANSPORT
def test_memory_is_flat_over_exchanges_of_random_sizes(ranks: Ranks, transport: str) -> None:
    for before, after in ranks.run(allocation, transport, 50, 300, timeout=250):
        assert after.reserved <= before.reserved * 1.1
        assert after.reserved <= 2 * after.most_allocated


def test_nccl_sends_from_one_rank_to_itself_on_one_gpu(ranks: Ranks) -> None:
    """The calls that "device" makes, right and flat, where there is no second GPU to send to."""
    ((wrong, reserved),) = ranks.run(sent_to_itself, "cuda:0", 50, 300, 64 << 20, n=1, timeout=120)
    assert wrong == 0
    assert max(reserved) <= reserved[0] * 1.1


@pytest.mark.skipif(N_GPUS < 2, reason="needs a second GPU")
@TRANSPORT
def test_a_rank_touches_its_own_gpu_alone(ranks: Ranks, transport: str) -> None:
    assert ranks.run(contexts_elsewhere, transport, timeout=120) == [[0] * (N_GPUS - 1)] * 2
