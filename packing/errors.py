"""The errors of all four packages: one base, one class per kind, each text with index, value, limit and remedy."""

from __future__ import annotations

__all__ = [
    "CannotCut",
    "CannotServe",
    "EvenstepError",
    "InvalidGroups",
    "InvalidLimits",
    "InvalidName",
    "InvalidParameter",
    "InvalidSamples",
    "MissingExtra",
    "Oversized",
]


class EvenstepError(Exception):
    """Base of every error that this library raises on purpose. Errors survive pickling, attributes included."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.args, vars(self))


def _rebuilt(cls: type[EvenstepError], args: tuple[object, ...], attributes: dict[str, object]) -> EvenstepError:
    error = cls.__new__(cls, *args)
    error.args = args
    vars(error).update(attributes)
    return error


class InvalidSamples(EvenstepError, ValueError):
    """Lengths or counts that no packing can be made of."""


class InvalidLimits(EvenstepError, ValueError):
    """A capacity, budget or alignment outside its range."""


class InvalidGroups(EvenstepError, ValueError):
    """A packer answered with groups that break its contract: a bug in the packer, not in the data."""


class InvalidParameter(EvenstepError, ValueError):
    """A constructor argument of a packer, balancer or cost model outside its range or of an unsupported type."""


class Oversized(EvenstepError, ValueError):
    """A sample that fits in no pack, under ``Oversize.ERROR``.

    Attributes: ``index``, ``resource``, ``amount``, ``limit``.
    """

    def __init__(self, message: str, index: int, resource: str, amount: int, limit: int) -> None:
        super().__init__(message)
        self.index, self.resource, self.amount, self.limit = index, resource, amount, limit


class CannotCut(EvenstepError, ValueError):
    """A sample that would have to be cut, but carries amounts (images) whose place in it is unknown."""


class CannotServe(EvenstepError, ValueError):
    """A packer or balancer was asked for something that it says it does not do; raised before any work."""


class InvalidName(EvenstepError, ValueError):
    """A name or text that stands for no algorithm."""


class MissingExtra(EvenstepError, ImportError):
    """An optional dependency is not installed. Attribute: ``extra``, the extra that brings it."""

    def __init__(self, message: str, extra: str) -> None:
        super().__init__(message)
        self.extra = extra
