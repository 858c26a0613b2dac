"""Trains one model of a NeuralForecast: validation rows, starting weights, intervals."""

from __future__ import annotations

from typing import Any

import polars as pl

from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.scaling.per_series import SeriesScaler
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.fit import fit
from neuro_divergent.forecasting.fit.training_rows import note_parent
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals, calibrate
from neuro_divergent.forecasting.predict.forecaster import Forecaster


def train(
    member: Member,
    table: TimeSeriesDataFrame,
    *,
    held_out: int = 0,
    validation: pl.DataFrame | None = None,
    local_scaler: str | SeriesScaler | None = None,
    begin: Forecaster | None = None,
    intervals: PredictionIntervals | None = None,
) -> Forecaster:
    """Train a model and return the forecaster. It starts from the weights of `begin`, if given.

    Args:
        member: the model.
        table: all rows.
        held_out: how many rows of each series, counted from the end, are for validation.
        validation: later rows for validation instead.
        local_scaler: how each series is scaled.
        begin: the forecaster to continue from.
        intervals: how to measure errors; the model is trained a second time for that, without the last windows.
    """
    table = table if begin is None else begin.in_own_codes(table)
    config = member.training(table, held_out or (0 if validation is None else member.description.h))
    options: dict[str, Any] = {"short": "pad" if member.facts.pad else "drop"}
    seen = table
    if held_out:
        seen, validation = _without_last(table, held_out), table.tail(held_out).to_polars()
    more = options | ({} if begin is None else {"begin_with": weights_of(begin)})
    fitted = fit(member.description, seen, config, local_scaler=local_scaler, validation=validation, **more)
    if begin is not None:
        fitted.begin_lineage(begin)
        note_parent(fitted, begin)
    if intervals is not None:
        kept = _long_enough(table, intervals.rows(member.description.h))
        plain = member.training(table, 0).replace(early_stopping=None)
        past = kept.drop_last(intervals.rows(member.description.h))
        fitted.intervals = calibrate(
            fit(member.description, past, plain, local_scaler=local_scaler, **options), kept, intervals
        )
    return fitted


def weights_of(forecaster: Forecaster) -> Any:
    """A function that gives a new module the weights of a forecaster."""
    weights = {name: tensor.detach().cpu().clone() for name, tensor in forecaster.module.state_dict().items()}

    def take(module: ForecastModule) -> None:
        try:
            module.load_state_dict(weights)
        except RuntimeError as error:
            raise ConfigError(
                f"{forecaster.model.name} continues from the weights of the last fit, which do not match this table "
                f"({str(error).splitlines()[0]}). To start again, use use_init_models=True"
            ) from None

    return take


def _without_last(table: TimeSeriesDataFrame, rows: int) -> TimeSeriesDataFrame:
    if int(table.store.lengths.max(initial=0)) <= rows:
        raise DataError(f"val_size={rows} leaves nothing to train on: the longest series has "
                        f"{int(table.store.lengths.max(initial=0))} rows")  # fmt: skip
    return table.drop_last(rows)


def _long_enough(table: TimeSeriesDataFrame, rows: int) -> TimeSeriesDataFrame:
    long = table.store.lengths > rows
    if not long.any():
        raise DataError(
            f"prediction intervals hold out {rows} rows of each series, but the longest has "
            f"{int(table.store.lengths.max(initial=0))}. Ask for fewer windows"
        )
    return table if long.all() else table.select(table.ids[long].tolist())
