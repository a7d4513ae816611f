"""From measured times to a cost model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import fsum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from packing.arrays import Int64, read_only
from packing.errors import InvalidParameter

from .cost import Linear, amount_of

__all__ = ["Fit", "fit"]

LOGGER = logging.getLogger(__name__)

Float64 = NDArray[np.float64]

ROUNDS = 30  # of reweighting, with Huber's weights and then as many with Tukey's
HUBER, TUKEY = 1.345, 4.685  # in standard deviations: where each begins to doubt a timing, and where Tukey drops it
TO_DEVIATION = 1.4826  # of normal noise: standard deviation / median absolute residual
LEAST_NOISE = 0.02  # of timings, relative: one within a few percent keeps its say, however exact the others are
DEPENDENT = 1e-6  # what is left of a column, scaled to 1, once the others explain it
RESOLUTION = 1e-6  # of a coefficient of Linear, in us


@dataclass(frozen=True, eq=False)
class Fit:
    """A cost model with how well it explains the timings it was made from.

    ``relative_error``: median of |timing - model| / model. ``residuals_us``: (n,) timing - model.
    ``n_outliers``: timings too far off to have had a say.
    """

    model: Linear
    relative_error: float
    residuals_us: Float64
    n_outliers: int

    def drift(self, amounts: Mapping[str, Int64], timings_us: ArrayLike) -> float:
        """Return how far new timings are off, as the median of (timing - model) / model: 0.1 is 10 % slower."""
        names = [name for name, _ in self.model.us_per]
        columns, timings = _checked(amounts, timings_us, names, least=1)
        coefficients = [self.model.fixed_us, *(us for _, us in self.model.us_per)]
        return float(np.median(_relative(timings, _combined(columns, coefficients))))

    def drifted(self, amounts: Mapping[str, Int64], timings_us: ArrayLike, tolerance: float = 0.1) -> bool:
        """Return whether new timings are off by more than ``tolerance``, up or down: then it is time to `fit` again.
        That is logged as a warning too."""
        off = self.drift(amounts, timings_us)
        if abs(off) > tolerance:
            LOGGER.warning(
                "timings are %+.1f %% off the fitted cost model (tolerance %.1f %%): fit again",
                100 * off,
                100 * tolerance,
            )
        return abs(off) > tolerance


def fit(amounts: Mapping[str, Int64], timings_us: ArrayLike, columns: Sequence[str] = ("image_tokens",)) -> Fit:
    """Return the `Linear` of a fixed time and one time per unit of each of ``columns`` that best explains the timings.

    ``amounts``: (n,) each, what each timed pack held, as of `Packing.sums`; those not in ``columns`` are not looked at.
    ``timings_us``: (n,) microseconds.
    Iteratively reweighted least squares on relative residuals, with Huber's weights, then Tukey's, so that up to a
    third of the timings may be far off; coefficients are >= 0 and rounded to 1e-6 us.

    Nothing is random and nothing depends on the machine: sums are rounded once, the equations are solved in fractions.
    Ranks that see the same timings get the same model, also while training runs. O(n) time, some 100 ms for 10,000.
    Raises `InvalidParameter` for too few timings, one that is NaN, infinite or negative, or columns that the timings
    cannot tell apart.
    """
    if isinstance(columns, str) or len(set(columns)) != len(columns):
        raise InvalidParameter(f"columns must be different names of amounts; got {columns!r}.")
    if "fixed_us" in columns:
        raise InvalidParameter('"fixed_us" is fitted anyway; columns name amounts of the packs.')
    parts, timings = _checked(amounts, timings_us, columns, least=len(columns) + 3)
    sizes = [float(part.max(initial=0)) or 1.0 for part in parts]
    scaled = [part / size for part, size in zip(parts, sizes, strict=True)]
    _refuse_dependent(scaled, columns)

    floor = max(float(np.median(timings)) * 1e-3, RESOLUTION)  # a relative residual of less would be noise
    weights = np.ones_like(timings)
    for round_ in range(2 * ROUNDS):
        coefficients = _least_squares(scaled, timings, weights)
        expected = _combined(scaled, coefficients).clip(min=floor)
        off = np.abs(timings - _combined(scaled, coefficients)) / expected
        deviations = off / max(TO_DEVIATION * float(np.median(off)), LEAST_NOISE)
        if round_ < ROUNDS:
            trust = HUBER / deviations.clip(min=HUBER)
        else:
            trust = (1 - (deviations / TUKEY).clip(max=1) ** 2) ** 2
        weights = trust / expected**2

    us = [round(c / size, 6) for c, size in zip(coefficients, sizes, strict=True)]
    model = Linear(us[0], **dict(zip(columns, us[1:], strict=True)))
    predicted = _combined(parts, us)
    error = float(np.median(np.abs(_relative(timings, predicted))))
    return Fit(model, error, read_only(timings - predicted), int((deviations >= TUKEY).sum()))


def _checked(
    amounts: Mapping[str, Int64], timings_us: ArrayLike, columns: Sequence[str], least: int
) -> tuple[list[Float64], Float64]:
    """Return a column of ones and the named columns, (n,) each, and the timings, (n,)."""
    if np.ma.is_masked(timings_us):
        raise InvalidParameter("timings_us must not be masked; leave out what is missing.")
    try:
        timings = np.array(timings_us, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"timings_us must be a row of numbers; {error}.") from error
    if timings.ndim != 1 or len(timings) < least:
        raise InvalidParameter(
            f"timings_us must be a row of at least {least} timings; got shape {timings.shape}. Time more packs."
        )
    bad = ~np.isfinite(timings) | (timings < 0)
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidParameter(f"timings must be finite and >= 0; timings_us[{i}] = {timings[i]}. Leave it out.")
    parts = [np.ones_like(timings)]
    for name in columns:
        part = amount_of(amounts, name, "fit is asked for the column").astype(np.float64)
        if part.shape != timings.shape:
            raise InvalidParameter(f'"{name}" must have one amount per timing; {part.shape} for {timings.shape}.')
        parts.append(part)
    return parts, timings


def _refuse_dependent(scaled: list[Float64], columns: Sequence[str]) -> None:
    """Raise if a column is constant or a combination of those before it."""
    for n, name in enumerate(columns, start=1):
        if np.ptp(scaled[n]) == 0:
            raise InvalidParameter(
                f'"{name}" is the same in every timed pack, so its time cannot be told from the fixed time. '
                f"Time packs that differ in it, or leave it out of columns."
            )
        explained = _combined(scaled[:n], _solution(*_equations(scaled[:n], scaled[n], np.ones_like(scaled[n]))))
        if float(np.abs(scaled[n] - explained).max()) < DEPENDENT:
            raise InvalidParameter(
                f'"{name}" is a combination of the columns before it in every timed pack, so their times cannot be '
                f"told apart. Leave it out of columns."
            )


def _least_squares(parts: list[Float64], timings: Float64, weights: Float64) -> list[float]:
    """Return the coefficients >= 0 of the least weighted sum of squared residuals.

    If the least of all has a negative one, some set of the others is the answer: all are tried, and with the few
    coefficients of a cost model that is quick.
    """
    matrix, target = _equations(parts, timings, weights)
    indices = range(len(parts))
    best, chosen = Fraction(0), [Fraction(0)] * len(parts)
    for n_used in reversed(indices):
        for used in combinations(indices, n_used + 1):
            solution = _solution([[matrix[i][j] for j in used] for i in used], [target[i] for i in used])
            gain = sum((c * target[i] for c, i in zip(solution, used, strict=True)), Fraction(0))
            if min(solution) >= 0 and gain > best:  # the residuals shrink by the gain
                best, chosen = gain, [Fraction(0)] * len(parts)
                for i, c in zip(used, solution, strict=True):
                    chosen[i] = c
        if n_used == len(parts) - 1 and best > 0:
            break
    return [float(c) for c in chosen]


def _equations(parts: list[Float64], target: Float64, weights: Float64) -> tuple[list[list[Fraction]], list[Fraction]]:
    """Return the normal equations; each sum is rounded once, in whatever order."""

    def dot(a: Float64, b: Float64) -> Fraction:
        return Fraction(fsum((weights * a * b).tolist()))

    return [[dot(a, b) for b in parts] for a in parts], [dot(a, target) for a in parts]


def _solution(matrix: list[list[Fraction]], target: list[Fraction]) -> list[Fraction]:
    """Solve a few linear equations of a positive definite matrix exactly, by elimination (Gauss-Jordan)."""
    rows = [[*row, value] for row, value in zip(matrix, target, strict=True)]
    for i, pivot in enumerate(rows):
        if pivot[i] <= DEPENDENT**2 * matrix[i][i]:
            raise InvalidParameter(
                "too few of the timings agree with each other to tell the columns apart. Time more packs, or leave out "
                "columns."
            )
        rows[i] = [value / pivot[i] for value in pivot]
        for j, row in enumerate(rows):
            if j != i:
                rows[j] = [a - row[i] * b for a, b in zip(row, rows[i], strict=True)]
    return [row[-1] for row in rows]


def _combined(parts: list[Float64], coefficients: Sequence[float | Fraction]) -> Float64:
    """Return the sum of the parts, each times its coefficient, (n,)."""
    total = np.zeros_like(parts[0])
    for part, coefficient in zip(parts, coefficients, strict=True):
        total += part * float(coefficient)
    return total


def _relative(timings: Float64, predicted: Float64) -> Float64:
    """Return the residuals in units of what was predicted, (n,)."""
    relative: Float64 = (timings - predicted) / predicted.clip(min=RESOLUTION)
    return relative
