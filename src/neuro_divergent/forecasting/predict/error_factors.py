"""How forecast errors of different series go together, learned from the past and kept with the weights.

Series of one hierarchy err together: a good year is good everywhere. Draws that ignore this make totals look far more
certain than they are, because independent errors cancel in a sum.

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
"""How many common movements of the errors are kept; what they do not explain is each series' own."""

MOST_FORECASTS = 100_000
"""About so many past forecasts at most are made to see how errors go together."""

_BUFFER = "error_factors"


def with_factors(network: nn.Module, series: int) -> nn.Module:
    """A network with room for the factors of its errors; until they are learned, errors count as independent."""
    network.register_buffer(_BUFFER, torch.zeros(FACTORS, series))
    return network


def learn_factors(forecaster: Forecaster, order: npt.NDArray[np.int64]) -> None:
    """Measure the errors of a fitted model on the end of its data; `order` is the place of each factor's column."""
    errors = past_errors(forecaster, forecaster.data)
    if errors is not None:
        found = torch.from_numpy(factors(errors[order]))
        forecaster.network.get_buffer(_BUFFER).copy_(found)


def mixed(network: nn.Module, normal: Floats, common: Floats) -> Floats:
    """[n, ...] standard normal draws that go together as errors did, from [n, ...] and [K, ...] independent ones."""
    loading = network.get_buffer(_BUFFER).double().cpu().numpy()
    own = np.sqrt(np.maximum(1.0 - np.square(loading).sum(axis=0), 0.0))
    return np.asarray(np.tensordot(loading.T, common, axes=1) + own.reshape(-1, *[1] * (normal.ndim - 1)) * normal)


def past_errors(forecaster: Forecaster, table: TimeSeriesDataFrame) -> Floats | None:
    """[n, M, H] errors at the last moments that all series have; None where there are fewer than three."""
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

    Correlations are taken about zero: to be wrong on the same side is to be wrong together. They are shrunk towards
    none by the share of their size that is sampling noise (Schäfer & Strimmer 2005), here over moments.
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
