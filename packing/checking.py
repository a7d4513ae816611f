"""What the property kits of packers and of balancers share: named failures, drawn cases, other processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TypeVar, cast

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, Unsatisfiable

from .algorithm import Algorithm
from .errors import EvenstepError
from .registry import Registry
from .replay import CONDITIONS, answers_under

__all__ = ["CheckFailed", "named", "on_drawn", "random_states", "refusal_asked", "repr_parses", "same_in_any_process"]

T = TypeVar("T")
A = TypeVar("A", bound=Algorithm)


class CheckFailed(EvenstepError, AssertionError):
    """A packer or balancer lacks a property that all must have, or that it claims. Attribute: ``check``, its name."""

    def __init__(self, message: str, check: str) -> None:
        super().__init__(message)
        self.check = check


def named(
    name: str, algorithm: Algorithm, case: object, check: Callable[[], None], passed: tuple[type[Exception], ...] = ()
) -> None:
    """Run ``check``; what it raises becomes `CheckFailed` with its name, the algorithm and the case.

    Errors in ``passed`` are no failures, and go to the caller.
    """
    try:
        check()
    except passed:
        raise
    except Exception as error:
        seen = str(error).split("\n", maxsplit=1)[0]
        seen = seen if isinstance(error, AssertionError) else f"{type(error).__name__}: {seen}"
        raise CheckFailed(f"{algorithm!r} fails {name} on {case!r}: {seen}", name) from error


def on_drawn(
    name: str, algorithm: Algorithm, check: Callable[[T], None], cases: st.SearchStrategy[T], max_examples: int
) -> Callable[[], None]:
    """Return a function that runs ``check`` on ``max_examples`` drawn cases, always the same ones."""

    @seed(0)  # derandomize would draw others when a line of code changes
    @settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),  # to explain takes longer than to find
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def run(case: T) -> None:
        check(case)

    def run_all() -> None:
        try:
            run()
        except Unsatisfiable:
            raise CheckFailed(f"{algorithm!r} fails {name}: it refuses every problem.", name) from None
        except Flaky as error:
            seen = "it failed on a problem, but not on the same problem again"
            raise CheckFailed(f"{algorithm!r} fails {name}: {seen}.", name) from error

    return run_all


def refusal_asked(ask: Callable[[], str | None], case: object) -> None:
    """Check that a refusal of ``case`` is a sentence, or None, the same when asked again, and changes nothing."""
    before = repr(case)
    first, second = ask(), ask()
    assert first is None or (isinstance(first, str) and first), f"refusal must return a sentence or None, not {first!r}"
    assert first == second, f"refusal said {first!r}, then {second!r}"
    assert repr(case) == before, f"refusal made {case!r} of it"


def repr_parses(registry: Registry[A], algorithm: A) -> None:
    """Check that the text of ``algorithm`` gives an equal one."""
    try:
        parsed: object = registry.parse(repr(algorithm), known=_classes(algorithm))
    except EvenstepError as error:
        parsed = error
    if parsed != algorithm or hash(parsed) != hash(algorithm):
        raise CheckFailed(
            f"{algorithm!r} fails repr_parses: its text gives {parsed!r}. Make it a frozen dataclass of plain values.",
            "repr_parses",
        )


def same_in_any_process(algorithm: Algorithm, answer: Callable[[T], str], cases: Mapping[str, T]) -> None:
    """Check that ``answer`` says the same of all ``cases``, by description, in three other processes."""
    here = []
    for which, case in cases.items():
        try:
            here.append(answer(case))
        except Exception as error:
            seen = f"{type(error).__name__}: {error}"
            raise CheckFailed(
                f"{algorithm!r} fails same_in_any_process on {which}: {seen}", "same_in_any_process"
            ) from error
    for condition, there in zip(CONDITIONS, answers_under(CONDITIONS, answer, [*cases.values()]), strict=True):
        if there == here:
            continue
        where, seen = "", f"{there}"
        if not isinstance(there, str):
            where = f" on {[*cases][[a == b for a, b in zip(here, there, strict=True)].index(False)]}"
            seen = "another answer than in this process"
        raise CheckFailed(
            f"{algorithm!r} fails same_in_any_process{where}: in a process with {condition.name}, {seen}.",
            "same_in_any_process",
        )


def random_states() -> list[object]:
    """Return the global random states, to compare."""
    name, keys, *rest = np.random.get_state()
    return [random.getstate(), name, bytes(keys), rest]  # type: ignore[arg-type]


def _classes(algorithm: A) -> set[type[A]]:
    """Return the class of an algorithm and of every algorithm inside it."""
    values = [getattr(algorithm, field.name) for field in fields(algorithm)]
    values += [each for value in values if isinstance(value, tuple) for each in value]
    inner = [_classes(cast("A", value)) for value in values if isinstance(value, Algorithm)]
    return {type(algorithm)}.union(*inner)
