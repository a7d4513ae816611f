"""Any tree of tensors, arrays and plain values <-> flat byte buffers, bit-exact.

Where packs go to a device, their tensors travel apart from the rest, the *frame*: the frame is needed by the CPU, and
the tensors need never come there.
"""

from __future__ import annotations

import marshal
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch

from packing.arrays import AnyArray

from .errors import BadPayload, CannotCarry
from .trees import Leaf, Structure, map_tensors, rebuilt, taken_apart

__all__ = ["ALIGN", "Parcel", "aligned", "on_device", "parcel", "unpack", "write_tensors"]

ALIGN = 64  # parcels and leaves start at multiples: views of any dtype are possible, and copies start on cache lines
SMALL = 4096  # smaller leaves are copied out, so that keeping one does not keep the whole buffer
MAGIC, VERSION = b"EVEN", 2
PREFIX = struct.Struct("<4sHHII")  # magic, version, 0, length and checksum of the head
MARSHAL = 2  # the version without references: equal heads have equal bytes
SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
NAMES = {each: str(each).removeprefix("torch.") for each in vars(torch).values() if isinstance(each, torch.dtype)}
DTYPES = {name: each for each, name in NAMES.items()}
TEXTS = (bytes, np.bytes_, np.str_)


@dataclass(frozen=True, eq=False)
class Parcel:
    """A tree ready to be written; its leaves are still where they were.

    ``n_bytes`` of the frame, which `write` writes, and ``n_tensor_bytes`` of ``tensors``, which travel apart and which
    `write_tensors` writes: multiples of `ALIGN`.
    """

    head: bytes = field(repr=False)
    leaves: list[AnyArray | torch.Tensor] = field(repr=False)
    n_bytes: int
    tensors: list[torch.Tensor] = field(repr=False)
    n_tensor_bytes: int

    def write(self, buffer: torch.Tensor) -> None:
        """Fill ``buffer``, (n_bytes,) uint8, every byte of it: padding is zero, so equal trees give equal bytes."""
        if not (isinstance(buffer, torch.Tensor) and buffer.dtype is torch.uint8 and buffer.shape == (self.n_bytes,)):
            raise BadPayload(f"this parcel is written to ({self.n_bytes},) uint8; got {_kind_of(buffer)}.")
        out = buffer.numpy()
        prefix = PREFIX.pack(MAGIC, VERSION, 0, len(self.head), zlib.crc32(self.head))
        end = _filled(out, 0, np.frombuffer(prefix + self.head, dtype=np.uint8))
        for leaf in self.leaves:
            end = _filled(out, end, _numbers(leaf).numpy() if isinstance(leaf, torch.Tensor) else leaf)


def parcel(tree: object, device: torch.device | None = None) -> Parcel:
    """Return ``tree`` ready to be written. With a ``device``, tensors travel apart; without, in the frame.

    Tensors arrive contiguous (channels-last ones in channels-last), with their ``requires_grad``; numpy arrays in C
    order. A value that is held twice arrives twice. Raises `CannotCarry`, naming the place, for sparse, nested,
    quantised and meta tensors, subclasses, tensors neither on the CPU nor on ``device``, tensors with a graph, arrays
    of objects, and any other kind of value.
    """
    structure, leaves, paths = taken_apart(tree)
    abouts: list[tuple[object, ...]] = []
    framed: list[AnyArray | torch.Tensor] = []
    tensors: list[torch.Tensor] = []
    for leaf, path in zip(leaves, paths, strict=True):
        if not isinstance(leaf, torch.Tensor):
            about, array = _taken(leaf, path)
            framed.append(array)
        else:
            _check_tensor(leaf, path, device)
            about = _described(leaf, apart=device is not None)
            (framed if device is None else tensors).append(leaf)
        abouts.append(about)
    head = marshal.dumps((structure, abouts), MARSHAL)  # type: ignore[arg-type]
    n_bytes = aligned(PREFIX.size + len(head)) + sum(aligned(each.nbytes) for each in framed)
    return Parcel(head, framed, n_bytes, tensors, sum(aligned(each.nbytes) for each in tensors))


