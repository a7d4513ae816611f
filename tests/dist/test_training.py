"""What training sees: gradients that do not depend on the plan, calls that are as many on every rank, no deadlock."""

from __future__ import annotations

import numpy as np
import pytest

from balancers import LPT, Counts, RoundRobin
from tests.ranks import Ranks

from .training import alone, full_mesh, many_sizes, one_kind_per_step, together, without_objects

OPTIONS: list[dict[str, object]] = [
    {"mode": "off", "packs_per_cell": 1},
    {"mode": "balance", "packs_per_cell": 1},
    {"mode": "balance", "packs_per_cell": 1, "balancer": RoundRobin(), "overlap": False},
    {"mode": "balance", "packs_per_cell": 4, "n_micro_steps": 2, "balancer": LPT(), "counts": Counts.WITHIN_ONE},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(str(value) for value in each.values()))
def test_gradients_under_ddp_are_those_of_one_process(ranks: Ranks, options: dict[str, object]) -> None:
    """Nine samples of one to five tokens on two ranks, five and four: a mean of means would differ."""
    expected = alone({"text": 9})
    for each in ranks.run(together, {"text": [5, 4]}, options):
        for own, right in zip(each.gradients, expected, strict=True):
            assert np.allclose(own, right, rtol=1e-12, atol=0)


def test_every_rank_calls_the_model_as_often_for_every_kind(ranks: Ranks) -> None:
    """Images on ranks 0 and 1: 3 and 1; videos: 1 and 0. Rank 1 runs a dummy of the video, which does not count."""
    first, second = ranks.run(together, {"image": [3, 1], "video": [1, 0]}, {"packs_per_cell": 1})
    assert first.calls == second.calls == {(0, "image"): 1, (1, "image"): 1, (2, "image"): 1, (0, "video"): 1}
    assert first.dummies + second.dummies == 3
    for own, right in zip(first.gradients, alone({"image": 4, "video": 1}), strict=True):
        assert np.allclose(own, right, rtol=1e-12, atol=0)


def test_each_step_has_one_kind_of_packs_on_all_ranks(ranks: Ranks) -> None:
    """Five image packs and three text packs on four ranks: three steps, each of one kind on all ranks, four dummies."""
    told = ranks.run(one_kind_per_step, [2, 1, 1, 1], [1, 1, 1, 0], n=4)
    assert {tuple(kind for kind, _, _ in each) for each in told} == {("image", "image", "text")}
    assert [sum(packs for _, packs, _ in step) for step in zip(*told, strict=True)] == [4, 1, 3]
    assert sum(dummies for each in told for _, _, dummies in each) == 4


def test_packs_of_all_sizes_travel_beside_the_collectives_of_training(ranks: Ranks) -> None:
    for moved in ranks.run(many_sizes, 100, n=4):
        assert len(moved) == 400
        assert sum(moved) > 100


def test_a_full_mesh_of_packs_in_any_order(ranks: Ranks) -> None:
    senders = np.array(ranks.run(full_mesh, 100, n=4))
    assert senders.sum(axis=0).tolist() == [100] * 4
    assert (senders > 0).all()


def test_nothing_is_pickled_to_travel(ranks: Ranks) -> None:
    assert ranks.run(without_objects) == [500, 500]
