"""Errors of moving packs: each names rank, step and phase, as text and as attributes."""

from __future__ import annotations

from packing.errors import EvenstepError

__all__ = [
    "BadPayload",
    "CannotCarry",
    "CannotResume",
    "CannotWrap",
    "ExchangeError",
    "ExchangeTimeout",
    "ForkedProcess",
    "InvalidLoader",
    "RankClosed",
    "RankDisagreement",
    "RankFailed",
    "RankLost",
]


class InvalidLoader(EvenstepError, ValueError):
    """An argument, or a value of ``loads``, that cannot be used. Arguments: before any rank is waited for."""


class CannotWrap(EvenstepError, TypeError):
    """A source that is not iterable, or that communicates by itself, which must not happen beside ours."""


class CannotResume(EvenstepError, ValueError):
    """A state that does not fit this loader, its ranks, or its source."""


class ForkedProcess(EvenstepError, RuntimeError):
    """A loader that is used in a process forked from the one that built it."""


class CannotCarry(EvenstepError, TypeError):
    """A value inside a pack that cannot travel bit by bit. Attribute: ``path``, its place in the pack."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


class BadPayload(EvenstepError, RuntimeError):
    """Bytes that are not a packed value: damaged, or of another version."""


class ExchangeError(EvenstepError, RuntimeError):
    """Base of the errors that end a pass. Every rank raises the same one; a rank that failed raises its own instead.

    Where ranks cannot tell each other (the store is gone, or an exchange between devices hangs) each says what it sees.

    Attributes: ``ranks`` that caused it, ``step``, ``phase``.
    """

    def __init__(self, message: str, ranks: tuple[int, ...], step: int, phase: str) -> None:
        super().__init__(message)
        self.ranks, self.step, self.phase = ranks, step, phase


class RankDisagreement(ExchangeError):
    """Arguments, places in the data, or plans differ between ranks. Nothing was moved."""


class RankFailed(ExchangeError):
    """Another rank raised an exception, in its source, planner or exchange. Attribute ``details``: its traceback."""

    details: str = ""


class RankClosed(ExchangeError):
    """A rank closed its loader while another still asks for packs."""


class RankLost(ExchangeError):
    """A rank died, or broke off the exchange."""


class ExchangeTimeout(ExchangeError):
    """A rank did not arrive in time: it is dead, stopped, or its training loop does not ask for packs."""
