"""Curves with few points that look like the whole: the smallest and the largest value of each bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_POINTS = 4000
"""Largest number of points of a thinned curve."""

Floats = npt.NDArray[np.float64]


def thinned(x: Floats, y: Floats, points: int) -> tuple[Floats, Floats]:
    """At most about `points` of the points of a curve. A bucket gives its smallest and its largest value, in order.

    Values that are not finite are left out; a bucket without a finite value gives one NaN, which is a gap.

    >>> x, y = thinned(np.arange(6.0), np.array([0, 9, 1, 1, -5, 2.0]), 4)
    >>> x.tolist(), y.tolist()
    ([0.0, 1.0, 4.0, 5.0], [0.0, 9.0, -5.0, 2.0])
    """
    points = max(2, min(points, MOST_POINTS))
    if len(y) <= points:
        return x, y
    size = -(-len(y) // (points // 2))
    count = -(-len(y) // size)
    padded = np.full(count * size, np.nan)
    padded[: len(y)] = y
    table = padded.reshape(count, size)
    finite = np.isfinite(table)
    first = np.arange(count) * size
    low = first + np.where(finite, table, np.inf).argmin(axis=1)
    high = first + size - 1 - np.where(finite, table, -np.inf)[:, ::-1].argmax(axis=1)
    places = np.unique(np.minimum(np.concatenate([low, high]), len(y) - 1))
    return x[places], np.where(np.isfinite(y[places]), y[places], np.nan)


def smoothed(y: Floats, width: int) -> Floats:
    """The mean of the last `width` values at each place; values that are not finite do not count.

    >>> smoothed(np.array([1.0, 3.0, np.nan, 5.0]), 2).tolist()
    [1.0, 2.0, 3.0, 5.0]
    """
    if width <= 1:
        return y
    finite = np.isfinite(y)
    sums = np.concatenate([[0.0], np.cumsum(np.where(finite, y, 0.0))])
    counts = np.concatenate([[0], np.cumsum(finite)])
    last = np.arange(1, len(y) + 1)
    begin = np.maximum(0, last - width)
    number = counts[last] - counts[begin]
    return np.where(number > 0, (sums[last] - sums[begin]) / np.maximum(number, 1), np.nan)


def plain(values: Sequence[float] | Floats) -> list[float | None]:
    """Numbers for JSON, with 7 digits; None where a value is not finite.

    >>> plain([1.0, float("nan"), 1 / 3])
    [1.0, None, 0.3333333]
    """
    array = np.asarray(values, dtype=np.float64)
    return [float(f"{value:.7g}") if finite else None for value, finite in zip(array, np.isfinite(array), strict=True)]


def finite_only(value: Any) -> Any:
    """The same plain data with None in place of numbers that JSON cannot express."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): finite_only(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_only(item) for item in value]
    return value