def write_tensors(tensors: Iterable[torch.Tensor], buffer: torch.Tensor) -> None:
    """Write ``tensors`` one after the other into ``buffer``, uint8 on any device, each at a multiple of `ALIGN`.

    Copies from, to or on an accelerator are enqueued on the current stream, and are not waited for.
    """
    start = 0
    for tensor in tensors:
        numbers = _numbers(tensor)
        stop = start + numbers.nbytes
        if numbers.numel():
            into = buffer[start:stop].view(numbers.dtype).view(numbers.shape)
            if into.is_cpu and numbers.is_cpu:
                np.copyto(into.numpy(), numbers.numpy())  # in this thread: torch would start a pool of threads for it
            else:
                into.copy_(numbers, non_blocking=True)
        start = aligned(stop)


def on_device(tree: object, device: torch.device, tensors: torch.Tensor) -> object:
    """Return ``tree`` on ``device``: what is elsewhere is read from ``tensors``, where `write_tensors` wrote it."""
    start = 0

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal start
        if tensor.device == device:
            return tensor
        there = _read(_described(tensor, apart=True), tensors[start:])
        start += aligned(tensor.nbytes)
        return there

    return map_tensors(tree, moved)


def unpack(buffer: torch.Tensor, tensors: torch.Tensor | None = None) -> object:
    """Return the tree whose frame is in ``buffer``, (n,) uint8 on the CPU, starting at a multiple of 16 of its storage.

    ``tensors``: (m,) uint8 on any device, with those that travelled apart; they become views of it. Large leaves of the
    frame are views of the buffer, small ones copies. Raises `BadPayload` if the bytes are not a parcel.
    """
    for each in (buffer,) if tensors is None else (buffer, tensors):
        if not (isinstance(each, torch.Tensor) and each.dtype is torch.uint8 and each.dim() == 1):
            raise BadPayload(f"a parcel is read from (n,) uint8; got {_kind_of(each)}.")
    if len(buffer) < PREFIX.size:
        raise BadPayload(f"a parcel begins with {PREFIX.size} bytes; got {len(buffer)}.")
    if buffer.storage_offset() % 16:
        raise BadPayload(f"a parcel starts at a multiple of 16 of its storage; this one at {buffer.storage_offset()}.")
    magic, version, _, length, checksum = PREFIX.unpack(buffer[: PREFIX.size].numpy().tobytes())
    if (magic, version) != (MAGIC, VERSION):
        raise BadPayload(f"the parcel begins with {magic!r}, version {version}; expected {MAGIC!r}, version {VERSION}.")
    head = buffer[PREFIX.size : PREFIX.size + length].numpy().tobytes()
    if zlib.crc32(head) != checksum:
        raise BadPayload("the head of the parcel is damaged.")
    structure, abouts = marshal.loads(head)
    apart = buffer[:0] if tensors is None else tensors
    start, apart_start = aligned(PREFIX.size + length), 0
    leaves: list[Leaf] = []
    for about in abouts:
        if about[0] == "apart":
            tensor = _read(about, apart[apart_start:])
            leaves.append(tensor)
            apart_start += aligned(tensor.nbytes)
        else:
            leaf, n_bytes = _leaf(about, buffer[start:])
            leaves.append(leaf)
            start += aligned(n_bytes)
    if (start, apart_start) != (len(buffer), len(apart)):
        raise BadPayload(f"the parcel has {len(buffer)} + {len(apart)} bytes; its head says {start} + {apart_start}.")
    tree: Structure = structure
    return rebuilt(tree, leaves)


def _taken(leaf: AnyArray | np.generic | bytes, path: str) -> tuple[tuple[object, ...], AnyArray]:
    """Return what must be known about a leaf other than a tensor, and its numbers as an array of any strides."""
    if isinstance(leaf, bytes | np.str_) and type(leaf) in TEXTS:  # arrays would lose the zeros at their ends
        text = bytes(leaf) if isinstance(leaf, bytes) else leaf.encode("utf-8", "surrogatepass")
        return (type(leaf).__name__, len(text)), np.frombuffer(text, dtype=np.uint8)
    array = np.asarray(leaf)
    if array.dtype.kind not in "biufcmMSU" or type(leaf) not in (np.ndarray, array.dtype.type):
        raise CannotCarry(
            f"{path} is a numpy {type(leaf).__name__} of {array.dtype}; only plain arrays of numbers and texts travel.",
            path,
        )
    kind = "scalar" if isinstance(leaf, np.generic) else "array"
    return (kind, array.dtype.str, list(array.shape)), array


