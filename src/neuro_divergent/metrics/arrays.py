"""Helpers of all metrics: float64 arrays, masks, and means along any axes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import DataError

Array = npt.NDArray[np.float64]
Axis = int | tuple[int, ...] | None


class _Tensor(Protocol):
    def detach(self) -> Any: ...


Values = npt.ArrayLike | _Tensor
"""Numbers: an array, a tensor on any device, a nested list, or one number."""


def as_array(values: Values) -> Array:
    """Return an array, a tensor or a list as a float64 array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)


def as_mask(mask: Values) -> npt.NDArray[np.bool_]:
    """Return an array, a tensor or a list as a bool array."""
    if hasattr(mask, "detach"):
        mask = mask.detach().cpu().numpy()
    return np.asarray(mask, dtype=bool)


def pair(actual: Values, forecast: Values) -> tuple[Array, Array]:
    """Return both as arrays. Different shapes are refused, because broadcasting would compare the wrong values."""
    left, right = as_array(actual), as_array(forecast)
    if left.shape != right.shape:
        raise DataError(f"actual and forecast must have the same shape, but got {left.shape} and {right.shape}")
    return left, right


def observed(actual: Array, mask: Values | None) -> npt.NDArray[np.bool_]:
    """Return where an actual value counts: it is not NaN, and the mask (true = counts) does not exclude it."""
    seen = ~np.isnan(actual)
    return seen if mask is None else seen & np.broadcast_to(as_mask(mask), actual.shape)


def mean(values: Array, counts: npt.NDArray[np.bool_], axis: Axis) -> Any:
    """Return the mean over the values that count, NaN if none does; a float if the result is a single number."""
    total = total_of(values, counts, axis)
    number = np.asarray(np.sum(counts, axis=axis))
    return plain(np.where(number > 0, total / np.maximum(number, 1), np.nan))


def total_of(values: Array, counts: npt.NDArray[np.bool_], axis: Axis) -> Array:
    """Return the sum over the values that count."""
    return np.asarray(np.sum(np.where(counts, values, 0.0), axis=axis, dtype=np.float64))


def ratio(numerator: Array, denominator: Array) -> Array:
    """Return the quotient, NaN where the denominator is 0."""
    usable = denominator != 0
    with np.errstate(over="ignore"):  # an overflow is correctly infinite
        return np.where(usable, numerator / np.where(usable, denominator, 1.0), np.nan)


def plain(values: Array) -> Any:
    """Return a Python float for a single number, otherwise the array."""
    return float(values) if np.ndim(values) == 0 else values
