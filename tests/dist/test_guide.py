"""The blocks of docs/executor.md, on two ranks, do what the text beside them says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as td
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from balancers import LPT, Grid
from dist import BalancedLoader
from tests.documents import run
from tests.ranks import Ranks

GUIDE = "docs/executor.md"
COUNTS = (13, 10)  # packs of each rank: two steps of eight micro-steps, the second one with dummies


class Regression(nn.Module):
    """The squared error of each token of a pack."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.linear = nn.Linear(4, 1).double()

    def forward(self, pack: dict[str, Any]) -> torch.Tensor:
        error: torch.Tensor = self.linear(pack["features"]) - 1
        return error.square()


def packs_of(rank: int) -> list[dict[str, Any]]:
    rng = torch.Generator().manual_seed(rank)
    sizes = torch.randint(1, 9, (COUNTS[rank],), generator=rng).tolist()
    return [
        {"tokens": n, "image_tokens": n // 2, "features": torch.randn(n, 4, generator=rng, dtype=torch.float64)}
        for n in sizes
    ]


def weights(model: nn.Module) -> list[float]:
    return [float(number) for each in model.parameters() for number in each.detach().flatten()]


def ten_lines() -> list[float]:
    model = DistributedDataParallel(Regression())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    names = run(GUIDE, "Ten lines", packs=packs_of(td.get_rank()), model=model, optimizer=optimizer)
    names["loader"].close()
    return weights(model)


def test_ten_lines_train_as_one_process_that_sees_all_packs(ranks: Ranks) -> None:
    model = Regression()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(2):
        packs = [pack for rank in range(2) for pack in packs_of(rank)[8 * step : 8 * step + 8]]
        loss = sum(model(pack).sum() for pack in packs) / sum(pack["tokens"] for pack in packs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    for found in ranks.run(ten_lines):
        assert found == pytest.approx(weights(model), rel=1e-12)


def test_metrics_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(GUIDE, "Metrics", BalancedLoader=BalancedLoader, packs=range(5), balancer=LPT(), grid=Grid(1), loads=int)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["steps.parquet", "trace.json"]
    assert (tmp_path / "trace.json").read_text().count('"name": "wait"') == 5


def from_a_sampler() -> list[list[int]]:
    tokens = torch.randint(1, 3_000, (500,), generator=torch.Generator().manual_seed(0)).tolist()
    seen: list[list[int]] = []

    def join(samples: list[int]) -> None:
        seen.append(samples)

    half = [n // 2 for n in tokens]
    run(GUIDE, "Samplers", tokens=tokens, image_tokens=half, epoch=1, dataset=list(range(500)), join=join)
    return seen


def test_a_sampler_gives_ranks_equally_many_packs_of_different_samples(ranks: Ranks) -> None:
    first, second = ranks.run(from_a_sampler)
    assert len(first) == len(second) > 0
    samples = [sample for pack in (*first, *second) for sample in pack]
    assert len(samples) == len(set(samples))
