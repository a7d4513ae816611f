"""How values look in texts that a reader may paste into Python."""

from __future__ import annotations

from dataclasses import Field, fields
from enum import Enum
from typing import ClassVar, Protocol

__all__ = ["as_python", "one_of"]


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]


def as_python(value: _Dataclass) -> str:
    """Return a dataclass as the call that makes it; what is at its default goes unsaid."""
    held = {each.name: getattr(value, each.name) for each in fields(value) if getattr(value, each.name) != each.default}
    given = (f"{name}={each if isinstance(each, Enum) else repr(each)}" for name, each in held.items())
    return f"{type(value).__name__}({', '.join(given)})"


def one_of(kind: type[Enum]) -> str:
    """Return the members of ``kind`` for the end of an error: "Oversize.ERROR, ... or Oversize.ISOLATE"."""
    *others, last = map(str, kind)
    return f"{', '.join(others)} or {last}"
