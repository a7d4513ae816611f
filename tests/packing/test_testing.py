"""The kit holds on all packers, catches every way of being broken, and says which property failed on what."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from packing import (
    PACKERS,
    BestFitDecreasing,
    EvenPacking,
    Exact,
    FirstFitDecreasing,
    NextFit,
    Packer,
    ShortestPackFirst,
    WorstFitDecreasing,
)
from packing.replay import CONDITIONS, answers_under
from packing.testing import FAMILIES, Case, CheckFailed, cases, check_packer, checks, large_cases

from .broken import BROKEN

SHORT = {"Exact": Exact(limit=0.01)}
OURS = [SHORT[name] if name in SHORT else PACKERS.get(name)() for name in PACKERS.names()]
ELSEWHERE = "same_in_any_process"  # one process per condition for all packers, below


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{packer!r}-{name}")
        for packer in (*OURS, EvenPacking(("image_tokens",), rounds=3))
        for name, check in checks(packer, max_examples=10)
        if name != ELSEWHERE
    ],
)
def test_conformance(name: str, check: Any) -> None:
    check()


def digest(case: tuple[Packer, Case]) -> str:
    packer, (samples, limits) = case[0], (case[1].samples, case[1].limits)
    return packer.pack(samples, limits).digest()


def test_all_packers_pack_alike_in_any_process() -> None:
    asked = [(packer, case) for packer in OURS for case in [*large_cases(packer).values()][:4]]
    here = [digest(case) for case in asked]
    assert len(asked) == 4 * len(OURS)
    assert answers_under(CONDITIONS, digest, asked) == [here] * len(CONDITIONS)


def many(n_samples: int, packer: Packer) -> str:
    rng = np.random.default_rng(1)
    return packer.pack(FAMILIES["heavy_tail"](rng, n_samples, 8192), 8192).digest()


def test_600_000_samples_are_packed_alike_whatever_the_number_of_threads() -> None:
    packers = [
        NextFit(),
        FirstFitDecreasing(),
        BestFitDecreasing(),
        WorstFitDecreasing(),
        ShortestPackFirst(),
        EvenPacking(rounds=0),
    ]
    pack = partial(many, 600_000)
    here = [pack(packer) for packer in packers]
    threads = [condition for condition in CONDITIONS if "NUMBA_NUM_THREADS" in dict(condition.environment)]
    assert answers_under(threads, pack, packers) == [here, here]


@pytest.mark.parametrize(("packer", "check"), BROKEN.items(), ids=str)
def test_broken_packers_are_caught_by_the_right_check(packer: Packer, check: str) -> None:
    with pytest.raises(CheckFailed, match=f"fails {check}") as caught:
        check_packer(packer, max_examples=20)
    assert caught.value.check == check
    assert repr(packer) in str(caught.value)


def test_a_failure_names_the_smallest_case() -> None:
    with pytest.raises(CheckFailed) as caught:
        check_packer(next(iter(BROKEN)))  # drops a piece: the smallest case has one
    assert str(caught.value) == (
        "DropsAPiece() fails packs_numbered on Samples([1], {}), Limits(capacity=1): there must be a pack for each of "
        "1 pieces; got shape (0,)"
    )


@given(cases(("image_tokens", "tokens_squared")))
def test_drawn_cases_have_the_columns_asked_for(case: Case) -> None:
    assert len(case.samples.columns["image_tokens"]) == len(case.samples)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_families_are_lengths_within_the_capacity(family: str, n: int) -> None:
    lengths = FAMILIES[family](np.random.default_rng(0), n, 100)
    assert lengths.shape == (n,)
    assert np.array_equal(lengths.clip(1, 100), lengths)
    assert np.array_equal(lengths, FAMILIES[family](np.random.default_rng(0), n, 100))
