"""What travels arrives bit by bit; what cannot is refused with its place."""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dist import BadPayload, CannotCarry, parcel, unpack
from dist.payload import ALIGN, write_tensors

from .trees import Image, Span, content, trees


def written(tree: object) -> torch.Tensor:
    packed = parcel(tree)
    buffer = torch.full((packed.n_bytes,), 255, dtype=torch.uint8)
    packed.write(buffer)
    return buffer


@given(trees)
def test_a_tree_arrives_bit_by_bit(tree: object) -> None:
    buffer = written(tree)
    assert len(buffer) % ALIGN == 0
    assert content(unpack(buffer)) == content(tree)
    assert torch.equal(written(tree), buffer)  # equal trees have equal bytes, padding too


@given(st.lists(trees, max_size=4))
def test_parcels_lie_side_by_side_in_one_buffer(many: list[object]) -> None:
    parcels = [parcel(tree) for tree in many]
    buffer = torch.full((sum(each.n_bytes for each in parcels),), 255, dtype=torch.uint8)
    places = torch.split(buffer, [each.n_bytes for each in parcels])
    for each, place in zip(parcels, places, strict=True):
        each.write(place)
    assert [content(unpack(place)) for place in places] == [content(tree) for tree in many]


def test_layout_and_flags_survive() -> None:
    image = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)).to(memory_format=torch.channels_last)
    weight = torch.ones(3).requires_grad_()
    arrived = unpack(written({"image": image, "weight": weight, "transposed": image[0, 0].t()}))
    assert isinstance(arrived, dict)
    assert arrived["image"].is_contiguous(memory_format=torch.channels_last)
    assert arrived["weight"].requires_grad
    assert arrived["weight"].is_leaf
    assert arrived["transposed"].is_contiguous()
    arrived["image"].add_(1)  # what arrives can be written to


def test_a_small_leaf_does_not_keep_the_buffer() -> None:
    buffer = written([torch.zeros(10), torch.zeros(100_000)])
    arrived = unpack(buffer)
    assert isinstance(arrived, list)
    of_small, of_large, of_buffer = (each.untyped_storage().data_ptr() for each in (*arrived, buffer))
    assert of_small != of_buffer
    assert of_large == of_buffer


@pytest.mark.parametrize("apart", [False, True], ids=["in the frame", "apart"])
def test_what_shares_a_buffer_can_be_changed_before_backward(apart: bool) -> None:
    """Views of one tensor share a count of changes in place, by which autograd refuses what it has saved."""
    device = torch.device("cpu") if apart else None
    packed = parcel({"x": torch.ones(2_000), "mask": torch.zeros(2_000)}, device)
    frame, tensors = torch.zeros(packed.n_bytes, dtype=torch.uint8), torch.zeros(packed.n_tensor_bytes).to(torch.uint8)
    packed.write(frame)
    write_tensors(packed.tensors, tensors)
    arrived = unpack(frame, tensors if apart else None)
    assert isinstance(arrived, dict)
    weight = torch.ones((), requires_grad=True)
    loss = (weight * arrived["x"]).sum()
    arrived["mask"].add_(1)
    loss.backward()
    assert weight.grad == 2_000


def test_the_sender_may_overwrite_what_was_written() -> None:
    source = torch.arange(1000)
    buffer = written(source)
    source.fill_(-1)
    assert torch.equal(unpack(buffer), torch.arange(1000))  # type: ignore[arg-type]


@dataclass
class Counted:
    values: list[int]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.values)


def test_a_dataclass_is_filled_and_not_called() -> None:
    counted = Counted([1, 2])
    counted.total = 7
    assert unpack(written(counted)) == counted


@dataclass
class Noted:
    """Not all that it knows is a field, and not all fields are set."""

    values: list[int]
    later: int = field(init=False)

    def __post_init__(self) -> None:
        self.note = "seen"

    @cached_property
    def kinds(self) -> set[int]:
        return {*self.values}


def test_a_dataclass_arrives_with_all_that_was_set() -> None:
    noted = Noted([1, 2])
    assert noted.kinds == {1, 2}
    arrived = unpack(written([noted, Image(1)]))
    assert isinstance(arrived, list)
    assert vars(arrived[0]) == {"values": [1, 2], "note": "seen"}
    assert arrived[0].kinds == {1, 2}
    assert arrived[1] == Image(1)


@dataclass
class Output(OrderedDict[str, int]):
    """A dataclass that is a dict as well, as model outputs are."""

    loss: int = 0


@dataclass
class Titled:
    title: str


class Species(Titled, Enum):
    CAT = "cat"


class Marked(Span):
    """A named tuple that knows more."""


def marked() -> Marked:
    made = Marked(1, 2)
    made.mark = 3  # type: ignore[attr-defined]
    return made


class Color(IntEnum):
    RED = 1


class Metres(np.float64):
    """A number that would arrive as another kind."""


def loop() -> object:
    inner: list[object] = []
    inner.append(inner)
    return inner


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


