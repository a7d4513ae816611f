"""Arguments and loads that a loader cannot use are refused by name, with value and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pytest
import torch

from balancers import ILP, LPT, Barrier, Grid, Infeasible
from dist import CannotWrap, InvalidLoader
from tests.ranks import Ranks

from .jobs import alone, told_of_groups


def test_a_source_that_communicates_is_refused() -> None:
    class DataLoaderShard:
        def __iter__(self) -> Iterator[int]:
            return iter([1])

    with pytest.raises(CannotWrap, match="a DataLoaderShard was prepared by accelerate"):
        alone(DataLoaderShard())
    balanced = alone([1])
    for packs in (balanced, iter(balanced)):
        with pytest.raises(CannotWrap, match=r"packs come from a BalancedLoader, .*\. Wrap what it wraps\."):
            alone(packs)
    with pytest.raises(CannotWrap, match="packs must be iterable; got int"):
        alone(3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"grid": Grid(2)},
            "the grid has 2 ranks, but torch.distributed is not initialised: call init_process_group first, or use "
            "Grid(1).",
        ),
        (
            {"grid": Grid(1, n_steps=3)},
            f"a loader acts on one step at a time; got {Grid(1, n_steps=3)!r}. Use n_steps=1.",
        ),
        ({"balancer": "lpt"}, "balancer must be a Balancer; got 'lpt'. BALANCERS.parse makes one of a text."),
        ({"balancer": LPT}, f"balancer must be a Balancer; got {LPT!r}. BALANCERS.parse makes one of a text."),
        ({"loads": {"load": 3}}, "loads must be a function of a pack; got {'load': 3}."),
        ({"on_step": 3}, "on_step must be a function of a StepRecord, or None; got 3."),
        ({"packs_per_cell": 0}, f"packs_per_cell must be in [1, {2**62 - 1}]; got 0."),
        ({"packs_per_cell": 1.0}, "packs_per_cell must be an integer; got 1.0 (float)."),
        ({"depth": 0}, f"depth must be in [1, {2**62 - 1}]; got 0."),
        ({"amounts": "tokens"}, "amounts must be a sequence of names; got the string 'tokens'. Write ['tokens']."),
        ({"amounts": 3}, "amounts must be a list or tuple of names; got 3."),
        ({"amounts": [["tokens"]]}, "amounts must be a list or tuple of names; got [['tokens']]."),
        ({"amounts": {"tokens"}}, "amounts must be a list or tuple of names; got {'tokens'}."),
        ({"caps": 0}, "caps must map names of amounts to their most in a cell; got 0."),
        ({"caps": {3: 4}}, "caps must map names of amounts to their most in a cell; got {3: 4}."),
        ({"overlap": "no"}, "overlap must be True or False; got 'no'."),
        ({"timeout": True}, "timeout must be above 0 s, as a number; got True."),
        (
            {"group": "data"},
            "group is 'data', but torch.distributed is not initialised: call init_process_group first, or leave group "
            "out.",
        ),
        ({"device": 10**30}, f'device must be "cpu" or "cuda"; got \'{10**30}\'. Move packs there after delivery.'),
        (
            {"mode": np.array(["off", "on"])},
            "mode must be one of 'off', 'shadow', 'balance'; got array(['off', 'on'], dtype='<U3').",
        ),
        ({"caps": [("tokens", 3)]}, "caps must map names of amounts to their most in a cell; got [('tokens', 3)]."),
        ({"caps": {"tokens": -1}}, f"caps['tokens'] must be in [0, {2**62 - 1}]; got -1."),
        (
            {"caps": {"load": 5}, "amounts": ["packs"]},
            "amounts and caps must not be named ['load', 'packs'], as stages or totals are. Rename them.",
        ),
        ({"mode": "on"}, "mode must be one of 'off', 'shadow', 'balance'; got 'on'."),
        ({"mode": ["on"]}, "mode must be one of 'off', 'shadow', 'balance'; got ['on']."),
        ({"at_end": "drop"}, "at_end must be one of 'pad', 'min', 'carry'; got 'drop'."),
        ({"timeout": 0}, "timeout must be above 0 s, as a number; got 0."),
        ({"timeout": float("nan")}, "timeout must be above 0 s, as a number; got nan."),
        (
            {"timeout": timedelta(minutes=5)},
            "timeout must be above 0 s, as a number; got datetime.timedelta(seconds=300).",
        ),
        ({"device": 1.5}, 'device must be "cpu" or "cuda"; got \'1.5\'. Move packs there after delivery.'),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidLoader, match=f"^{re.escape(text)}$"):
        alone([1], **options)


def test_what_is_no_group_is_named(ranks: Ranks) -> None:
    """Also where it is false, as the number of a rank may be."""
    told = "group must be a process group of this job, or None; got {!r}. A DeviceMesh gives it by get_group()."
    assert ranks.run(told_of_groups, [0, "", "data"], n=1) == [[told.format(each) for each in (0, "", "data")]]


@pytest.mark.parametrize("mode", ["off", "shadow", "balance"])
def test_counts_that_no_full_step_can_meet_are_refused_at_once(mode: str) -> None:
    with pytest.raises(Infeasible, match="3 packs do not fit in 1 x 1 cells of 1 to 2 packs each"):
        alone([1], grid=Grid(1, counts=(1, 2)), packs_per_cell=3, mode=mode)


def test_wrong_loads_are_named() -> None:
    for loads, text in (
        (lambda pack: -1, r"loads\(pack 0\)\['load'\] must be in .*; got -1"),
        (lambda pack: 1.5, r"loads\(pack 0\)\['load'\] must be an integer; got 1.5"),
        (lambda pack: 2.0, r"must be an integer; got 2.0 \(float\). Loads and amounts are whole numbers >= 0: round"),
        (lambda pack: torch.tensor(2.0), r"must be an integer; got tensor\(2.\) \(Tensor\)"),
        (lambda pack: True, r"must be an integer; got True \(bool\)"),
        (lambda pack: torch.tensor(True), r"must be an integer; got tensor\(True\) \(Tensor\)"),
        (lambda pack: np.array(True), r"must be an integer; got array\(True\) \(ndarray\)"),
        (lambda pack: torch.tensor([1, 2]), r"must be an integer; got tensor\(\[1, 2\]\) \(Tensor\)"),
        (lambda pack: {"cost": 1}, r"loads\(pack 0\) must hold \['load'\]; it has \['cost'\]"),
        (lambda pack: (1, 2), r"must give one value per stage \('load',\); got \(1, 2\)"),
        (lambda pack: next(iter(())), r"loads\(pack 0\) raised StopIteration; it must return a value for every pack"),
    ):
        with pytest.raises(InvalidLoader, match=text):
            list(alone([1], loads=loads))


@pytest.mark.parametrize(
    "load", [np.int32(3), np.array(3), torch.tensor(3), torch.tensor(3, dtype=torch.uint8)], ids=repr
)
def test_loads_are_integers_of_any_kind(load: object) -> None:
    batches = list(alone([1, 2], loads=lambda pack: {"load": load, "tokens": load}, amounts=["tokens"]))
    assert [batch.totals for batch in batches] == [{"packs": 1, "tokens": 3}] * 2


def test_a_balancer_that_refuses_only_large_loads_serves_small_ones() -> None:
    """ILP takes sums below 2**30 where ranks wait for each other several times in a step."""
    loader = alone([1, 2, 3, 4], balancer=ILP(limit=0), grid=Grid(1, n_micro_steps=2, barrier=Barrier.MICRO_STEP))
    assert [batch.pack for batch in loader] == [1, 2, 3, 4]
