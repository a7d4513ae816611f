"""Nested values of a pack, taken apart into plain structure and flat leaves, and put together again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TypeAlias

import numpy as np
import torch

from .errors import BadPayload, CannotCarry

__all__ = ["Leaf", "Structure", "copied", "map_tensors", "rebuilt", "taken_apart"]

MAX_DEPTH = 64  # deeper is taken for a cycle
PLAIN = (type(None), bool, int, float, str)  # exactly these types: a subclass would arrive as its base

Leaf: TypeAlias = "torch.Tensor | np.ndarray | np.generic | bytes"
# None, bool, int, float or str stand for themselves; tuples are containers, ("leaf",) is the next leaf
Structure: TypeAlias = "bool | int | float | str | tuple[object, ...] | None"


@dataclass(frozen=True)
class _Walk:
    leaves: list[Leaf]
    paths: list[str]

    def down(self, value: object, path: str, depth: int) -> Structure:
        if type(value) in PLAIN:
            return value  # type: ignore[return-value]
        if isinstance(value, torch.Tensor | np.ndarray | np.generic) or type(value) is bytes:
            self.leaves.append(value)
            self.paths.append(path)
            return ("leaf",)
        if depth == MAX_DEPTH:
            raise CannotCarry(f"{path[:200]} is nested deeper than {MAX_DEPTH}, or contains itself.", path)
        kind = type(value)
        if kind is dict or kind is OrderedDict:
            assert isinstance(value, dict)
            return ("dict" if kind is dict else "odict", self._keys(value, path), self._all(value, path, depth))
        if kind is list or kind is tuple:
            assert isinstance(value, list | tuple)
            items = [self.down(each, f"{path}[{i}]", depth + 1) for i, each in enumerate(value)]
            return (kind.__name__, items)
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            if getattr(value, "__dict__", None):
                raise CannotCarry(f"{path} has {sorted(vars(value))} besides its fields, which would be lost.", path)
            named = dict(zip(kind._fields, value, strict=True))
            return ("namedtuple", _class_path(kind, path), self._all(named, path, depth))
        if is_dataclass(kind) and _can_be_filled(kind):
            held = _held(value, kind)
            return ("dataclass", _class_path(kind, path), list(held), self._all(held, path, depth))
        raise CannotCarry(
            f"{path} is a {kind.__module__}.{kind.__qualname__}, which does not travel; packs hold tensors, numpy "
            f"arrays, int, float, bool, str, bytes, None, and dict, list, tuple, namedtuple, dataclass of these.",
            path,
        )

    def _all(self, named: dict[str, object], path: str, depth: int) -> list[Structure]:
        return [self.down(each, f"{path}[{key!r}]", depth + 1) for key, each in named.items()]

    def _keys(self, value: dict[object, object], path: str) -> list[object]:
        for key in value:
            if type(key) not in PLAIN:
                raise CannotCarry(f"{path} has the key {key!r}; keys are int, str, float, bool or None.", path)
        return list(value)


def taken_apart(tree: object) -> tuple[Structure, list[Leaf], list[str]]:
    """Return the structure of ``tree``, its tensors, arrays and bytes in order, and the place of each.

    Raises `CannotCarry` for any other kind of value, naming its place.
    """
    walk = _Walk([], [])
    return walk.down(tree, "pack", 0), walk.leaves, walk.paths


def rebuilt(structure: Structure, leaves: list[Leaf]) -> object:
    """Return the tree that `taken_apart` took apart. Dataclasses are filled, not called: no ``__post_init__``."""
    return _up(structure, iter(leaves).__next__)


def map_tensors(tree: object, change: Callable[[torch.Tensor], torch.Tensor]) -> object:
    """Return ``tree`` with every tensor changed."""
    structure, leaves, _ = taken_apart(tree)
    return rebuilt(structure, [change(each) if isinstance(each, torch.Tensor) else each for each in leaves])


def copied(tree: object) -> object:
    """Return ``tree`` in containers of its own, with the same leaves."""
    return map_tensors(tree, lambda tensor: tensor)


def _up(structure: Structure, leaf: Callable[[], Leaf]) -> object:
    match structure:
        case ("leaf",):
            return leaf()
        case ("dict", list(keys), list(nodes)):
            return {key: _up(node, leaf) for key, node in zip(keys, nodes, strict=True)}
        case ("odict", list(keys), list(nodes)):
            return OrderedDict((key, _up(node, leaf)) for key, node in zip(keys, nodes, strict=True))
        case ("list", list(nodes)):
            return [_up(node, leaf) for node in nodes]
        case ("tuple", list(nodes)):
            return tuple(_up(node, leaf) for node in nodes)
        case ("namedtuple", str(path), list(nodes)):
            return tuple.__new__(_class(path), [_up(node, leaf) for node in nodes])
        case ("dataclass", str(path), list(names), list(nodes)):
            made: object = object.__new__(_class(path))
            for name, node in zip(names, nodes, strict=True):
                object.__setattr__(made, name, _up(node, leaf))
            return made
        case tuple():
            raise BadPayload(f"{structure[:1]} is not a kind of container.")
    return structure


@lru_cache
def _can_be_filled(kind: type) -> bool:
    """Return whether instances of a dataclass are made of their attributes alone: not if it is a dict, or an enum."""
    try:
        return not issubclass(kind, Enum) and object.__new__(kind) is not None
    except TypeError:
        return False


def _held(value: object, kind: type) -> dict[str, object]:
    """Return the attributes of a dataclass that are set, fields or not, without cached properties."""
    names = dict.fromkeys([*(each.name for each in fields(kind)), *getattr(value, "__dict__", ())])
    return {
        name: getattr(value, name)
        for name in names
        if hasattr(value, name) and not isinstance(getattr(kind, name, None), cached_property)
    }


def _class_path(kind: type, path: str) -> str:
    if "<locals>" in kind.__qualname__:
        raise CannotCarry(
            f"{path} is a {kind.__qualname__}, which other ranks cannot import; define the class in a module.", path
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(path: str) -> type:
    """Return the class called ``"module:name"``; only dataclasses and namedtuples, so that nothing else is reached."""
    module, _, name = path.partition(":")
    found: object = import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and (is_dataclass(found) or (issubclass(found, tuple) and hasattr(found, "_fields"))):
        return found
    raise BadPayload(f"{path} is not a dataclass or namedtuple on this rank; all ranks must run the same code.")
