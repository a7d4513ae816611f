"""Errors of balancing; `packing.errors` holds the base and what both share."""

from __future__ import annotations

from packing.errors import EvenstepError

__all__ = ["Infeasible", "InvalidGrid", "InvalidPlan", "InvalidProblem", "NoPlanFound"]


class InvalidGrid(EvenstepError, ValueError):
    """A grid with a number out of range."""


class InvalidProblem(EvenstepError, ValueError):
    """Loads, homes or sizes that no plan can be made of."""


class InvalidPlan(EvenstepError, ValueError):
    """An assignment that loses a pack, names a cell that is not there, or breaks a count: a bug in its balancer."""


class Infeasible(EvenstepError, ValueError):
    """No assignment at all satisfies what was asked; the text shows why."""


class NoPlanFound(EvenstepError, RuntimeError):
    """A heuristic found no plan that respects the constraints; there may be one. The text says what to try."""
