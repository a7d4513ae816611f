"""What a packer or a balancer may be made of: plain values, so that its repr is its identity."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

from .errors import InvalidParameter

__all__ = ["Algorithm"]

PLAIN = (int, float, str, bool, type(None))


@dataclass(frozen=True)
class Algorithm:
    """Base of packers and balancers: a frozen dataclass of plain values, other algorithms, and tuples of these.

    Two algorithms are equal when their texts are, and a text can travel on a command line, in a table or to another
    rank. Hence nothing with an identity of its own (arrays, functions, random generators) may be a parameter.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__repr__" not in vars(cls):
            cls.__repr__ = Algorithm.__repr__  # type: ignore[method-assign]  # dataclass would put its own there

    def __repr__(self) -> str:
        """Return the text that the registry parses back: ``LeastMovement(Refine(LPT()), tolerance_ppm=100)``."""
        return self._text

    @cached_property
    def _text(self) -> str:
        texts: list[str] = []
        named = False  # algorithms inside come first and need no name; what is at its default goes unsaid
        for field in fields(self):
            value = getattr(self, field.name)
            named = named or not _is_algorithm(value)
            if not named:
                texts.append(repr(value))
            elif value != field.default:
                texts.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(texts)})"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not _is_plain(value):
                hint = f" Write {value.__name__}()." if isinstance(value, type) and issubclass(value, Algorithm) else ""
                raise InvalidParameter(
                    f"{type(self).__name__}.{field.name} must be an int, float, str, bool, None, an algorithm or a "
                    f"tuple of these; got {value!r}.{hint}"
                )


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return type(value) in PLAIN or isinstance(value, Algorithm)


def _is_algorithm(value: object) -> bool:
    return isinstance(value, Algorithm) or (isinstance(value, tuple) and all(map(_is_algorithm, value)))
