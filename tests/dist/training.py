"""Rank processes that train a model, beside one process that sees all samples."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, cast
from unittest import mock

import numpy as np
import torch
import torch.distributed as td
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from balancers import LPT, Counts, Grid, RoundRobin
from dist import BalancedLoader

from .jobs import Pack, loader, own_packs, seeds

Gradients = list[list[float]]


class Sample(NamedTuple):
    """One to five tokens of eight features each."""

    kind: str
    tokens: int
    features: torch.Tensor


class Calls(NamedTuple):
    """What a rank did: calls of the model by (step, kind), dummies among them, and its gradients at the end."""

    calls: dict[tuple[int, str], int]
    dummies: int
    gradients: Gradients


def samples(kind: str, counts: list[int]) -> list[Sample]:
    """The samples of this rank, numbered through over all ranks."""
    rank, first = td.get_rank(), sum(counts[: td.get_rank()])
    return [sample(kind, first + i) for i in range(counts[rank])]


def sample(kind: str, number: int) -> Sample:
    rng = np.random.default_rng([number, len(kind)])
    n_tokens = int(rng.integers(1, 6))
    return Sample(kind, n_tokens, torch.from_numpy(rng.normal(size=(n_tokens, 8))))


def model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def loss_of(net: nn.Module, packs: Sequence[Sample], weights: Sequence[int]) -> torch.Tensor:
    """The sum over the tokens of all packs, in one call of the model."""
    of_token = torch.repeat_interleave(torch.tensor(weights), torch.tensor([each.tokens for each in packs]))
    loss: torch.Tensor = (net(torch.cat([each.features for each in packs]))[:, 0].square() * of_token).sum()
    return loss


def gradients(net: nn.Module) -> Gradients:
    return [cast("torch.Tensor", each.grad).flatten().tolist() for each in net.parameters()]


def alone(kinds: dict[str, int]) -> Gradients:
    """One process, every sample once; each kind's loss is its mean per token."""
    net = model()
    for kind, n in kinds.items():
        packs = [sample(kind, i) for i in range(n)]
        loss = loss_of(net, packs, [1] * n) / sum(each.tokens for each in packs)
        loss.backward()  # type: ignore[no-untyped-call]
    return gradients(net)


def together(counts: dict[str, list[int]], options: dict[str, object]) -> Calls:
    """All ranks: a loader per kind, one after the other; losses divided by what the micro-batches say is the total.

    DDP divides gradients by the ranks, so the loss is multiplied by them.
    """
    net = DistributedDataParallel(model())
    n_ranks, calls, dummies = td.get_world_size(), Counter[tuple[int, str]](), 0
    for kind, per_rank in counts.items():
        balanced = loader(samples(kind, per_rank), loads=loads_of, amounts=("tokens",), **options)  # type: ignore[arg-type]
        batches = list(balanced)
        total = sum({batch.step: batch.totals["tokens"] for batch in batches}.values())
        for batch in batches:
            loss = loss_of(net, cast("tuple[Sample, ...]", batch.packs), batch.weights) / total * n_ranks
            loss.backward()  # type: ignore[no-untyped-call]
            calls[batch.step, kind] += 1
            dummies += len(batch.weights) - sum(batch.weights)
        balanced.close()
    return Calls(dict(calls), dummies, gradients(net))


def loads_of(pack: object) -> dict[str, int]:
    assert isinstance(pack, Sample)
    return {"load": pack.tokens, "tokens": pack.tokens}


def many_sizes(n_steps: int) -> list[int]:
    """Sixteen packs of 1 kB to 1 MB a step travel beside an all-reduce of the training loop, ranks out of step."""
    rank, n_ranks = td.get_rank(), td.get_world_size()
    rng = random.Random(rank)
    sizes = np.random.default_rng(7).integers(1_000, 1_000_000, (n_steps, n_ranks, 4))
    packs = [torch.full((int(size),), i % 251, dtype=torch.uint8) for i, size in enumerate(sizes[:, rank].ravel())]
    balanced = loader(packs, balancer=RoundRobin(), loads=cast("object", len), packs_per_cell=4)
    moved: list[int] = []
    for batch in balanced:
        total = torch.full((1_000,), float(rank))
        td.all_reduce(total)
        assert total[0] == n_ranks * (n_ranks - 1) / 2
        for pack, pack_id in zip(batch.packs, batch.ids, strict=True):
            assert isinstance(pack, torch.Tensor)
            assert pack_id is not None
            assert len(pack) == sizes[batch.step, pack_id.rank, pack_id.number % 4]
            assert bool((pack == pack_id.number % 251).all())
            moved.append(int(pack_id.rank != rank))
        if rng.random() < 0.05:
            time.sleep(0.01 * rng.random())
    balanced.close()
    return moved


def full_mesh(n: int) -> list[int]:
    """One step of ``n`` packs of 1 B to 1 MB per rank, in another order on every rank."""
    rank = td.get_rank()
    order = np.random.default_rng(rank).permutation(n)
    sizes = (10 ** np.linspace(0, 6, n) // (1 + rank)).astype(int)[order]
    packs = [
        torch.full((int(size),), (rank + int(i)) % 251, dtype=torch.uint8) for i, size in zip(order, sizes, strict=True)
    ]
    balanced = loader(packs, loads=cast("object", len), packs_per_cell=n)
    (batch,) = balanced
    balanced.close()
    senders = Counter[int]()
    for pack, pack_id in zip(batch.packs, batch.ids, strict=True):
        assert isinstance(pack, torch.Tensor)
        assert pack_id is not None
        i = int(np.random.default_rng(pack_id.rank).permutation(n)[pack_id.number])
        assert len(pack) == int((10 ** np.linspace(0, 6, n) // (1 + pack_id.rank))[i])
        assert bool((pack == (pack_id.rank + i) % 251).all())
        senders[pack_id.rank] += 1
    return [senders[rank] for rank in range(td.get_world_size())]


def without_objects() -> int:
    """Nothing is pickled to be sent: collectives of objects are out of order, and so is pickle."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an object was about to travel")

    names = ("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list", "send_object_list")
    patches = [mock.patch.object(td, name, refuse) for name in names] + [mock.patch("pickle.dumps", refuse)]
    for each in patches:
        each.start()
    try:
        balanced = loader(own_packs([500, 500]), packs_per_cell=500)
        (batch,) = balanced
        balanced.close()
        return len(seeds(batch))
    finally:
        for each in patches:
            each.stop()


def one_kind_per_step(images: list[int], texts: list[int]) -> list[tuple[str, int, int]]:
    """Return (kind, packs, dummies) of every step."""
    found = []
    for kind, counts in (("image", images), ("text", texts)):
        balanced = BalancedLoader(
            [Pack.of(len(kind) * 1000 + i) for i in range(counts[td.get_rank()])],
            balancer=LPT(),
            grid=Grid(td.get_world_size(), counts=Counts.EQUAL),
            loads=lambda pack: pack.load,
        )
        steps = list(balanced)
        balanced.close()
        found += [(kind, sum(batch.weights), len(batch.packs) - sum(batch.weights)) for batch in steps]
    return found
