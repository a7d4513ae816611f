"""Mixtures: shares, honesty at the end of a source, and exact resumption."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import Drawn, InvalidParameter, Mixture


def finite(n: int) -> Callable[[int], Iterable[int]]:
    """The numbers 0 to n - 1 from any of them on."""
    return lambda skip: range(skip, n)


def endless(skip: int) -> Iterable[int]:
    return count(skip)


def test_shares_are_the_weights() -> None:
    mixture = Mixture({"a": endless, "b": endless}, {"a": 3, "b": 1})
    names = [drawn.source for drawn in islice(mixture, 10_000)]
    assert 7_300 < names.count("a") < 7_700
    assert Drawn("a", 5, 5) in list(islice(Mixture({"a": endless, "b": endless}, {"a": 3, "b": 1}), 20))


@given(lengths=st.lists(st.integers(0, 8), min_size=1, max_size=4), seed=st.integers(0, 9), stop=st.integers(0, 30))
def test_every_item_comes_once_in_order_and_a_stop_changes_nothing(lengths: list[int], seed: int, stop: int) -> None:
    sources = {str(k): finite(n) for k, n in enumerate(lengths)}
    weights = {name: k + 1 for k, name in enumerate(sources)}
    mixture = Mixture(sources, weights, seed)
    items = list(mixture)
    for name, n in zip(sources, lengths, strict=True):
        assert [drawn.item for drawn in items if drawn.source == name] == list(range(n))
    assert sorted(mixture.ended) == sorted(sources)
    first, second = Mixture(sources, weights, seed), Mixture(sources, weights, seed)
    before = list(islice(first, stop))
    second.load_state_dict(first.state_dict())
    assert before + list(second) == items


def test_the_order_in_which_sources_are_found_changes_nothing() -> None:
    """As files of a folder are."""
    sources, weights = {"b": finite(9), "a": finite(5), "c": finite(7)}, {"c": 2, "a": 1, "b": 3}
    turned = dict(reversed(sources.items())), dict(reversed(weights.items()))
    assert list(Mixture(sources, weights, 7)) == list(Mixture(*turned, 7))
    states = Mixture(sources, weights, 7).state_dict(), Mixture(*turned, 7).state_dict()
    assert states[0] == states[1]


def test_a_source_that_ends_leaves_the_others_in_their_order() -> None:
    """The draws of the others are the same whatever the items are, until one of them ends."""
    mixture = Mixture({"a": finite(2), "b": endless, "c": endless}, {"a": 5, "b": 1, "c": 1})
    names = [drawn.source for drawn in islice(mixture, 2_000)]
    assert names.count("a") == 2
    assert mixture.ended == ("a",)
    assert 900 < names.count("b") < 1_100


def test_a_source_that_fails_is_asked_for_the_same_item_again() -> None:
    """Nothing is lost, and the order is that of sources that never fail."""
    fails = {3, 7}

    def flaky(skip: int) -> Iterable[int]:
        for number in range(skip, 10):
            if number in fails:
                fails.remove(number)
                raise OSError("no connection")
            yield number

    weights = {"a": 1, "b": 1}
    mixture = Mixture({"a": flaky, "b": finite(10)}, weights)
    seen: list[Drawn[int]] = []
    while len(seen) < 20:
        try:
            seen.append(next(mixture))
        except OSError:
            continue
    assert not fails
    assert seen == list(Mixture({"a": finite(10), "b": finite(10)}, weights))


class Counting:
    """A dataset that counts what is taken from it."""

    def __init__(self) -> None:
        self.taken = 0

    def __getitem__(self, index: int) -> int:
        self.taken += 1
        return index

    def since(self, skip: int) -> Iterable[int]:
        return (self[index] for index in count(skip))


def test_resuming_takes_nothing_of_what_was_seen() -> None:
    first, again = Counting(), Counting()
    whole = Mixture({"a": first.since, "b": endless}, {"a": 1, "b": 1})
    for _ in islice(whole, 10_000):
        pass
    resumed = Mixture({"a": again.since, "b": endless}, {"a": 1, "b": 1})
    resumed.load_state_dict(whole.state_dict())
    assert again.taken == 0
    assert list(islice(resumed, 20)) == list(islice(whole, 20))
    assert 0 < again.taken < 20


def test_parameters_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="got sources a and weights for b"):
        Mixture({"a": endless}, {"b": 1})
    with pytest.raises(InvalidParameter, match=r'the source "a" must be a function of .*; got \[1, 2\]'):
        Mixture({"a": [1, 2]}, {"a": 1})  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match='the weight of "a" must be in'):
        Mixture({"a": endless}, {"a": 0})
    with pytest.raises(InvalidParameter, match=r'the weight of "a" must be an integer; got 0\.5'):
        Mixture({"a": endless}, {"a": 0.5})  # type: ignore[dict-item]
    for odd, seen in (({}, "nothing"), ({"seed": 0}, "seed"), (None, "None")):
        with pytest.raises(InvalidParameter, match=f"a state has weights, seed, draws, given, ended; got {seen}"):
            Mixture({"a": endless}, {"a": 1}).load_state_dict(odd)  # type: ignore[arg-type]
    state = Mixture({"a": endless}, {"a": 1}).state_dict()
    with pytest.raises(InvalidParameter, match="seed 0; this mixture has"):
        Mixture({"a": endless}, {"a": 1}, seed=1).load_state_dict(state)
