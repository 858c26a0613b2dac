"""A backtest: hide the last horizon, forecast it, and score it beside the seasonal naive forecast."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.cross_validation import CrossValidation, cross_validation
from neuro_divergent.forecasting.evaluate.fold_job import part_of
from neuro_divergent.forecasting.evaluate.folds import TimeSeriesSplit
from neuro_divergent.forecasting.evaluate.scores import Truth
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.training.config.training_config import TrainingConfig

Floats = npt.NDArray[np.float64]

METRICS = ("mae", "smape", "mase")


@dataclass(frozen=True)
class Score:
    """The metrics of one forecast."""

    name: str
    mae: float
    smape: float
    """In percent, 0 to 200."""
    mase: float
    """Relative to the in-sample error of the seasonal naive forecast. Every observed value counts once."""
    seconds: float
    """Seconds to train and to forecast; 0 for the naive forecast."""


@dataclass
class Backtest:
    """Forecasts of a hidden horizon, and their scores."""

    data: TimeSeriesDataFrame
    """The whole table, with the hidden horizon."""
    shown: TimeSeriesDataFrame
    """The table without the hidden horizon: what the models were trained on."""
    h: int
    season: int
    actual: Floats
    """[series, h], NaN where the value is missing."""
    forecasts: dict[str, Floats] = field(default_factory=dict)
    """[series, h] by name, the naive forecast first."""
    fitted: dict[str, Forecaster] = field(default_factory=dict)
    scores: list[Score] = field(default_factory=list)

    @property
    def naive_name(self) -> str:
        """The name of the naive forecast."""
        return f"seasonal naive ({self.season})"


def backtest(models: Sequence[Model], data: TimeSeriesDataFrame, config: TrainingConfig | None = None) -> Backtest:
    """Train each model without the last horizon of the table, forecast that horizon, and return the scores.

    This is `cross_validation` with one window, model by model: the same folds, forecasts and scores. Nothing is saved.
    """
    horizons = {model.h for model in models}
    if len(horizons) != 1:
        raise ConfigError(f"a backtest compares models with the same horizon, but got h={sorted(horizons)}")
    names = [model.name for model in models]
    if len(set(names)) != len(names):
        raise ConfigError(f"a backtest compares models with different names (alias=...), but got {names}")
    h = horizons.pop()
    data.drop_last(h)  # refuses series without a row to train on
    align: Literal["auto", "date"] = "date" if any(model.together for model in models) else "auto"
    last_window = TimeSeriesSplit(n_splits=1, test_size=h, align=align)
    result: Backtest | None = None
    for model in models:
        begun = time.perf_counter()
        found = cross_validation([model], data, config=config, splitter=last_window, metrics=METRICS)
        seconds = time.perf_counter() - begun
        truth = found.truth
        if result is None:
            shown = part_of(data, *found.folds[0].train)
            result = Backtest(data, shown, h, truth.season, _by_series(truth, truth.actual))
            result.forecasts[result.naive_name] = _by_series(truth, truth.naive)
            result.scores.append(_score(found, result.naive_name, 0.0))
        result.fitted |= found.forecasters
        result.forecasts[model.name] = _by_series(truth, found.hindcasts[model.name].values[:, :, 0])
        result.scores.append(_score(found, model.name, seconds))
    assert result is not None
    return result


def _score(found: CrossValidation, name: str, seconds: float) -> Score:
    mae, smape, mase = (found.evaluation[name, metric] for metric in METRICS)
    return Score(name, mae, smape, mase, seconds)


def _by_series(truth: Truth, values: Floats) -> Floats:
    """[series, h] values at one origin per series; NaN for a series that was not forecast."""
    result = np.full((truth.origins.table.n_series, values.shape[1]), np.nan)
    result[truth.series] = values
    return result