def quantised() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), r"pack['a'][1] is a builtins.object, which does not travel"),
        ({1, 2}, "pack['a'][1] is a builtins.set"),
        (Color.RED, "pack['a'][1] is a tests.dist.test_payload.Color"),
        (bytearray(b"x"), "pack['a'][1] is a builtins.bytearray"),
        ({(1, 2): 3}, "pack['a'][1] has the key (1, 2); keys are int, str"),
        (torch.zeros(3).to_sparse(), "pack['a'][1] is torch.sparse_coo; only dense"),
        (nested(), "pack['a'][1] is nested; only dense"),
        (quantised(), "pack['a'][1] is quantised; only dense"),
        (
            torch.zeros(3, device="meta"),
            "pack['a'][1] is on meta, but packs stay on the CPU; give BalancedLoader(device=...)",
        ),
        (torch.nn.Parameter(torch.zeros(3)), "pack['a'][1] is a Parameter; only plain tensors"),
        (torch.zeros(3, requires_grad=True) * 2, "pack['a'][1] has a graph, which would be cut; detach() it."),
        (np.array([object()]), "pack['a'][1] is a numpy ndarray of object"),
        (np.zeros(2, dtype=[("x", "i4")]), "pack['a'][1] is a numpy ndarray of [('x', '<i4')]"),
        (Output(), "pack['a'][1] is a tests.dist.test_payload.Output, which does not travel"),
        (Species.CAT, "pack['a'][1] is a tests.dist.test_payload.Species, which does not travel"),
        (marked(), "pack['a'][1] has ['mark'] besides its fields, which would be lost."),
        (np.array(["text"], dtype=np.dtypes.StringDType()), "pack['a'][1] is a numpy ndarray of StringDType()"),
        (np.ma.array([1]), "pack['a'][1] is a numpy MaskedArray"),
        (Metres(1.5), "pack['a'][1] is a numpy Metres of float64; only plain"),
        (loop(), "is nested deeper than 64, or contains itself."),
        (Image(Span(1, {2})), "pack['a'][1]['pixels']['stop'] is a builtins.set"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_travel_is_refused_with_its_place(value: object, text: str) -> None:
    with pytest.raises(CannotCarry, match=re.escape(text)) as caught:
        parcel({"a": [0, value]})
    assert caught.value.path.startswith("pack['a'][1]")


def test_a_class_inside_a_function_is_refused() -> None:
    @dataclass
    class Local:
        x: int

    with pytest.raises(CannotCarry, match="which other ranks cannot import; define the class in a module"):
        parcel(Local(1))


@pytest.mark.parametrize(
    "text", [np.bytes_(b"x\0y"), np.bytes_(b"x\0"), np.bytes_(), np.str_("x\0"), np.str_("\ud800")]
)
def test_texts_of_numpy_keep_their_kind_and_their_last_zeros(text: np.bytes_ | np.str_) -> None:
    arrived = unpack(written([text]))
    assert isinstance(arrived, list)
    assert type(arrived[0]) is type(text)
    assert arrived[0] == text
    assert len(arrived[0]) == len(text)


def test_damaged_bytes_are_named() -> None:
    buffer = written([1, "two"])
    with pytest.raises(BadPayload, match="a parcel begins with 16 bytes; got 3"):
        unpack(buffer[:3])
    with pytest.raises(BadPayload, match=r"the parcel begins with b'\\x00\\x00\\x00\\x00'"):
        unpack(torch.zeros(64, dtype=torch.uint8))
    with pytest.raises(BadPayload, match="its head says 64"):
        unpack(torch.cat([buffer, buffer]))
    texts = written(np.str_("\u00fc"))
    texts[-64] = 0xFF
    with pytest.raises(BadPayload, match="a text in the parcel is damaged"):
        unpack(texts)
    buffer[20] += 1
    with pytest.raises(BadPayload, match="the head of the parcel is damaged"):
        unpack(buffer)


def test_bytes_that_are_no_whole_parcel_are_named() -> None:
    tree = {"a": torch.arange(5), "b": [np.arange(3), b"xyz"], "c": np.array(["u", "vv"])}
    packed, buffer = parcel(tree), written(tree)
    for end in range(len(buffer)):
        with pytest.raises(BadPayload):
            unpack(buffer[:end])
    with pytest.raises(BadPayload, match="a parcel starts at a multiple of 16 of its storage; this one at 1"):
        unpack(torch.cat([buffer[:1], buffer])[1:])
    for wrong, kind in ((None, "a NoneType"), (b"x", "a bytes"), (torch.zeros(2, 64), "(2, 64) float32")):
        with pytest.raises(BadPayload, match=re.escape(f"a parcel is read from (n,) uint8; got {kind}.")):
            unpack(wrong)  # type: ignore[arg-type]
        with pytest.raises(BadPayload, match=re.escape(f"is written to ({len(buffer)},) uint8; got {kind}.")):
            packed.write(wrong)  # type: ignore[arg-type]
    with pytest.raises(BadPayload, match=re.escape(f"got ({len(buffer) + 64},) uint8.")):
        packed.write(torch.zeros(len(buffer) + 64, dtype=torch.uint8))
