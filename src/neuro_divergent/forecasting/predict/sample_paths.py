"""Sample paths: draws of whole horizons whose steps are correlated like the model's errors.

Letters: S series, H steps, N paths, W windows, G grid of probabilities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.core.seeding import numpy_generator, torch_generator
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.ahead import (
    checked_horizon,
    forecast,
    forecast_windows,
    ids_column,
    known_ahead,
)
from neuro_divergent.forecasting.predict.conformal import series_scale
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.losses import Loss, MQLoss, Weighted

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

Floats = npt.NDArray[np.float64]
Method = Literal["auto", "gaussian_copula", "schaake_shuffle", "model"]

MOST_WINDOWS = 2000
"""Errors of about this many past windows are enough to measure the correlation of steps."""


def simulate(
    forecaster: Forecaster,
    table: TimeSeriesDataFrame,
    *,
    n_paths: int = 100,
    seed: int | None = None,
    method: Method = "auto",
    future: Any = None,
    h: int | None = None,
) -> pl.DataFrame:
    """Draw sample paths of the steps after every series; return rows of id, time, sample_id and value.

    Args:
        forecaster: a model with a probabilistic loss or prediction intervals.
        table: the table to forecast after.
        n_paths: how many paths of each series.
        seed: seed of the draws; None for the seed of the training.
        method: "model" draws step by step with models that can (DeepAR, but for implicit quantiles);
            "gaussian_copula" draws from the forecast distribution of each step, with the correlation of past errors;
            "schaake_shuffle" draws each step independently and orders the draws like windows of the series' own past
            (Clark et al. 2004); "auto" is the first if possible.
        future: the columns known ahead, as for `predict`.
        h: how many steps; at most the model's.
    """
    steps = checked_horizon(h, forecaster.model.h)
    if steps > forecaster.model.h:
        raise ConfigError(
            f"paths have at most the model's h={forecaster.model.h} steps, but got h={steps}. Train with h={steps}"
        )
    if n_paths < 1:
        raise ConfigError(f"n_paths must be at least 1, but got n_paths={n_paths}")
    seed = forecaster.config.seed if seed is None else seed
    # What the network feeds back must be drawn from its own outputs: before a head these are features.
    own = forecaster.loss.probabilistic and forecaster.module.head is None
    own = own and hasattr(forecaster.network, "sample_paths")
    if method == "model" and not own:
        raise ConfigError(
            f"{forecaster.model.kind} with {forecaster.loss.kind} cannot draw paths. Use method='gaussian_copula'"
        )
    if own and method not in ("gaussian_copula", "schaake_shuffle"):
        paths = _drawn_by_model(forecaster, table, n_paths, seed, future, steps)
        if forecaster.calibration is not None and forecaster.model.joint is None:
            scale = forecaster._mean_change(table, np.arange(table.n_series), table.store.lengths)
            paths = forecaster.calibration.correct_draws(paths, table.ids, scale)
    else:
        paths = _drawn_by_copula(forecaster, table, n_paths, seed, future, steps, method)
    bounds = forecaster.bounds
    if forecaster.model.joint is not None:
        paths = forecaster.model.joint.paths(paths, table, bounds)
    return _frame(forecaster, table, paths if bounds is None else bounds.draws(paths))


def _drawn_by_model(
    forecaster: Forecaster, table: TimeSeriesDataFrame, n_paths: int, seed: int, future: Any, steps: int
) -> Floats:
    """[S, N, steps]"""
    store = forecaster.prepared(table)
    ahead = known_ahead(table, store, future, forecaster.model.h, given=steps)
    windows = forecast_windows(forecaster, store)
    module, parameter = forecaster.module.eval(), next(forecaster.module.parameters())
    parts = []
    size = max(1, 20_000 // n_paths)
    for first in range(0, table.n_series, size):
        numbers = np.arange(first, min(first + size, table.n_series))
        batch = windows.forecast_batch(numbers, *(None if part is None else part[numbers] for part in ahead))
        with torch.no_grad():
            scaled, stats = module.as_network_sees(batch.to(parameter.device, parameter.dtype))
            drawn = module.paths(scaled, stats, n_paths, torch_generator(seed, "paths", first))
        parts.append(drawn[..., 0].transpose(0, 1).double().cpu().numpy())
    paths = np.concatenate(parts)[:, :, :steps]
    return paths if forecaster.local is None else forecaster.local.original(paths, table)


def _drawn_by_copula(
    forecaster: Forecaster, table: TimeSeriesDataFrame, n_paths: int, seed: int, future: Any, steps: int, method: Method
) -> Floats:
    """[S, N, steps]"""
    if not (forecaster.loss.probabilistic or forecaster.intervals is not None):
        raise ConfigError(
            f"{forecaster.loss.kind} forecasts a point, so it has no distribution to draw from. Train with MQLoss or "
            "DistributionLoss, or add prediction intervals: forecaster.calibrate(data)"
        )
    name = forecaster.model.name
    grid = probabilities(forecaster.loss)
    columns = Columns((name, *(f"{name}_ql{share:g}" for share in grid)), (None, *grid))
    values = _distribution(forecaster, table, columns, future, steps)[:, :, 1:]
    if method == "schaake_shuffle":
        return _shuffled(table, inverted(values, np.array(grid), _uniform(table, n_paths, seed, steps)), seed)
    factor = np.linalg.cholesky(error_correlation(forecaster, table))
    normal = _normal(forecaster, table, n_paths, seed) @ factor.T
    return inverted(values, np.array(grid), _normal_cdf(normal[:, :, :steps]))


def _uniform(table: TimeSeriesDataFrame, n_paths: int, seed: int, steps: int) -> Floats:
    return numpy_generator(seed, "paths").uniform(size=(table.n_series, n_paths, steps))


def _shuffled(table: TimeSeriesDataFrame, draws: Floats, seed: int) -> Floats:
    """[S, N, H] the draws of every series, ordered like its own past."""
    store, generator = table.store, numpy_generator(seed, "paths shuffled")
    paths = []
    for number, own in enumerate(draws):
        rows = slice(int(store.offsets[number]), int(store.offsets[number + 1]))
        past = store.y[rows] if store.mask is None else store.y[rows][store.mask[rows]]
        if len(past) < draws.shape[2]:
            raise DataError(
                f"schaake_shuffle needs at least {draws.shape[2]} past rows of each series, but series "
                f"{table.ids[number]!r} has {len(past)}. Use method='gaussian_copula'"
            )
        paths.append(shuffled_as(own, past, generator))
    return np.stack(paths)


def shuffled_as(draws: Floats, past: npt.NDArray[np.floating], generator: np.random.Generator) -> Floats:
    """[N, H] the draws of each step, ordered among the paths like N past windows are ordered at that step.

    Every step keeps its draws. The past decides which path gets which draw.
    """
    stretches = np.lib.stride_tricks.sliding_window_view(past, draws.shape[1])
    chosen = stretches[generator.choice(len(stretches), len(draws), replace=len(stretches) < len(draws))]
    ranks = chosen.argsort(axis=0).argsort(axis=0)
    return np.take_along_axis(np.sort(draws, axis=0), ranks, axis=0)


def _normal(forecaster: Forecaster, table: TimeSeriesDataFrame, n_paths: int, seed: int) -> Floats:
    """[S, N, H] standard normal draws, independent between series unless their paths are to be summed."""
    shape, joint = (n_paths, forecaster.model.h), forecaster.model.joint
    if joint is None:
        return numpy_generator(seed, "paths").standard_normal((table.n_series, *shape))
    return joint.placed(joint.draws(forecaster, shape, seed), joint.order(table))


def _distribution(
    forecaster: Forecaster, table: TimeSeriesDataFrame, columns: Columns, future: Any, steps: int
) -> Floats:
    """[S, steps, 1 + G] the distribution to draw from; if paths are reconciled, the one before reconciliation."""
    if forecaster.model.joint is None or not forecaster.loss.probabilistic:
        # Draws are rounded, not the quantiles from which they are drawn.
        return forecaster._without(bounds=True).forecast_values(table, columns, future=future, h=steps)
    return forecast(forecaster, table, columns, future=future, h=steps)


def probabilities(loss: Loss) -> tuple[float, ...]:
    """The probability grid on which a forecast distribution is computed: the trained quantiles, or a fine grid."""
    inner = loss
    while isinstance(inner, Weighted):
        inner = inner.loss
    if isinstance(inner, MQLoss):
        return inner.levels
    return tuple(np.round(np.linspace(0.005, 0.995, 100), 6).tolist())


def inverted(values: Floats, grid: Floats, uniform: Floats) -> Floats:
    """[S, N, H] the value of each uniform draw in quantiles [S, H, G]. Values never exceed the outermost quantiles."""
    if len(grid) == 1:
        return np.broadcast_to(values[:, None, :, 0], uniform.shape).copy()
    right = np.clip(np.searchsorted(grid, uniform), 1, len(grid) - 1)
    part = np.clip((uniform - grid[right - 1]) / (grid[right] - grid[right - 1]), 0.0, 1.0)
    by_series = values[:, None]
    low = np.take_along_axis(by_series, (right - 1)[..., None], axis=3)[..., 0]
    high = np.take_along_axis(by_series, right[..., None], axis=3)[..., 0]
    return np.asarray(low + part * (high - low))


def error_correlation(forecaster: Forecaster, table: TimeSeriesDataFrame) -> Floats:
    """[H, H] correlation of the normal scores of errors at different steps, over past windows of all series.

    Estimates from few windows are shrunk towards independence by the share H / (H + W).
    """
    h = forecaster.model.h
    origins = _past_origins(forecaster, table)
    if not len(origins) and table is not forecaster.data:
        origins = _past_origins(forecaster, forecaster.data)
    if len(origins) < 3:
        raise DataError(
            f"paths need at least 3 past windows of h={h} steps to measure the correlation of errors, but the data "
            f"has {len(origins)}. Give a longer table: simulate(data=...)"
        )
    origins = origins.where(np.unique(np.linspace(0, len(origins) - 1, MOST_WINDOWS).astype(np.int64)))
    scale = series_scale(origins.table.store)[origins.series][:, None]
    errors = (origins.actual() - origins.points(forecaster)) / scale
    errors = errors[~np.isnan(errors).any(axis=1)]
    if len(errors) < 3:
        return np.eye(h)
    ranks = np.argsort(np.argsort(errors, axis=0), axis=0) + 1
    scores = normal_quantile(ranks / (len(errors) + 1))
    correlation = np.atleast_2d(np.corrcoef(scores, rowvar=False))
    share = h / (h + len(errors))
    return np.asarray((1 - share) * correlation + share * np.eye(h))


def _past_origins(forecaster: Forecaster, table: TimeSeriesDataFrame) -> Origins:
    """Every forecast origin in about the last fifth of each series."""
    model, lengths = forecaster.model, table.store.lengths
    first = np.minimum(np.maximum(lengths - np.maximum(lengths // 5, 20), 1), lengths)
    first = np.maximum(first, min(model.input_size, int(lengths.max(initial=1)) - 1))
    return Origins.windows(table, first, steps=model.h, step_size=1, together=model.together)


def _normal_cdf(values: Floats) -> Floats:
    result: Floats = torch.special.ndtr(torch.from_numpy(values)).numpy()
    return result


def normal_quantile(shares: Floats) -> Floats:
    """The standard normal quantile."""
    result: Floats = torch.special.ndtri(torch.from_numpy(np.asarray(shares, dtype=np.float64))).numpy()
    return result


def _frame(forecaster: Forecaster, table: TimeSeriesDataFrame, paths: Floats) -> pl.DataFrame:
    series, number, steps = paths.shape
    times = table.future_times(steps)
    rows = np.broadcast_to(np.arange(series * steps).reshape(series, 1, steps), paths.shape).reshape(-1)
    columns = [] if table.schema.id_type == "none" else [ids_column(table, number * steps)]
    columns += [times[rows], pl.Series("sample_id", np.tile(np.repeat(np.arange(number), steps), series))]
    dtype = np.float64 if forecaster.config.precision == "float64" else np.float32
    return pl.DataFrame([*columns, pl.Series(forecaster.model.name, paths.reshape(-1).astype(dtype))])
