"""One honest look back: hide the last horizon, forecast it, and score it beside the seasonal naive forecast."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from neuro_divergent import metrics
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.seasonal_naive import season_of, seasonal_naive
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.output_columns import point_column
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import hindcast
from neuro_divergent.training.config.training_config import TrainingConfig

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """The figures of one forecast."""

    name: str
    mae: float
    smape: float
    """In percent, 0 to 200."""
    mase: float
    """Against the in-sample error of the seasonal naive forecast."""
    seconds: float


@dataclass
class Backtest:
    """Forecasts of a hidden horizon, and their scores."""

    data: TimeSeriesDataFrame
    """The whole table, hidden horizon included."""
    shown: TimeSeriesDataFrame
    """What the models were given."""
    h: int
    season: int
    actual: Floats
    """[series, h], NaN where nothing was observed."""
    forecasts: dict[str, Floats] = field(default_factory=dict)
    """[series, h] by name, the naive one first."""
    fitted: dict[str, Forecaster] = field(default_factory=dict)
    scores: list[Score] = field(default_factory=list)

    @property
    def naive_name(self) -> str:
        """How the naive forecast is called."""
        return f"seasonal naive ({self.season})"


def backtest(models: Sequence[Model], data: TimeSeriesDataFrame, config: TrainingConfig | None = None) -> Backtest:
    """Train each model without the last horizon of every series, and score its forecast of it."""
    horizons = {model.h for model in models}
    if len(horizons) != 1:
        raise ConfigError(f"a backtest compares models of one horizon, but got h={sorted(horizons)}")
    h = horizons.pop()
    shown = data.drop_last(h)
    season = season_of(shown.store)
    result = Backtest(data, shown, h, season, _hidden(data, h))
    begun = time.perf_counter()
    naive = seasonal_naive(shown.store, h, season)
    result.forecasts[result.naive_name] = naive
    result.scores.append(score(result, result.naive_name, naive, time.perf_counter() - begun))
    for model in models:
        begun = time.perf_counter()
        fitted = model.fit(shown, config)
        ends = data.store.lengths - h
        values = hindcast(fitted, data, np.arange(data.n_series), ends, point_column(model.name), h)[:, :, 0]
        result.fitted[model.name] = fitted
        result.forecasts[model.name] = values
        result.scores.append(score(result, model.name, values, time.perf_counter() - begun))
    return result


def score(result: Backtest, name: str, forecast: Floats, seconds: float) -> Score:
    """MAE and sMAPE over everything; MASE per series, then averaged."""
    return Score(
        name=name,
        mae=float(metrics.mae(result.actual, forecast)),
        smape=float(metrics.smape(result.actual, forecast)),
        mase=mase(result, forecast),
        seconds=seconds,
    )


def mase(result: Backtest, forecast: Floats) -> float:
    """Mean over the series of MAE ÷ in-sample MAE of the seasonal naive forecast (Hyndman & Koehler, 2006)."""
    store, season = result.shown.store, result.season
    ratios = []
    for number in range(len(store.ids)):
        first, last = int(store.offsets[number]), int(store.offsets[number + 1])
        y = np.asarray(store.y[first:last], dtype=np.float64).copy()
        if store.mask is not None:
            y[~store.mask[first:last]] = np.nan
        scale = np.nanmean(np.abs(y[season:] - y[:-season])) if len(y) > season else np.nan
        error = np.nanmean(np.abs(result.actual[number] - forecast[number]))
        if np.isfinite(scale) and scale > 0 and np.isfinite(error):
            ratios.append(error / scale)
    return float(np.mean(ratios)) if ratios else float("nan")


def _hidden(data: TimeSeriesDataFrame, h: int) -> Floats:
    store = data.store
    rows = store.offsets[1:, None] - h + np.arange(h)
    values = np.asarray(store.y[rows], dtype=np.float64)
    return values if store.mask is None else np.where(store.mask[rows], values, np.nan)
