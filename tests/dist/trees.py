"""Random payloads, and when two of them are the same, bit by bit."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, fields, is_dataclass
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st

DTYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.uint16,
]  # fmt: skip


@dataclass(frozen=True)
class Image:
    pixels: object
    name: object = "image"


class Span(NamedTuple):
    start: object
    stop: object


LAYOUTS = {
    "plain": lambda t: t,
    "transposed": lambda t: t.transpose(0, -1) if t.dim() else t,
    "strided": lambda t: t[..., ::2] if t.dim() else t,
    "expanded": lambda t: t.unsqueeze(0).expand(3, *t.shape),
    "channels_last": lambda t: (
        t.reshape(1, *t.shape, 1).contiguous(memory_format=torch.channels_last) if t.dim() == 2 else t
    ),
    "conj": lambda t: t.conj(),
    "negative": lambda t: t.conj().imag if t.is_complex() else t,
}


def tensor(dtype: torch.dtype, shape: list[int], seed: int, layout: str = "plain") -> torch.Tensor:
    """Return a tensor of random bytes: NaN payloads, denormals and all."""
    n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    high = 2 if dtype is torch.bool else 256
    content = torch.from_numpy(np.random.default_rng(seed).integers(0, high, n_bytes, dtype=np.uint8))
    made = LAYOUTS[layout](content.view(dtype).reshape(shape) if n_bytes else torch.empty(shape, dtype=dtype))
    assert isinstance(made, torch.Tensor)
    return made


tensors = st.builds(
    tensor,
    st.sampled_from(DTYPES),
    st.lists(st.sampled_from([0, 1, 2, 3, 7, 40]), max_size=3),
    st.integers(0, 2**32),
    st.sampled_from(sorted(LAYOUTS)),
)
arrays = st.one_of(
    st.builds(
        lambda text, shape, seed: np.random.default_rng(seed).integers(0, 100, shape).astype(text),
        st.sampled_from(["<i4", ">i2", "<f8", "?", "<U3", "S5", "<M8[s]", "<c16", "<U0"]),
        st.lists(st.integers(0, 5), max_size=3),
        st.integers(0, 2**32),
    ),
    st.sampled_from([np.float32(1.5), np.int64(-3), np.bool_(True), np.str_("text"), np.datetime64("2020-01-01")]),
)
plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.binary(max_size=99))
trees = st.recursive(
    st.one_of(plain, tensors, arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers(), st.none()), inner, max_size=3),
        st.dictionaries(st.text(max_size=5), inner, max_size=3).map(OrderedDict),
        st.builds(Image, inner, inner),
        st.builds(Span, inner, inner),
    ),
    max_leaves=12,
)


def content(tree: object) -> object:
    """Return what two trees must have in common to be the same: kinds, shapes, flags, and bytes in logical order."""
    if isinstance(tree, torch.Tensor):
        flat = tree.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        return "tensor", str(tree.dtype), tuple(tree.shape), tree.requires_grad, data
    if isinstance(tree, np.ndarray | np.generic):
        return type(tree).__name__, tree.dtype.str, tree.shape, tree.tobytes()
    if isinstance(tree, float):
        return "float", np.float64(tree).tobytes()
    if isinstance(tree, dict):
        return type(tree).__name__, [(repr(key), content(value)) for key, value in tree.items()]
    if isinstance(tree, list | tuple):
        return type(tree).__name__, [content(each) for each in tree]
    if is_dataclass(tree):
        return type(tree).__name__, [content(getattr(tree, each.name)) for each in fields(tree)]
    return type(tree).__name__, tree
