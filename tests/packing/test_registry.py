"""Algorithms by name and by text."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from unittest.mock import patch

import pytest

from balancers import BALANCERS, LPT
from packing import PACKERS, BestFitDecreasing, InvalidName, InvalidParameter, NextFit, Packer, Pieces
from packing.arrays import Int32
from packing.registry import snake_case


@dataclass(frozen=True)
class Outer(Packer):
    """A packer with every kind of parameter."""

    inner: Packer = NextFit()
    several: tuple[Packer, ...] = ()
    limit: int | None = None
    name: str = "a, (b)"

    def group(self, pieces: Pieces) -> Int32:
        return self.inner.group(pieces)


@pytest.mark.parametrize("name", PACKERS.names())
def test_every_packer_is_known_by_two_names_and_by_its_text(name: str) -> None:
    packer = PACKERS.get(name)()
    assert PACKERS.get(snake_case(name)) is type(packer)
    assert PACKERS.parse(repr(packer)) == PACKERS.parse(snake_case(name)) == packer


def test_nested_texts_parse() -> None:
    packer = Outer(Outer(BestFitDecreasing(), limit=3), (NextFit(), Outer()), None, "it's")
    assert PACKERS.parse(repr(packer), known=[Outer]) == packer
    assert PACKERS.parse(" Outer( limit = 7 ) ", known=[Outer]) == Outer(limit=7)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("karmakar_karp", 'no balancer "karmakar_karp"; did you mean "karmarkar_karp"? Known: Auto, '),
        ("KarmakarKarp", 'no balancer "KarmakarKarp"; did you mean "KarmarkarKarp"? Known: Auto, '),
        ("float", 'no balancer "float". Known: Auto, '),
        ("LPT({[1]})", '"{[1]}" is no literal and no call'),
        ("LPT(", "cannot read the balancer"),
        ("LPT(3)", r'cannot build "LPT(3)"'),
        ("LPT(x=print)", '"print" is no literal and no call'),
        ("LPT(**{})", '"**" cannot be used'),
        ("os.system('x')", '"os.system" is no name of a balancer'),
        ("__import__('os')", 'no balancer "__import__".'),
        ("", "cannot read the balancer"),
        ("7", '"7" is no balancer'),
    ],
)
def test_a_bad_text_is_an_error_that_helps(text: str, error: str) -> None:
    with pytest.raises(InvalidName) as caught:
        BALANCERS.parse(text)
    assert error in str(caught.value)


def test_plug_ins_are_found_and_checked() -> None:
    points = [
        EntryPoint("Mine", "tests.packing.test_registry:Outer", "evenstep.packers"),
        EntryPoint("NextFit", "tests.packing.test_registry:Outer", "evenstep.packers"),
        EntryPoint("Wrong", "balancers.lpt:LPT", "evenstep.packers"),
        EntryPoint("Gone", "tests.packing.nowhere:Gone", "evenstep.packers"),
        EntryPoint("Renamed", "tests.packing.test_registry:Renamed", "evenstep.packers"),
    ]
    with patch("importlib.metadata.entry_points", return_value=points):
        assert PACKERS.get("mine") is Outer
        assert PACKERS.get("NextFit") is NextFit  # ours cannot be replaced
        with pytest.raises(InvalidName, match=r'entry point "Wrong" of evenstep\.packers names'):
            PACKERS.get("Wrong")
        for name, error in (("Gone", "ModuleNotFoundError: No module"), ("Renamed", "AttributeError: module")):
            with pytest.raises(InvalidName, match=f'entry point "{name}" of .* cannot be loaded: {error}'):
                PACKERS.get(name)
        assert "Mine" in PACKERS.names()


def test_parameters_are_plain() -> None:
    with pytest.raises(InvalidParameter, match=r"Outer.limit must be an int, .* got \[3\]"):
        Outer(limit=[3])  # type: ignore[arg-type]
    assert hash(Outer()) == hash(Outer())
    assert Outer(inner=NextFit()) != Outer(inner=BestFitDecreasing())
    assert LPT() == LPT()
