"""Metrics of point forecasts.

All take `actual` and `forecast` of the same shape (numpy, torch or lists), compute in float64, and reduce along `axis`:
for arrays [series, step], axis=1 gives one value per series, axis=0 one per horizon step, None one in all. A NaN in
`actual` or a false in `mask` excludes the value. A NaN in `forecast` at a value that counts makes the metric NaN: a
model must not look better by omitting forecasts. If no value counts, the metric is NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuro_divergent.metrics.arrays import Axis, Values, as_array, mean, observed, pair, plain, ratio, total_of


def mae(actual: Values, forecast: Values, *, mask: Values | None = None, axis: Axis = None) -> Any:
    """Mean absolute error.

    >>> mae([1, 2, 3], [1, 3, 5])
    1.0
    """
    y, f = pair(actual, forecast)
    return mean(np.abs(f - y), observed(y, mask), axis)


def mse(actual: Values, forecast: Values, *, mask: Values | None = None, axis: Axis = None) -> Any:
    """Mean squared error."""
    y, f = pair(actual, forecast)
    return mean(np.square(f - y), observed(y, mask), axis)


def rmse(actual: Values, forecast: Values, *, mask: Values | None = None, axis: Axis = None) -> Any:
    """Root of the mean squared error."""
    return plain(np.sqrt(mse(actual, forecast, mask=mask, axis=axis)))


def bias(actual: Values, forecast: Values, *, mask: Values | None = None, axis: Axis = None) -> Any:
    """Mean of forecast minus actual: positive if the forecasts are too high."""
    y, f = pair(actual, forecast)
    return mean(f - y, observed(y, mask), axis)


def bias_percent(actual: Values, forecast: Values, *, mask: Values | None = None, axis: Axis = None) -> Any:
    """Bias in percent, 100·Σ(forecast - actual) / Σ|actual|: positive if the forecasts are too high.

    For values of at least 0 this is the sum of the forecasts divided by the sum of the actual values, minus 1, in
    percent. It is NaN if all actual values are 0.

    >>> bias_percent([0, 10, 30], [0, 8, 24])
    -20.0
    """
    y, f = pair(actual, forecast)
    counts = observed(y, mask)
    return plain(ratio(100 * total_of(f - y, counts, axis), total_of(np.abs(y), counts, axis)))


def mape(actual: Values, forecast: Values, *, mask: Values | None = None, axis: Axis = None) -> Any:
    """Mean absolute percentage error, in percent. Actual values of 0 are excluded."""
    y, f = pair(actual, forecast)
    return mean(ratio(100 * np.abs(f - y), np.abs(y)), observed(y, mask) & (y != 0), axis)


def smape(actual: Values, forecast: Values, *, mask: Values | None = None, axis: Axis = None) -> Any:
    """Symmetric percentage error as in the M4 competition: mean of 200·|f - y| / (|y| + |f|), 0 to 200; 0/0 is 0."""
    y, f = pair(actual, forecast)
    size = np.abs(y) + np.abs(f)
    return mean(np.where(size == 0, 0.0, ratio(200 * np.abs(f - y), size)), observed(y, mask), axis)


def r2(actual: Values, forecast: Values, *, mask: Values | None = None, axis: Axis = None) -> Any:
    """Coefficient of determination: 1 - Σ(f - y)² / Σ(y - mean)². For constant actual values: 1 if exact, else 0."""
    y, f = pair(actual, forecast)
    counts = observed(y, mask)
    centre = np.sum(np.where(counts, y, 0.0), axis=axis, keepdims=True)
    centre = centre / np.maximum(np.sum(counts, axis=axis, keepdims=True), 1)
    unexplained, variation = (total_of(np.square(y - other), counts, axis) for other in (f, centre))
    share = np.where(variation == 0, np.where(unexplained == 0, 1.0, 0.0), 1 - ratio(unexplained, variation))
    share = np.where(np.isnan(unexplained) | (np.sum(counts, axis=axis) == 0), np.nan, share)
    return plain(share)


def directional_accuracy(
    actual: Values, forecast: Values, *, last: Values | None = None, mask: Values | None = None, axis: Axis = None
) -> Any:
    """Share of steps (along the last axis) where forecast and actual have the same direction from the previous actual.

    Args:
        actual: the true values.
        forecast: the forecasts, in the same shape.
        last: the actual value before the first step, [..., 1]; without it the first step is excluded.
        mask: true where a value counts.
        axis: the axis or axes to reduce.
    """
    y, f = pair(actual, forecast)
    before = np.full((*y.shape[:-1], 1), np.nan) if last is None else as_array(last).reshape(*y.shape[:-1], 1)
    previous = np.concatenate([before, y[..., :-1]], axis=-1)
    hit = np.where(np.isnan(f), np.nan, np.sign(y - previous) == np.sign(f - previous))
    return mean(hit, observed(y, mask) & ~np.isnan(previous), axis)


def accuracy(actual: Values, forecast: Values, *, mask: Values | None = None, axis: Axis = None) -> Any:
    """Share of correctly predicted classes."""
    y, f = pair(actual, forecast)
    return mean((y == f).astype(np.float64), observed(y, mask), axis)
