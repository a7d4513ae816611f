"""Any tree of tensors, arrays and plain values <-> one flat byte buffer, bit-exact."""

from __future__ import annotations

import marshal
import struct
import zlib
from dataclasses import dataclass
from math import prod

import numpy as np
import torch

from packing.arrays import AnyArray

from .errors import BadPayload, CannotCarry
from .trees import Leaf, Structure, rebuilt, taken_apart

__all__ = ["ALIGN", "Parcel", "parcel", "unpack"]

ALIGN = 64  # parcels and leaves start at multiples: views of any dtype are possible, and copies start on cache lines
SMALL = 4096  # smaller leaves are copied out, so that keeping one does not keep the whole buffer
MAGIC, VERSION = b"EVEN", 1
PREFIX = struct.Struct("<4sHHII")  # magic, version, 0, length and checksum of the head
MARSHAL = 2  # the version without references: equal heads have equal bytes
SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
DTYPES = {str(each).removeprefix("torch."): each for each in vars(torch).values() if isinstance(each, torch.dtype)}


@dataclass(frozen=True, eq=False)
class Parcel:
    """A tree ready to be written; its leaves are still where they were. ``n_bytes``: a multiple of `ALIGN`."""

    head: bytes
    leaves: list[AnyArray]
    n_bytes: int

    def write(self, buffer: torch.Tensor) -> None:
        """Fill ``buffer``, (n_bytes,) uint8, every byte of it: padding is zero, so equal trees give equal bytes."""
        out = buffer.numpy()
        prefix = PREFIX.pack(MAGIC, VERSION, 0, len(self.head), zlib.crc32(self.head))
        end = _filled(out, 0, np.frombuffer(prefix + self.head, dtype=np.uint8))
        for leaf in self.leaves:
            end = _filled(out, end, leaf)


def parcel(tree: object) -> Parcel:
    """Return ``tree`` ready to be written.

    Tensors arrive contiguous (channels-last ones in channels-last), with their ``requires_grad``; numpy arrays in C
    order. A value that is held twice arrives twice. Raises `CannotCarry`, naming the place, for sparse, nested,
    quantised and meta tensors, subclasses, tensors on accelerators, tensors with a graph, arrays of objects, and any
    other kind of value.
    """
    structure, leaves, paths = taken_apart(tree)
    taken = [_taken(leaf, path) for leaf, path in zip(leaves, paths, strict=True)]
    head = marshal.dumps((structure, [about for about, _ in taken]), MARSHAL)  # type: ignore[arg-type]
    arrays = [array for _, array in taken]
    n_bytes = _aligned(PREFIX.size + len(head)) + sum(_aligned(each.nbytes) for each in arrays)
    return Parcel(head, arrays, n_bytes)


def unpack(buffer: torch.Tensor) -> object:
    """Return the tree in ``buffer``, (n,) uint8 on the CPU, starting at a multiple of 16 of its storage.

    Large leaves are views of the buffer, small ones copies. Raises `BadPayload` where the bytes are no parcel.
    """
    if len(buffer) < PREFIX.size:
        raise BadPayload(f"{len(buffer)} bytes are no parcel.")
    magic, version, _, length, checksum = PREFIX.unpack(buffer[: PREFIX.size].numpy().tobytes())
    if (magic, version) != (MAGIC, VERSION):
        raise BadPayload(f"the parcel begins with {magic!r}, version {version}; expected {MAGIC!r}, version {VERSION}.")
    head = buffer[PREFIX.size : PREFIX.size + length].numpy().tobytes()
    if zlib.crc32(head) != checksum:
        raise BadPayload("the head of the parcel is damaged.")
    structure, abouts = marshal.loads(head)
    start, leaves = _aligned(PREFIX.size + length), []
    for about in abouts:
        leaf, n_bytes = _leaf(about, buffer[start:])
        leaves.append(leaf)
        start += _aligned(n_bytes)
    if start != len(buffer):
        raise BadPayload(f"the parcel has {len(buffer)} bytes; its head says {start}.")
    tree: Structure = structure
    return rebuilt(tree, leaves)


