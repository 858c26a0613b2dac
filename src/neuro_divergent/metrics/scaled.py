"""Metrics relative to a naive forecast: MASE, RMSSE, OWA.

The naive error is computed from the `history` before the forecast ([..., T], the last axis is time), or given as
`scale`, broadcastable to `actual`. A history that repeats its season exactly has naive error 0: its series is excluded.
For a weighted mean over series, reduce along axis=-1 first and weight the results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.metrics.arrays import Array, Axis, Values, as_array, mean, observed, pair, plain, ratio
from neuro_divergent.metrics.point import smape


def naive_scale(history: Values, seasonality: int = 1, *, squared: bool = False) -> Array:
    """Return the mean absolute (or squared) seasonal naive error of a history, [..., T] → [..., 1], without NaNs.

    >>> naive_scale([1.0, 3.0, 2.0])
    array([1.5])
    """
    y = as_array(history)
    if seasonality < 1 or y.shape[-1] <= seasonality:
        raise DataError(
            f"seasonality must be at least 1 and less than the history's length, but got {seasonality=} and "
            f"{y.shape[-1]} values. Use a longer history or a shorter season"
        )
    step = y[..., seasonality:] - y[..., :-seasonality]
    error = np.square(step) if squared else np.abs(step)
    return np.asarray(mean(error, ~np.isnan(step), -1))[..., None]


def mase(
    actual: Values,
    forecast: Values,
    *,
    history: Values | None = None,
    seasonality: int = 1,
    scale: Values | None = None,
    mask: Values | None = None,
    axis: Axis = None,
) -> Any:
    """Mean absolute error divided by the seasonal naive error of the history (Hyndman & Koehler 2006)."""
    y, f = pair(actual, forecast)
    by = _scale(y, history, seasonality, scale, squared=False)
    return mean(ratio(np.abs(f - y), by), observed(y, mask) & _usable(by), axis)


def rmsse(
    actual: Values,
    forecast: Values,
    *,
    history: Values | None = None,
    seasonality: int = 1,
    scale: Values | None = None,
    mask: Values | None = None,
    axis: Axis = None,
) -> Any:
    """Root of the mean squared error divided by the mean squared naive error (M5; `scale` is that squared error)."""
    y, f = pair(actual, forecast)
    by = _scale(y, history, seasonality, scale, squared=True)
    return plain(np.sqrt(mean(ratio(np.square(f - y), by), observed(y, mask) & _usable(by), axis)))


def owa(
    actual: Values,
    forecast: Values,
    naive: Values,
    *,
    history: Values | None = None,
    seasonality: int = 1,
    scale: Values | None = None,
    mask: Values | None = None,
    axis: Axis = None,
) -> Any:
    """Overall weighted average of the M4 competition: the mean of sMAPE and MASE, each divided by that of `naive`.

    In M4 `naive` is Naive2. Below 1 the forecast is better than `naive`.
    """
    options: dict[str, Any] = {"history": history, "seasonality": seasonality, "scale": scale}
    ratios = [
        ratio(
            np.asarray(figure(actual, forecast, mask=mask, axis=axis, **rest)),
            np.asarray(figure(actual, naive, mask=mask, axis=axis, **rest)),
        )
        for figure, rest in ((smape, {}), (mase, options))
    ]
    return plain((ratios[0] + ratios[1]) / 2)


def _scale(y: Array, history: Values | None, seasonality: int, scale: Values | None, *, squared: bool) -> Array:
    if (history is None) == (scale is None):
        raise ConfigError("a scaled metric needs either history or scale, but got both or none")
    by = as_array(scale) if scale is not None else naive_scale(as_array(history), seasonality, squared=squared)  # type: ignore[arg-type]
    return np.broadcast_to(by, y.shape)


def _usable(scale: Array) -> Any:
    return (scale > 0) & np.isfinite(scale)
