"""Errors travel between processes, attributes included."""

from __future__ import annotations

import pickle

import pytest

import balancers
import dist
import experiments
import packing
from balancers.testing import CheckFailed
from dist import CannotCarry, ExchangeError
from packing import EvenstepError, MissingExtra, Oversized

ERRORS = [
    Oversized("too long", 3, "tokens", 9, 8),
    MissingExtra("not there", "test"),
    CheckFailed("wrong", "same_again"),
    CannotCarry("no", "pack[0]"),
    *(error("lost", (3,), 812, "plan") for error in ExchangeError.__subclasses__()),
    *(
        error("text")
        for package in (packing, balancers, dist, experiments)
        for name in package.__all__
        if isinstance(error := getattr(package, name), type)
        and issubclass(error, EvenstepError)
        and not issubclass(error, (Oversized, MissingExtra, CannotCarry, ExchangeError))
    ),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: EvenstepError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert isinstance(again, ValueError | RuntimeError | ImportError | OSError | AssertionError | EvenstepError)
