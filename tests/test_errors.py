"""Errors travel between processes, attributes included."""

from __future__ import annotations

import pickle

import pytest

import balancers
import experiments
import packing
from balancers.testing import CheckFailed
from packing import EvenstepError, MissingExtra, Oversized

ERRORS = [
    Oversized("too long", 3, "tokens", 9, 8),
    MissingExtra("not there", "test"),
    CheckFailed("wrong", "same_again"),
    *(
        error("text")
        for package in (packing, balancers, experiments)
        for name in package.__all__
        if isinstance(error := getattr(package, name), type)
        and issubclass(error, EvenstepError)
        and error not in (Oversized, MissingExtra)
    ),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: EvenstepError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert isinstance(again, ValueError | RuntimeError | ImportError | OSError | AssertionError | EvenstepError)
