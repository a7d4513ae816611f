"""Algorithms by name: a table, entry points of other packages, and texts such as ``LeastMovement(LPT())``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from .errors import EvenstepError, InvalidName
from .lazy import load

if TYPE_CHECKING:
    import ast

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Name -> class, loaded on first use.

    A class goes by two names: its own (``KarmarkarKarp``) and the same in lower case with underscores
    (``karmarkar_karp``). Other packages add classes through the entry-point group ``group``.
    """

    def __init__(self, kind: str, base: str, group: str, table: Mapping[str, str]) -> None:
        """``kind`` is the word used in errors, ``base`` the ``"module:Class"`` that every entry must derive from,
        ``table`` maps class names to ``"module:Class"``."""
        self.kind, self.group = kind, group
        self._base, self._table = base, dict(table)

    def names(self) -> tuple[str, ...]:
        """Return the class names of all entries, the library's own first."""
        return tuple(self._paths())

    def get(self, name: str) -> type[T]:
        """Return the class called ``name``; `InvalidName` with the closest name if there is none."""
        paths = self._paths()
        by_any_name = {**{snake_case(each): each for each in paths}, **{each: each for each in paths}}
        if name not in by_any_name:
            from difflib import get_close_matches

            close = get_close_matches(str(name), by_any_name, n=1)
            hint = f'; did you mean "{close[0]}"?' if close else "."
            raise InvalidName(f'no {self.kind} "{name}"{hint} Known: {", ".join(sorted(paths))}.')
        own_name = by_any_name[name]
        try:
            loaded = load(paths[own_name])
        except Exception as error:
            if own_name in self._table or isinstance(error, EvenstepError):
                raise
            raise InvalidName(
                f'the entry point "{own_name}" of {self.group} cannot be loaded: {type(error).__name__}: {error}.'
            ) from error
        return self._checked(loaded, own_name)

    def parse(self, text: str, known: Iterable[type[T]] = ()) -> T:
        """Return the object that ``text`` describes: ``"lpt"``, ``"LPT()"`` or a nested call with literal arguments.

        ``known`` adds classes that are in no table, by their own name. For every registered class
        ``parse(repr(algorithm)) == algorithm``.
        """
        import ast

        if not isinstance(text, str):
            raise InvalidName(f"a {self.kind} is parsed from text, such as {self._example()}; got {text!r}.")
        own = {each.__name__: each for each in known}
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            raise InvalidName(
                f'cannot read the {self.kind} "{text}": {error.msg}. Write e.g. {self._example()}.'
            ) from error
        if not isinstance(tree, ast.Call | ast.Name):
            raise InvalidName(f'"{text}" is no {self.kind}; write e.g. {self._example()}.')
        return self._build(tree, own)

    def _build(self, node: ast.Call | ast.Name, own: Mapping[str, type[T]]) -> T:
        import ast

        call = node if isinstance(node, ast.Call) else ast.Call(func=node, args=[], keywords=[])
        if not isinstance(call.func, ast.Name):
            raise InvalidName(f'"{ast.unparse(call.func)}" is no name of a {self.kind}.')
        name = call.func.id
        cls = own[name] if name in own else self.get(name)
        positional = [self._argument(value, own) for value in call.args]
        named = {word.arg: self._argument(word.value, own) for word in call.keywords if word.arg}
        if len(named) < len(call.keywords):
            raise InvalidName(f'"**" cannot be used in "{ast.unparse(call)}".')
        try:
            return cls(*positional, **named)
        except TypeError as error:
            raise InvalidName(f'cannot build "{ast.unparse(call)}": {error}.') from error

    def _argument(self, node: ast.expr, own: Mapping[str, type[T]]) -> object:
        import ast

        if isinstance(node, ast.Call):
            return self._build(node, own)
        if isinstance(node, ast.Tuple | ast.List):
            return tuple(self._argument(each, own) for each in node.elts)
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError) as error:  # a set of lists is a TypeError
            text = ast.unparse(node)
            raise InvalidName(
                f'"{text}" is no literal and no call; a nested {self.kind} is written with ().'
            ) from error

    def _example(self) -> str:
        name = next(iter(self._table))
        return f"{name}() or {snake_case(name)}"

    def _paths(self) -> dict[str, str]:
        from importlib.metadata import entry_points  # takes longer than the rest of the package

        added = {point.name: point.value for point in entry_points(group=self.group)}
        return {**added, **self._table}  # a plug-in cannot replace one of ours by accident

    def _checked(self, cls: object, name: str) -> type[T]:
        base = load(self._base)
        if not (isinstance(cls, type) and isinstance(base, type) and issubclass(cls, base)):
            raise InvalidName(f'the entry point "{name}" of {self.group} names {cls!r}, which is no {self.kind}.')
        return cast("type[T]", cls)


def snake_case(name: str) -> str:
    """``KarmarkarKarp`` -> ``karmarkar_karp``, ``LPT`` -> ``lpt``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
