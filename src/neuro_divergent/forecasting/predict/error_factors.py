"""The correlation of forecast errors between series, learned from the past and stored with the weights.

Series of one hierarchy have correlated errors: a good year is good everywhere. Draws that ignore this make totals look
far too certain, because independent errors cancel in a sum.

Letters: n series, M moments, H steps, K factors, N draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.grid import grid_shifts
from neuro_divergent.forecasting.predict.historical import Origins

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

Floats = npt.NDArray[np.float64]

FACTORS = 16
"""Maximum number of common factors of the errors. The rest of each error is independent."""

MOST_FORECASTS = 100_000
"""At most about this many past forecasts are made to measure the correlation of errors."""

_BUFFER = "error_factors"


def with_factors(network: nn.Module, series: int) -> nn.Module:
    """The network with buffers for the factors of its errors. Until they are learned, errors count as independent."""
    network.register_buffer(_BUFFER, torch.zeros(FACTORS, series))
    return network


def learn_factors(forecaster: Forecaster, order: npt.NDArray[np.int64]) -> None:
    """Measure a fitted model's errors at the end of its data. `order` is the series of each column of the factors."""
    errors = past_errors(forecaster, forecaster.data)
    if errors is not None:
        found = torch.from_numpy(factors(errors[order]))
        forecaster.network.get_buffer(_BUFFER).copy_(found)


def mixed(network: nn.Module, normal: Floats, common: Floats) -> Floats:
    """[n, ...] standard normal draws, correlated like the errors, from [n, ...] and [K, ...] independent ones."""
    loading = network.get_buffer(_BUFFER).double().cpu().numpy()
    own = np.sqrt(np.maximum(1.0 - np.square(loading).sum(axis=0), 0.0))
    return np.asarray(np.tensordot(loading.T, common, axes=1) + own.reshape(-1, *[1] * (normal.ndim - 1)) * normal)


def past_errors(forecaster: Forecaster, table: TimeSeriesDataFrame) -> Floats | None:
    """[n, M, H] errors at the last forecast origins that all series share; None for fewer than three."""
    store, h = table.store, forecaster.model.h
    shifts = grid_shifts(store)
    last = int((shifts + store.lengths).min()) - h
    first = max(int(shifts.max()) + 1, last - max(last // 5, 20))
    most = max(3, MOST_FORECASTS // max(1, table.n_series))
    moments = np.unique(np.linspace(first, last, min(most, max(last - first + 1, 0))).astype(np.int64))
    if len(moments) < 3:
        return None
    series = np.repeat(np.arange(table.n_series), len(moments))
    time = np.tile(moments, table.n_series) - shifts[series]
    origins = Origins.at(table, series, time, h)
    errors = origins.actual() - origins.points(forecaster)
    return np.nan_to_num(errors).reshape(table.n_series, len(moments), h)


def factors(errors: Floats) -> Floats:
    """[K, n] loadings L: the correlation of the errors is about LᵀL off the diagonal.

    Correlations are about zero, not about the mean: a common bias counts as correlation. They are shrunk towards 0 by
    the share of their size that is sampling noise (Schäfer & Strimmer 2005), here over forecast origins.
    """
    n, moments, steps = errors.shape
    spread = np.sqrt(np.square(errors).mean(axis=1, keepdims=True))
    scores = np.divide(errors, spread, out=np.zeros_like(errors), where=spread > 0)
    rows = scores.transpose(1, 2, 0).reshape(moments * steps, n)
    gram = rows @ rows.T
    kept = 1.0 - _noise_share(gram, scores)
    value, vector = np.linalg.eigh(gram)
    top = vector[:, np.argsort(value)[::-1][:FACTORS]]
    result = np.zeros((FACTORS, n))
    result[: top.shape[1]] = np.sqrt(kept / len(rows)) * (top.T @ rows)
    return result


def _noise_share(gram: Floats, scores: Floats) -> float:
    """Σ var(r_ij) / Σ r_ij² over pairs of series, without the n × n matrix: Σ r_ij² is a norm of the Gram matrix."""
    _, moments, steps = scores.shape
    blocks = gram.reshape(moments, steps, moments, steps)
    own = np.square(scores).mean(axis=2)
    each = np.array([np.square(blocks[m, :, m]).sum() / steps**2 - np.square(own[:, m]).sum() for m in range(moments)])
    mean = np.square(gram).sum() / (moments * steps) ** 2 - np.square(own.mean(axis=1)).sum()
    if mean <= 0:
        return 1.0
    return float(np.clip((each.mean() - mean) / (moments - 1) / mean, 0.0, 1.0))
