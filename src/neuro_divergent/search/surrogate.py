"""A surrogate of the scores of a search: a Gaussian process, for partial dependence.

A partial dependence is the mean of the surrogate's scores when one value is set for all trials, and the other values
stay as each trial has them (Friedman 2001).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.space.dimensions import Choice, Dimension, Integers, LogUniform
from neuro_divergent.core.space.options import Label

Array = npt.NDArray[np.float64]
MOST_TRIALS = 500
"""The surrogate is fitted to the last trials, at most this many."""
LENGTHS, NOISES = (0.25, 0.5, 1.0, 2.0), (0.01, 0.1, 0.5)


@dataclass(frozen=True)
class Dependence:
    """How the score depends on one value."""

    values: list[Label]
    """Values of the dimension."""
    mean: Array
    """Mean score of the surrogate at each value."""
    low: Array
    """Of nine in ten trials the surrogate's score is above this."""
    high: Array
    """Of nine in ten trials the surrogate's score is below this."""


def partial_dependence(
    points: Sequence[Mapping[str, Label]], scores: Sequence[float], dimensions: Mapping[str, Dimension], name: str
) -> Dependence:
    """The partial dependence of the scores on one name, over the trials that have it."""
    own = [(point, score) for point, score in zip(points, scores, strict=True) if name in point][-MOST_TRIALS:]
    names = [other for other in dimensions if any(other in point for point, _ in own)]
    x = _matrix([point for point, _ in own], dimensions, names)
    y = _without_outliers(np.array([score for _, score in own], dtype=np.float64))
    predict = _fit(x, y)
    values = dimensions[name].grid(25) if not isinstance(dimensions[name], Choice) else dimensions[name].grid(1)
    moved = (_matrix([{**point, name: value} for point, _ in own], dimensions, names) for value in values)
    found = np.array([predict(one) for one in moved])
    return Dependence(values, found.mean(axis=1), *np.quantile(found, [0.1, 0.9], axis=1))


def _matrix(points: Sequence[Mapping[str, Label]], dimensions: Mapping[str, Dimension], names: Sequence[str]) -> Array:
    return np.array([_coordinates(point, dimensions, names) for point in points])


def share_of(dimension: Dimension, value: Any) -> float:
    """Where a number lies in its range, from 0 to 1; on the logarithmic scale for a logarithmic range."""
    assert not isinstance(dimension, Choice)
    low, high = float(dimension.low), float(dimension.high)  # type: ignore[attr-defined]
    if is_log(dimension):
        return float(np.log(value / low) / np.log(high / low))
    return (float(value) - low) / (high - low)


def is_log(dimension: Dimension) -> bool:
    """Whether the range is logarithmic."""
    return isinstance(dimension, LogUniform) or (isinstance(dimension, Integers) and dimension.log)


def _coordinates(point: Mapping[str, Label], dimensions: Mapping[str, Dimension], names: Sequence[str]) -> list[float]:
    """A point as numbers: a range from 0 to 1, a choice as one column per value, and a column for what is missing."""
    found: list[float] = []
    for name in names:
        dimension, known = dimensions[name], name in point
        found.append(float(known))
        if isinstance(dimension, Choice):
            found += [0.7 * float(known and point[name] == label) for label in dimension.labels]
        else:
            found.append(share_of(dimension, point[name]) if known else 0.5)
    return found


def _without_outliers(scores: Array) -> Array:
    """Scores with those of failed trainings, which are far too bad, moved to the fence of a box plot."""
    first, third = np.quantile(scores, [0.25, 0.75])
    reach = 3.0 * (third - first) or np.inf
    return np.clip(scores, first - reach, third + reach)


def _fit(x: Array, y: Array) -> Any:
    """The posterior mean of a Gaussian process whose length and noise have the largest likelihood of a small grid."""
    centre, scale = y.mean(), y.std() or 1.0
    z = (y - centre) / scale
    best: tuple[float, float, Array] | None = None
    for length in LENGTHS:
        kernel = _kernel(x, x, length)
        for noise in NOISES:
            lower = np.linalg.cholesky(kernel + noise * np.eye(len(x)))
            alpha = np.linalg.solve(lower.T, np.linalg.solve(lower, z))
            evidence = float(-0.5 * z @ alpha - np.log(np.diag(lower)).sum())
            if best is None or evidence > best[0]:
                best = evidence, length, alpha
    assert best is not None
    _, length, alpha = best
    return lambda new: centre + scale * (_kernel(new, x, length) @ alpha)


def _kernel(a: Array, b: Array, length: float) -> Array:
    """Matérn 5/2."""
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    distance = np.sqrt(5.0 * np.maximum(squares, 0.0)) / length
    kernel: Array = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    return kernel
