"""The windows of a cross-validation and of in-sample forecasts: their positions and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import Origins


def windows_of(n_windows: int | None, test_size: int | None, step_size: int, h: int) -> int:
    """The number of windows, given directly or by the rows that they take."""
    at_least_one("step_size", step_size)
    if n_windows is None and test_size is None:
        raise ConfigError("cross-validation needs n_windows or test_size, but got neither")
    if test_size is None:
        return at_least_one("n_windows", n_windows)
    if n_windows is not None and n_windows != 1:
        raise ConfigError(f"give n_windows or test_size, one of the two, but got {n_windows=} and {test_size=}")
    if (test_size - h) % step_size or test_size < h:
        raise ConfigError(f"test_size - h must be a multiple of step_size={step_size}, but got {test_size=} and h={h}")
    return (test_size - h) // step_size + 1


def check_options(intervals: Any, level: Any, quantiles: Any, refit: bool | int, use_fitted: bool) -> None:
    """Refuse options that contradict each other."""
    if intervals is not None and level is None and quantiles is None:
        raise ConfigError("prediction_intervals are for levels or quantiles, but got neither. Set level=[...]")
    if intervals is not None and not refit:
        raise ConfigError(
            "Passing prediction_intervals is only supported with refit=True: they are measured before each window. But "
            "got refit=False"
        )
    if use_fitted and (refit or intervals is not None):
        raise ConfigError("use_fitted=True trains nothing, so it cannot be combined with refit or prediction_intervals")


def before(table: TimeSeriesDataFrame, rows: int, *, needed: bool = True) -> TimeSeriesDataFrame:
    """The table without its last rows; series that are not longer are left out.

    Args:
        table: all rows.
        rows: how many to leave out.
        needed: whether rows must be left; if not, and none is, the whole table is returned.
    """
    long = table.store.lengths > rows
    if not long.any() and not needed:
        return table
    if not long.any():
        raise DataError(
            f"the windows take {rows} rows of each series, but the longest has "
            f"{int(table.store.lengths.max(initial=0))}. Ask for fewer windows or a smaller test_size"
        )
    kept = table if long.all() else table.select(table.ids[long].tolist())
    return kept.drop_last(rows)


def origins(
    forecaster: Forecaster, table: TimeSeriesDataFrame, ahead: Sequence[int], steps: int, least: int = 0
) -> Origins:
    """Forecast origins this many rows before the end of each series that has at least `least` rows before them."""
    lengths = table.store.lengths
    rows = lengths[:, None] - np.asarray(ahead, dtype=np.int64)[None, :]
    series = np.broadcast_to(np.arange(len(lengths))[:, None], rows.shape)
    inside = rows >= least
    found = series[inside].astype(np.int64), rows[inside].astype(np.int64)
    return Origins.at(table, *found, steps, together=forecaster.model.together)


def historical_frame(forecaster: Forecaster, at: Origins, columns: Columns) -> pl.DataFrame:
    """The forecasts from some origins as rows; empty if no row lies before the origin."""
    values = at.forecasts(forecaster, columns)
    return at.frame({name: values[:, :, i] for i, name in enumerate(columns.names)})
