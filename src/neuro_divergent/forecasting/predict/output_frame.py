"""Forecasts as rows of id, time and columns, in a frame of the input's library."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.extras import require
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.predict.ahead import future_frame

_PLAIN_TIMES = {"int64": None, "datetime[us]": None, "datetime[ns]": "datetime64[ns]", "datetime[ms]": "datetime64[ms]"}
"""Types of time stamps that need no polars, and the type to which the store's stamps are converted."""


def output_frame(
    table: TimeSeriesDataFrame, names: tuple[str, ...], values: npt.NDArray[Any], dtype: npt.DTypeLike
) -> Any:
    """The forecasts [S, h, K] as a frame of the table's library."""
    flat = values.reshape(-1, values.shape[-1]).astype(dtype)
    times = None if table.library != "pandas" else _plain_times(table, values.shape[1])
    if times is None or table.schema.id_parts:
        return table.as_input_library(polars_frame(table, names, flat, values.shape[1]))
    return _pandas_frame(table, names, flat, values.shape[1], times)


def polars_frame(
    table: TimeSeriesDataFrame, names: tuple[str, ...], flat: npt.NDArray[Any], steps: int
) -> pl.DataFrame:
    """Forecasts [S * steps, K] as a polars frame."""
    frame = future_frame(table, steps)
    return frame.hstack([pl.Series(name, flat[:, i]) for i, name in enumerate(names)])


def _plain_times(table: TimeSeriesDataFrame, steps: int) -> npt.NDArray[Any] | None:
    """The time stamps of the horizon in the type of the time column; None if polars must convert them."""
    time_type = table.schema.time_type
    if table.store.time_zone is not None or time_type not in _PLAIN_TIMES:
        return None
    times = table.horizon_times(steps)
    wanted = _PLAIN_TIMES[time_type]
    if wanted is None:
        return times
    converted = times.astype(wanted)
    return (
        converted if (converted.astype(times.dtype) == times).all() else None
    )  # beyond the year 2262 there are no nanoseconds


def _pandas_frame(
    table: TimeSeriesDataFrame,
    names: tuple[str, ...],
    flat: npt.NDArray[Any],
    steps: int,
    times: npt.NDArray[Any],
) -> Any:
    """The same frame as from polars' own conversion, in a tenth of its time."""
    pandas = require("pandas", extra="pandas", purpose="A pandas table")
    columns: dict[str, Any] = {}
    if table.schema.id_type != "none":
        columns[table.schema.id_col] = np.repeat(table.ids, steps)
    columns[table.schema.time_col] = times
    columns |= {name: flat[:, i] for i, name in enumerate(names)}
    return pandas.DataFrame(columns, copy=False)