def _taken(leaf: Leaf, path: str) -> tuple[tuple[object, ...], AnyArray]:
    """Return what must be known about a leaf, and its bytes as an array of plain numbers, of any strides."""
    if isinstance(leaf, bytes):
        return ("bytes", len(leaf)), np.frombuffer(leaf, dtype=np.uint8)
    if isinstance(leaf, torch.Tensor):
        _check_tensor(leaf, path)
        last = _channels_last(leaf)
        plain = leaf.detach().resolve_conj().resolve_neg()
        array = (plain.movedim(1, -1) if last else plain).view(SAME_SIZE[leaf.itemsize]).numpy()
        name = str(leaf.dtype).removeprefix("torch.")
        return ("tensor", name, list(array.shape), leaf.requires_grad, last), array
    array = np.asarray(leaf)
    if array.dtype.kind in "OV" or not (type(leaf) is np.ndarray or isinstance(leaf, np.generic)):
        raise CannotCarry(
            f"{path} is a numpy {type(leaf).__name__} of {array.dtype}; only plain arrays of numbers and texts travel.",
            path,
        )
    kind = "scalar" if isinstance(leaf, np.generic) else "array"
    return (kind, array.dtype.str, list(array.shape)), array


def _leaf(about: tuple[object, ...], buffer: torch.Tensor) -> tuple[Leaf, int]:
    """Return the leaf at the start of ``buffer``, and how many bytes it takes."""
    match about:
        case ("bytes", int(length)):
            return buffer[:length].numpy().tobytes(), length
        case ("tensor", str(name), list(shape), bool(requires_grad), bool(last)):
            dtype = DTYPES[name]
            n_bytes = prod(shape) * dtype.itemsize
            flat = buffer[:n_bytes].view(dtype) if n_bytes else torch.empty(0, dtype=dtype)
            tensor = (flat.clone() if n_bytes < SMALL else flat).view(shape)
            return (tensor.movedim(-1, 1) if last else tensor).requires_grad_(requires_grad), n_bytes
        case ("scalar" | "array" as kind, str(text), list(shape)):
            plain = np.dtype(text)
            n_bytes = prod(shape) * plain.itemsize
            array = np.empty(shape, dtype=plain)
            if n_bytes:
                view = buffer[:n_bytes].numpy().view(plain).reshape(shape)
                array = view.copy() if n_bytes < SMALL else view
            return (array[()] if kind == "scalar" else array), n_bytes
    raise BadPayload(f"{about!r} describes no leaf.")


def _check_tensor(tensor: torch.Tensor, path: str) -> None:
    reason = None
    if type(tensor) is not torch.Tensor:
        reason = f"is a {type(tensor).__name__}; only plain tensors travel"
    elif tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        kind = "nested" if tensor.is_nested else "quantised" if tensor.is_quantized else str(tensor.layout)
        reason = f"is {kind}; only dense tensors travel: send what it is made of"
    elif tensor.device.type != "cpu":
        reason = f"is on {tensor.device}; packs are built on the CPU, BalancedLoader(device=...) moves them on delivery"
    elif tensor.grad_fn is not None:
        reason = "has a graph, which would be cut; detach() it"
    if reason:
        raise CannotCarry(f"{path} {reason}.", path)


def _channels_last(tensor: torch.Tensor) -> bool:
    if tensor.is_contiguous() or tensor.dim() not in (4, 5):
        return False
    return tensor.movedim(1, -1).is_contiguous()


def _filled(out: AnyArray, start: int, leaf: AnyArray) -> int:
    """Copy ``leaf`` into ``out``, zero the padding behind it, return where the next one starts.

    numpy copies in the thread that asks; torch would start a pool of threads for it.
    """
    end = start + leaf.nbytes
    if leaf.nbytes:
        np.copyto(out[start:end].view(leaf.dtype).reshape(leaf.shape), leaf)
    out[end : _aligned(end)] = 0
    return _aligned(end)


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGN) * ALIGN
