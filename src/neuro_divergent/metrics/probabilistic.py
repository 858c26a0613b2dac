"""Metrics of quantile and interval forecasts. Masks and axes are as for point forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.metrics.arrays import Array, Axis, Values, as_array, mean, observed, pair, plain, ratio, total_of


def pinball(actual: Values, forecast: Values, *, q: float, mask: Values | None = None, axis: Axis = None) -> Any:
    """Mean pinball loss of a forecast of the q-quantile."""
    y, f = pair(actual, forecast)
    return mean(_pinball(y, f, _levels([q])[0]), observed(y, mask), axis)


def crps_quantiles(
    actual: Values, forecast: Values, *, levels: Sequence[float], mask: Values | None = None, axis: Axis = None
) -> Any:
    """Continuous ranked probability score from quantiles: twice the mean pinball loss over the levels.

    `forecast` is the shape of `actual` plus one last dimension for the levels; `axis` is an axis of `actual`.
    """
    y, values = _crps(actual, forecast, levels)
    return mean(values, observed(y, mask), axis)


def scaled_crps(
    actual: Values, forecast: Values, *, levels: Sequence[float], mask: Values | None = None, axis: Axis = None
) -> Any:
    """Sum of the CRPS divided by the sum of |actual| along the axis; NaN if all actual values are 0."""
    y, values = _crps(actual, forecast, levels)
    counts = observed(y, mask)
    return plain(ratio(total_of(values, counts, axis), total_of(np.abs(y), counts, axis)))


def coverage(actual: Values, lower: Values, upper: Values, *, mask: Values | None = None, axis: Axis = None) -> Any:
    """Share of actual values inside the interval, including its ends."""
    y, low = pair(actual, lower)
    _, high = pair(actual, upper)
    inside = np.where(np.isnan(low) | np.isnan(high), np.nan, (low <= y) & (y <= high))
    return mean(inside, observed(y, mask), axis)


def interval_score(
    actual: Values, lower: Values, upper: Values, *, level: float, mask: Values | None = None, axis: Axis = None
) -> Any:
    """Mean of interval width plus 2/α times the distance outside (Gneiting & Raftery 2007), α = 1 - level/100."""
    if not 0 < level < 100:
        raise ConfigError(f"level must be a percentage between 0 and 100, both excluded, but got {level=}")
    y, low = pair(actual, lower)
    _, high = pair(actual, upper)
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return mean(high - low + 2 / (1 - level / 100) * outside, observed(y, mask), axis)


def _pinball(y: Array, f: Array, q: float | Array) -> Array:
    return np.maximum(q * (y - f), (q - 1) * (y - f))


def _crps(actual: Values, forecast: Values, levels: Sequence[float]) -> tuple[Array, Array]:
    y, f, q = as_array(actual), as_array(forecast), _levels(levels)
    if f.shape != (*y.shape, q.size):
        raise DataError(f"forecast must be of shape {(*y.shape, q.size)} for {q.size} levels, but got {f.shape}")
    return y, 2 * _pinball(y[..., None], f, q).mean(axis=-1)


def _levels(levels: Sequence[float]) -> Array:
    q = np.asarray(levels, dtype=np.float64)
    if q.size == 0 or not ((q > 0) & (q < 1)).all():
        raise ConfigError(f"levels must lie between 0 and 1, both excluded, but got {levels}")
    return q
