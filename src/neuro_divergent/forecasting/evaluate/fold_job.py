"""One training of a cross-validation: fit on a part of the table, forecast the test parts after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import DataError
from neuro_divergent.data.read.series_checks import cut_rows
from neuro_divergent.data.scaling.per_series import SeriesScaler
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.folds import Fold
from neuro_divergent.forecasting.evaluate.hidden_rows import without_rows
from neuro_divergent.forecasting.evaluate.scores import HistoricalForecasts
from neuro_divergent.forecasting.fit.fit import fit
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.predict.ahead import checked_horizon
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.training.config.training_config import TrainingConfig

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a fold, without the table."""

    models: tuple[Model, ...]
    configs: Mapping[str, TrainingConfig]
    level: tuple[float, ...] | None = None
    quantiles: tuple[float, ...] | None = None
    intervals: PredictionIntervals | None = None
    h: int | None = None
    short: str = "error"
    local_scaler: str | SeriesScaler | None = None

    @property
    def steps(self) -> int:
        """How many steps each forecast has."""
        return checked_horizon(self.h, min(model.h for model in self.models))


@dataclass(frozen=True)
class FoldForecasts:
    """The forecasts of one fold, every model at the same origins."""

    fold: Fold
    origins: Origins
    found: dict[str, HistoricalForecasts]


def fold_config(plan: Plan, model: Model) -> TrainingConfig:
    """The configuration of a fold, without checkpoints: folds are short, and a run directory is used by one run.

    Nor does a fold refit: its forecasts are scored, not used.
    """
    return plan.configs[model.name].unsaved().replace(refit=None)


def run_job(
    plan: Plan,
    table: TimeSeriesDataFrame,
    folds: Sequence[Fold],
    known: Mapping[str, Forecaster] | None = None,
) -> tuple[list[FoldForecasts], dict[str, Forecaster]]:
    """Train on the first of these folds, unless fitted models are given, and forecast all of them."""
    fitted = dict(known or {})
    if len(fitted) < len(plan.models):
        past = part_of(table, *folds[0].train)
        for model in plan.models:
            fitted[model.name] = fit(
                model, past, fold_config(plan, model), short=plan.short, prediction_intervals=plan.intervals,
                local_scaler=plan.local_scaler,
            )  # fmt: skip
    return [_forecasts(plan, table, fold, fitted) for fold in folds], fitted


def part_of(table: TimeSeriesDataFrame, begin: Ints, stop: Ints) -> TimeSeriesDataFrame:
    """A table of rows begin[s] to stop[s] of each series. Series without any such row are left out."""
    kept = np.flatnonzero(stop > begin)
    if not len(kept):
        raise DataError("a fold must have rows to train on, but got none. Ask for fewer or shorter folds")
    store = table.store
    first = store.offsets[:-1][kept]
    cut = cut_rows(store, kept, first + begin[kept], first + stop[kept])
    return TimeSeriesDataFrame(cut, table.schema, table.report(), library=table.library)


def _forecasts(plan: Plan, table: TimeSeriesDataFrame, fold: Fold, fitted: dict[str, Forecaster]) -> FoldForecasts:
    origins = _origins(plan, table, fold)
    shown = replace(origins, table=seen_in(origins, fold))
    found = {}
    for name, forecaster in fitted.items():
        columns = forecaster.columns(plan.level, plan.quantiles)
        # The models were trained on some of the series; the table to forecast has all of them.
        found[name] = HistoricalForecasts(columns, shown.forecasts(forecaster, columns))
    return FoldForecasts(fold, origins, found)


def seen_in(origins: Origins, fold: Fold) -> TimeSeriesDataFrame:
    """The table as the forecasts of a fold see it: the rows of the gap are missing."""
    if fold.hidden is None or not bool((origins.time > fold.hidden[0][origins.series]).any()):
        return origins.table  # every forecast starts before the gap
    return without_rows(origins.table, *fold.hidden)


def _origins(plan: Plan, table: TimeSeriesDataFrame, fold: Fold) -> Origins:
    """The forecast origins of a fold: every h steps through its test part, if rows lie before it."""
    first, last = fold.test
    counts = -(-(last - first) // plan.steps)
    series = np.repeat(np.arange(len(first)), counts)
    position = np.arange(len(series)) - np.repeat(np.cumsum(counts) - counts, counts)
    time = first[series] + position * plan.steps - fold.gap
    some = time >= 1
    together = any(model.together for model in plan.models)
    return Origins.at(table, series[some], time[some], plan.steps, gap=fold.gap, together=together)


def joined(parts: Sequence[FoldForecasts]) -> tuple[Origins, dict[str, HistoricalForecasts]]:
    """The forecasts of all folds, concatenated."""
    origins = [part.origins for part in parts]
    series, time, gap = (np.concatenate([getattr(one, name) for one in origins]) for name in ("series", "time", "gap"))
    found = {
        name: HistoricalForecasts(item.columns, np.concatenate([part.found[name].values for part in parts]))
        for name, item in parts[0].found.items()
    }
    return replace(origins[0], series=series, time=time, gap=gap), found
