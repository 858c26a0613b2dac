"""What every figure shares: float64 arrays, a mask, and a mean along any axes."""

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
    """Float64 numbers of an array, a tensor or a list."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)


def as_mask(mask: Values) -> npt.NDArray[np.bool_]:
    """Truth values of an array, a tensor or a list."""
    if hasattr(mask, "detach"):
        mask = mask.detach().cpu().numpy()
    return np.asarray(mask, dtype=bool)


def pair(actual: Values, forecast: Values) -> tuple[Array, Array]:
    """Both as arrays, refused when their shapes differ, because broadcasting would compare the wrong values."""
    left, right = as_array(actual), as_array(forecast)
    if left.shape != right.shape:
        raise DataError(f"actual and forecast must have one shape, but got {left.shape} and {right.shape}")
    return left, right


def observed(actual: Array, mask: Values | None) -> npt.NDArray[np.bool_]:
    """Where an actual value counts: it is a number, and the mask (true = counts) does not leave it out."""
    seen = ~np.isnan(actual)
    return seen if mask is None else seen & np.broadcast_to(as_mask(mask), actual.shape)


def mean(values: Array, counts: npt.NDArray[np.bool_], axis: Axis) -> Any:
    """Mean over what counts, NaN where nothing does; a float when nothing is left of the shape."""
    total = total_of(values, counts, axis)
    number = np.asarray(np.sum(counts, axis=axis))
    return plain(np.where(number > 0, total / np.maximum(number, 1), np.nan))


def total_of(values: Array, counts: npt.NDArray[np.bool_], axis: Axis) -> Array:
    """Sum over what counts."""
    return np.asarray(np.sum(np.where(counts, values, 0.0), axis=axis, dtype=np.float64))


def ratio(numerator: Array, denominator: Array) -> Array:
    """The quotient, NaN where the denominator is 0."""
    usable = denominator != 0
    with np.errstate(over="ignore"):  # infinite is the honest answer
        return np.where(usable, numerator / np.where(usable, denominator, 1.0), np.nan)


def plain(values: Array) -> Any:
    """A Python float for a single number, the array otherwise."""
    return float(values) if np.ndim(values) == 0 else values
