"""All that can be wrong with lengths and limits has an answer that names the place."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.typing import ArrayLike

from packing import BestFitDecreasing, InvalidLimits, InvalidSamples, Limits, Oversize, Samples, Spans


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ([3, -1], r"tokens must be >= 0; tokens\[1\] = -1\."),
        ([3.0, float("nan")], r"tokens must be finite; tokens\[1\] = nan\."),
        ([3.0, float("inf")], r"tokens must be finite; tokens\[1\] = inf\."),
        ([3.0, 4.0], r"tokens must be integers; got dtype float64: all are whole, .astype\(np.int64\) converts them"),
        ([3.0, 4.5], r"tokens must be integers; got dtype float64: tokens\[1\] = 4.5"),
        (["3"], r"tokens must be integers; got dtype <U1: tokens\[0\] = '3'"),
        ([True], r"tokens must be integers; got dtype bool: tokens\[0\] = True"),
        ([None], r"tokens must be integers; tokens\[0\] = None"),
        ([1, None], r"tokens must be integers; tokens\[1\] = None"),
        ([[1, 2]], r"tokens must be 1-dimensional; got shape \(1, 2\). Lengths are counts"),
        (3, r"tokens must be 1-dimensional; got shape \(\) \(int\)"),
        (iter([3]), r"tokens must be 1-dimensional; got shape \(\) \(list_iterator\)"),
        ([[1], [2, 3]], r"tokens must be a rectangular array of integers; .*[^.]\. Lengths are counts"),
        ([2**62], rf"tokens must be <= {2**62 - 1}; tokens\[0\] = {2**62}"),
        ([2**70], rf"tokens must be <= {2**62 - 1}; tokens\[0\] = {2**70}"),
        (np.array([2**63], dtype=np.uint64), "tokens must be <="),
        ([2**61, 2**61], rf"the sum of tokens must be below 2\*\*62; it is {2**62}"),
    ],
)
def test_bad_lengths_are_refused_with_their_place(tokens: ArrayLike, text: str) -> None:
    with pytest.raises(InvalidSamples, match=text):
        Samples(tokens)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", ">i4", object])
def test_any_integers_will_do(dtype: str) -> None:
    samples = Samples(np.array([1, 2, 3], dtype=dtype))
    assert samples.tokens.dtype == np.dtype(np.int64)
    assert samples.tokens.tolist() == [1, 2, 3]


def test_samples_are_read_only_copies() -> None:
    mine = np.array([1, 2, 3])
    samples = Samples(mine, {"image_tokens": mine})
    mine[0] = 9
    assert samples.tokens.tolist() == samples.columns["image_tokens"].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        samples.tokens[0] = 9
    with pytest.raises(TypeError):
        samples.columns["images"] = mine  # type: ignore[index]
    again = pickle.loads(pickle.dumps(samples))
    assert again.tokens.tolist() == [1, 2, 3]
    assert not again.tokens.flags.writeable
    assert repr(samples) == "Samples(3 samples, 6 tokens, image_tokens)"


def test_columns_are_checked_like_tokens() -> None:
    with pytest.raises(InvalidSamples, match="image_tokens must be <= tokens; sample 1 has 9 of 8"):
        Samples([7, 8], {"image_tokens": [7, 9]})
    with pytest.raises(InvalidSamples, match="images must have one value per sample; 1 for 2"):
        Samples([7, 8], {"images": [7]})
    with pytest.raises(InvalidSamples, match=r"images\[0\] = -2"):
        Samples([7, 8], {"images": [-2, 0]})
    with pytest.raises(InvalidSamples, match="columns must be a mapping from names to values; got list"):
        Samples([7], [[7]])  # type: ignore[arg-type]
    with pytest.raises(InvalidSamples, match=r"spans must be Spans; got list\. Use Spans\.of for a list of pairs"):
        Samples([7], spans=[[(0, 2)]])  # type: ignore[arg-type]
    for name in ("tokens", "packs", "tokens_squared"):
        with pytest.raises(InvalidSamples, match=f'a column cannot be called "{name}"; tokens, packs, samples, '):
            Samples([7], {name: [7]})
    with pytest.raises(InvalidSamples, match="a column must be named by a text; got 5"):
        Samples([7], {5: [7]})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"capacity": 0}, r"capacity must be in \[1, \d+\]; got 0"),
        ({"capacity": -5}, "got -5"),
        ({"capacity": 8.0}, r"capacity must be an integer; got 8.0 \(float\)"),
        ({"capacity": True}, r"got True \(bool\)"),
        ({"capacity": "8"}, r"got '8' \(str\)"),
        ({"capacity": 2**31}, r"capacity must be in \[1, 2147483647\]; got 2147483648"),
        ({"capacity": 8, "align": 0}, "align must be in"),
        ({"capacity": 8, "align": 9}, "align must be <= capacity; got 9 > 8"),
        ({"capacity": 8, "max_samples": 0}, "max_samples must be in"),
        ({"capacity": 8, "budgets": (("images", -1),)}, 'budget "images" must be in'),
        ({"capacity": 8, "budgets": (("images", 1), ("images", 2))}, "budgets must name each column once"),
        ({"capacity": 8, "budgets": (("tokens", 1),)}, "not tokens"),
        (
            {"capacity": 8, "oversize": "drop"},
            "oversize must be a member of Oversize; got 'drop'. Use Oversize.ERROR, .* or Oversize.ISOLATE",
        ),
    ],
)
def test_bad_limits_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidLimits, match=text):
        Limits(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(8), "Limits(capacity=8)"),
        (
            Limits(8, (("images", 2),), 3, 4, Oversize.DROP),
            "Limits(capacity=8, budgets=(('images', 2),), max_samples=3, align=4, oversize=Oversize.DROP)",
        ),
    ],
)
def test_the_text_of_limits_is_python(limits: Limits, text: str) -> None:
    assert repr(limits) == text
    assert eval(text) == limits


def test_an_int_and_an_array_stand_for_limits_and_samples() -> None:
    packing = BestFitDecreasing().pack(np.array([1, 2], dtype=np.int32), np.int64(3))  # type: ignore[arg-type]
    assert packing.limits == Limits(3)
    assert hash(Limits(3)) == hash(Limits(3, oversize=Oversize.ERROR))


def test_masked_lengths_are_refused() -> None:
    assert Samples(np.ma.masked_array([1, 2], [False, False])).tokens.tolist() == [1, 2]
    with pytest.raises(InvalidSamples, match="tokens must not be masked; fill in or drop"):
        Samples(np.ma.masked_array([1, 2], [False, True]))


def test_spans_are_pairs() -> None:
    for bad in ([1], [[(1,)]], [[(1, 2, 3)]]):
        with pytest.raises(InvalidSamples, match=r"spans must be a list of pairs \(start, stop\) for each sample; "):
            Spans.of(bad)  # type: ignore[arg-type]