def _described(tensor: torch.Tensor, apart: bool) -> tuple[object, ...]:
    """Return what must be known about a tensor besides its bytes; the shape is that of `_numbers`."""
    last = _channels_last(tensor)
    shape = list(tensor.movedim(1, -1).shape if last else tensor.shape)
    return "apart" if apart else "tensor", NAMES[tensor.dtype], shape, tensor.requires_grad, last


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor as one of plain numbers, of any strides, in the order in which they travel."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    return (plain.movedim(1, -1) if _channels_last(tensor) else plain).view(SAME_SIZE[tensor.itemsize])


def _read(about: tuple[object, ...], buffer: torch.Tensor) -> torch.Tensor:
    """Return the tensor at the start of ``buffer``, in the same memory."""
    match about:
        case (str(), str(name), list(shape), bool(requires_grad), bool(last)):
            dtype = DTYPES[name]
            n_bytes = prod(shape) * dtype.itemsize
            flat = _first(n_bytes, buffer).view(dtype) if n_bytes else torch.empty(0, dtype=dtype, device=buffer.device)
            tensor = flat.view(shape)
            # .data: without it, changing one tensor in place would make autograd refuse all others of the buffer
            return (tensor.movedim(-1, 1) if last else tensor).data.requires_grad_(requires_grad)
    raise BadPayload(f"{about!r} does not describe a tensor.")


def _leaf(about: tuple[object, ...], buffer: torch.Tensor) -> tuple[Leaf, int]:
    """Return the leaf at the start of ``buffer``, and how many bytes it takes."""
    match about:
        case ("bytes" | "bytes_" | "str_" as kind, int(length)):
            text = _first(length, buffer).numpy().tobytes()
            if kind == "str_":
                try:
                    return np.str_(text.decode("utf-8", "surrogatepass")), length
                except UnicodeDecodeError as error:
                    raise BadPayload("a text in the parcel is damaged.") from error
            return (np.bytes_(text) if kind == "bytes_" else text), length
        case ("tensor", *_):
            tensor = _read(about, buffer)
            n_bytes = tensor.nbytes
            return (_copied(tensor) if 0 < n_bytes < SMALL else tensor), n_bytes
        case ("scalar" | "array" as kind, str(text), list(shape)):
            plain = np.dtype(text)
            n_bytes = prod(shape) * plain.itemsize
            array = np.empty(shape, dtype=plain)
            if n_bytes:
                view = _first(n_bytes, buffer).numpy().view(plain).reshape(shape)
                array = view.copy() if n_bytes < SMALL else view
            return (array[()] if kind == "scalar" else array), n_bytes
    raise BadPayload(f"{about!r} does not describe a leaf.")


def _first(n_bytes: int, buffer: torch.Tensor) -> torch.Tensor:
    if len(buffer) < n_bytes:
        raise BadPayload(f"the parcel is cut: {n_bytes} bytes of a value were to come, {len(buffer)} are there.")
    return buffer[:n_bytes]


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _check_tensor(tensor: torch.Tensor, path: str, device: torch.device | None) -> None:
    reason = None
    if type(tensor) is not torch.Tensor:
        reason = f"is a {type(tensor).__name__}; only plain tensors travel"
    elif tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        kind = "nested" if tensor.is_nested else "quantised" if tensor.is_quantized else str(tensor.layout)
        reason = f"is {kind}; only dense tensors travel: send what it is made of"
    elif tensor.device.type != "cpu" and tensor.device != device:
        where = "packs stay on the CPU" if device is None else f"packs of this rank go to {device}"
        reason = f"is on {tensor.device}, but {where}; give BalancedLoader(device=...), or build packs on the CPU"
    elif tensor.grad_fn is not None:
        reason = "has a graph, which would be cut; detach() it"
    if reason:
        raise CannotCarry(f"{path} {reason}.", path)


def _kind_of(buffer: object) -> str:
    if isinstance(buffer, torch.Tensor):
        return f"{tuple(buffer.shape)} {NAMES[buffer.dtype]}"
    return f"a {type(buffer).__name__}"


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
    out[end : aligned(end)] = 0
    return aligned(end)


def aligned(n_bytes: int) -> int:
    """Return ``n_bytes`` rounded up to a multiple of `ALIGN`."""
    return -(-n_bytes // ALIGN) * ALIGN
