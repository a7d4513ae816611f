"""The plotted step is a typical one, and the picture depends on the figures alone."""

import numpy as np

from balancers import LPT, Linear, RoundRobin
from experiments import Compare, Comparison, compare_balancers, draw_loads
from experiments.plot import typical_step
from packing import NextFit, Samples


def comparison(image_tokens: list[int]) -> Comparison:
    config = Compare(
        packer=NextFit(),
        capacity=100,
        n_ranks=2,
        n_micro_steps=1,
        cost=Linear(image_tokens=1),
        balancers=(RoundRobin(), LPT()),
    )
    return compare_balancers(config, Samples([100] * len(image_tokens), {"image_tokens": image_tokens}))


def test_the_typical_step_has_the_median_waste() -> None:
    result = comparison([*range(1, 15)])  # 7 steps of 2 packs
    waste = [RoundRobin().plan(problem).waste for problem in result.dealt.problems(result.config)]
    assert RoundRobin().plan(typical_step(result)).waste == np.median(waste)


def test_the_same_figures_give_the_same_picture() -> None:
    assert draw_loads(comparison([9, 1, 5, 5])) == draw_loads(comparison([9, 1, 5, 5]))


def test_zero_loads_can_be_drawn() -> None:
    assert draw_loads(comparison([0, 0]))
