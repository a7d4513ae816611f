"""The interface of balancers: you write `assign`, the base does the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar, final

from packing.algorithm import Algorithm
from packing.errors import CannotServe, InvalidParameter

from .errors import InvalidPlan, InvalidProblem
from .grid import Barrier, Counts
from .plan import Assignment, Plan
from .problem import Problem
from .window import one_step, window_cells

__all__ = ["Balancer"]


@dataclass(frozen=True)
class Balancer(Algorithm, ABC):
    """Decides which pack goes to which cell. Subclasses are frozen dataclasses of plain parameters.

    A plan is a function of the problem and these parameters alone: no clock, no global random state, ties by index.
    The class attributes say what a subclass claims; `balancers.testing.check_balancer` holds it to them.
    """

    portable: ClassVar[bool] = True  # the same plan on every CPU and platform; if not, one rank plans for all
    barriers: ClassVar[frozenset[Barrier]] = frozenset(Barrier)  # it serves problems with these
    free_counts_only: ClassVar[bool] = False  # it does not count packs
    takes_constraints: ClassVar[bool] = False  # it respects caps, packs that stay together, and bound packs
    takes_slowdown: ClassVar[bool] = False  # it serves ranks that differ in speed
    order_free: ClassVar[bool] = False  # permuting the packs, or homes of packs of equal load, leaves the cost as it is
    scale_free: ClassVar[bool] = False  # multiplying all loads by an integer leaves the cells as they are

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in fields(self):
            value: object = getattr(self, field.name)
            if isinstance(field.default, Balancer) and not isinstance(value, Balancer):
                raise InvalidParameter(
                    f"{type(self).__name__}.{field.name} must be a balancer, such as {field.default!r}; got {value!r}."
                )

    @abstractmethod
    def assign(self, problem: Problem) -> Assignment | Plan:
        """Return the cell of every pack; a cell takes ``fewest_per_cell`` to ``most_per_cell`` of the problem.

        A wrapper may return a plan of ``problem`` itself: it is verified already.
        """

    def refusal(self, problem: Problem) -> str | None:
        """Return why this balancer cannot serve ``problem``, or None if it can. Cheap: nothing is planned here."""
        if problem.grid.barrier not in self.barriers:
            served = " and ".join(sorted(barrier.name for barrier in self.barriers))
            return f"it serves the barrier {served}, not {problem.grid.barrier.name}"
        if problem.constraints and not self.takes_constraints:
            return f"it does not know {problem.constraints[0]}. Use Auto, ListScheduling, HillClimb or ILP"
        if problem.grid.slowdown and not self.takes_slowdown:
            return "it does not know ranks of different speed. Use Auto, ListScheduling, HillClimb or ILP"
        if self.free_counts_only and problem.grid.counts is not Counts.FREE:
            return "it does not count packs. Use Counts.FREE"
        return None

    @final
    def plan(self, problem: Problem) -> Plan:
        """Plan ``problem`` and verify the answer. A window of several steps is planned as one step of more micro-steps.

        Raises `CannotServe` before any work if the balancer refuses the problem, `InvalidProblem` for anything else
        than a problem, `InvalidPlan` if its answer is wrong.
        """
        given: object = problem
        if not isinstance(given, Problem):
            raise InvalidProblem(f"plan takes a Problem, such as Problem(loads, Grid(n_ranks)); got {given!r:.100}.")
        asked = problem if problem.grid.n_steps == 1 else one_step(problem) or problem
        reason = self.refusal(asked)
        if reason is not None:
            raise CannotServe(f"{self!r} cannot serve {problem.grid!r}: {reason}.")
        answer: object = self.assign(asked)
        if isinstance(answer, Plan) and answer.problem is problem:
            return answer.named(repr(self))
        if isinstance(answer, Plan):
            answer = Assignment(answer.cell, answer.lower_bound, answer.status)
        if not isinstance(answer, Assignment):
            raise InvalidPlan(f"{self!r}.assign must return Assignment(cell); got {type(answer).__name__}.")
        cell = answer.cell
        if asked is not problem:
            cell = window_cells(problem, Plan(asked, cell, repr(self)).cell)
        return Plan(problem, cell, repr(self), answer.status, answer.lower_bound)
