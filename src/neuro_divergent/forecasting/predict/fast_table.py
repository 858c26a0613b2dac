"""A quick reader for the commonest request to a served model: a few clean rows of one series.

Whatever is not plain (gaps, missing values, other types, more columns than the target) goes the usual way, which
checks, repairs and explains; so the quick way never has to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from neuro_divergent.data.schema.load_report import DataReport
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame

MOST_ROWS = 100_000


def quick_table(frame: Any, like: TimeSeriesDataFrame) -> TimeSeriesDataFrame | None:
    """One clean series read like other data, or None when the usual way must be taken."""
    schema = like.schema
    usual = not isinstance(frame, pl.DataFrame) or like.library != "polars" or not 1 < len(frame) <= MOST_ROWS
    if usual or not _plain(like) or schema.target_col not in frame.columns:
        return None
    name = _single_id(frame, like)
    if name is None:
        return None
    times = _times(frame, like)
    y = frame[schema.target_col]
    if times is None or y.null_count() or not (y.dtype.is_float() or y.dtype.is_integer()):
        return None
    with np.errstate(over="ignore"):
        values = y.to_numpy().astype(schema.dtype)
    if not np.isfinite(values).all():
        return None
    store = SeriesStore(
        ids=np.array([name]),
        offsets=np.array([0, len(values)]),
        y=values,
        start=times[:1],
        freq=like.store.freq,
    )
    store.__dict__["frequency"] = like.frequency  # parsed already
    return TimeSeriesDataFrame(store, schema, _report(store), library="polars")


def _plain(like: TimeSeriesDataFrame) -> bool:
    """Whether the data has nothing but ids, times and a target, in steps of one length."""
    schema, store = like.schema, like.store
    asked = (schema.future, schema.historical, schema.static, schema.categorical, schema.features, schema.static_table)
    other = schema.weight, schema.available_mask, schema.min_length, store.time_zone, schema.time_format
    usual = schema.constant != "keep" or schema.wide or not (like.frequency.microseconds or like.frequency.integer)
    return not any(asked) and all(item is None for item in other) and not usual


def _single_id(frame: pl.DataFrame, like: TimeSeriesDataFrame) -> str | int | None:
    schema = like.schema
    if schema.id_type == "none":
        return None if schema.id_col in frame.columns else schema.target_col
    if schema.id_col not in frame.columns:
        return None
    ids = frame[schema.id_col]
    wanted = ids.dtype == pl.String if schema.id_type == "text" else ids.dtype == pl.Int64
    if not wanted or ids.null_count():
        return None
    first = ids[0]
    same = bool((ids == first).all()) and (not isinstance(first, str) or (len(first) <= 1000 and "\0" not in first))
    return first if same else None


def _times(frame: pl.DataFrame, like: TimeSeriesDataFrame) -> np.ndarray | None:
    """The time stamps if they are of the known type and just one step apart."""
    schema = like.schema
    if schema.time_col not in frame.columns:
        return None
    column = frame[schema.time_col]
    if column.null_count():
        return None
    if like.frequency.integer:
        if str(column.dtype).lower() != schema.time_type or column.dtype != pl.Int64:
            return None
        ticks, step = column.to_numpy(), like.frequency.count
    else:
        if schema.time_type != "datetime[us]" or column.dtype != pl.Datetime("us"):
            return None
        ticks, step = column.to_physical().to_numpy(), like.frequency.microseconds
    if not (np.diff(ticks) == step).all():
        return None
    return ticks if like.frequency.integer else ticks.view("datetime64[us]")


def _report(store: SeriesStore) -> DataReport:
    return DataReport(rows_read=len(store.y), rows_stored=len(store.y), n_series=1, freq=store.freq)
