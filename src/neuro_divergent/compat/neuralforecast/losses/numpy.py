"""Metrics of arrays. `weights` and `axis` are those of numpy.average, and missing values are left out."""

from __future__ import annotations

from typing import Any

import numpy as np


def _mean(values: Any, weights: Any, axis: int | None) -> Any:
    missing = np.isnan(values)
    shares = np.where(missing, 0.0, 1.0 if weights is None else weights)
    return (np.where(missing, 0.0, values) * shares).sum(axis=axis) / shares.sum(axis=axis)


def _share(part: Any, whole: Any) -> Any:
    return np.divide(part, whole, out=np.zeros_like(part, dtype=float), where=whole != 0)


def mae(y: Any, y_hat: Any, weights: Any = None, axis: int | None = None) -> Any:
    """Mean absolute error."""
    return _mean(np.abs(y - y_hat), weights, axis)


def mse(y: Any, y_hat: Any, weights: Any = None, axis: int | None = None) -> Any:
    """Mean squared error."""
    return _mean(np.square(y - y_hat), weights, axis)


def rmse(y: Any, y_hat: Any, weights: Any = None, axis: int | None = None) -> Any:
    """Root of the mean squared error."""
    return np.sqrt(mse(y, y_hat, weights, axis))


def mape(y: Any, y_hat: Any, weights: Any = None, axis: int | None = None) -> Any:
    """Mean absolute percentage error as a fraction; 0 where the actual value is 0."""
    return _mean(_share(np.abs(y - y_hat), np.abs(y)), weights, axis)


def smape(y: Any, y_hat: Any, weights: Any = None, axis: int | None = None) -> Any:
    """Symmetric mean absolute percentage error as a fraction, 0 to 2."""
    return 2 * _mean(_share(np.abs(y - y_hat), np.abs(y) + np.abs(y_hat)), weights, axis)


def mase(y: Any, y_hat: Any, y_train: Any, seasonality: int, weights: Any = None, axis: int | None = None) -> Any:
    """Mean absolute error relative to that of the seasonal naive forecast inside y_train."""
    return mae(y, y_hat, weights, axis) / mae(y_train[:-seasonality], y_train[seasonality:], None, axis)


def rmae(y: Any, y_hat1: Any, y_hat2: Any, weights: Any = None, axis: int | None = None) -> Any:
    """Mean absolute error of one forecast relative to that of another one."""
    return mae(y, y_hat1, weights, axis) / mae(y, y_hat2, weights, axis)


def quantile_loss(y: Any, y_hat: Any, q: float = 0.5, weights: Any = None, axis: int | None = None) -> Any:
    """Mean quantile loss of one quantile."""
    error = y - y_hat
    return _mean(np.maximum(q * error, (q - 1) * error), weights, axis)


def mqloss(y: Any, y_hat: Any, quantiles: Any, weights: Any = None, axis: int | None = None) -> Any:
    """Mean quantile loss of several quantiles, which are along the last dimension of y_hat."""
    error = np.expand_dims(y, -1) - y_hat
    levels = np.asarray(quantiles)
    values = np.maximum(levels * error, (levels - 1) * error).mean(axis=-1)
    return _mean(values, weights, axis)
