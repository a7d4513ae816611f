"""From contents to microseconds, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from balancers import Linear
from packing import InvalidParameter, NextFit, Samples


def test_the_vision_encoder_of_the_report() -> None:
    """60 ms + 0.28 ms per image token: 900 ms at 3,000 and 200 ms at 500."""
    encoder = Linear(fixed_us=60_000, image_tokens=280)
    assert encoder.loads({"image_tokens": np.array([3000, 500, 0])}).tolist() == [900_000, 200_000, 60_000]
    assert repr(encoder) == "Linear(fixed_us=60000, image_tokens=280)"
    assert encoder == Linear(fixed_us=60_000, image_tokens=280) != Linear(fixed_us=60_000)


def test_fractions_of_a_microsecond_round_once_at_the_end() -> None:
    line = Linear(fixed_us=0.25, tokens=0.1, packs=1)
    assert line.loads({"tokens": np.array([2, 3, 10]), "packs": np.array([1, 1, 1])}).tolist() == [1, 2, 2]


def test_loads_of_a_packing() -> None:
    packing = NextFit().pack(Samples([5, 5, 5], {"image_tokens": [4, 0, 1]}), 10)
    assert Linear(10, image_tokens=2, samples=100).loads(packing.sums()).tolist() == [10 + 8 + 200, 10 + 2 + 100]
    assert Linear(1).loads(NextFit().pack([], 10).sums()).tolist() == []


def test_bad_coefficients_and_amounts() -> None:
    with pytest.raises(InvalidParameter, match=r"Linear\(image_tokens=...\) must be a finite number >= 0 .* got -1"):
        Linear(image_tokens=-1)
    with pytest.raises(InvalidParameter, match="got nan"):
        Linear(float("nan"))
    with pytest.raises(InvalidParameter, match="got '3'"):
        Linear("3")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match='coefficient for "pixels"; the packs have tokens'):
        Linear(pixels=1).loads({"tokens": np.array([1])})
    with pytest.raises(InvalidParameter, match="needs the amounts"):
        Linear(1).loads({})
    with pytest.raises(InvalidParameter, match=r"the largest load is about 1000000000000000000000 us"):
        Linear(tokens=1e12).loads({"tokens": np.array([10**9])})
