"""A fast reader for the most common request to a served model: clean rows of one series.

Everything else (gaps, missing values, other types, more columns than the target) goes to the full reader, which checks,
repairs and explains. The fast reader returns a table, or None.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.data.join import on_grid_of
from neuro_divergent.data.schema.load_report import DataReport
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.time.anchors import find_anchors

MOST_ROWS = 100_000
"""With more rows, the full reader costs little more than the rows themselves."""

EARLIEST, LATEST = np.datetime64("0001-01-01", "us"), np.datetime64("9999-12-31T23:59:59.999999", "us")
MOST_WHOLE = 2**60
"""The full reader refuses times outside of these."""

_TIME_TYPES = {
    "ns": ("datetime[ns]", 1000, 1),
    "us": ("datetime[us]", 1, 1),
    "ms": ("datetime[ms]", 1, 1000),
    "D": ("date", 1, 86_400_000_000),
    "i": ("int64", 1, 1),
}
"""For each unit of ticks: its name in a schema, and the divisor and factor that convert it to microseconds. "i" is for
whole numbers, which are not converted."""


class _Columns(NamedTuple):
    """The columns of a frame as arrays."""

    name: str | int
    """The id of the one series."""
    ticks: npt.NDArray[np.int64]
    time_type: str
    values: npt.NDArray[Any]


@dataclass(frozen=True)
class CleanReader:
    """Reads frames of one clean series with the schema of an earlier table."""

    like: TimeSeriesDataFrame
    plain: bool
    """Whether the table has only ids, times and a target. Others need the full reader."""
    schemas: dict[str, DataSchema] = field(default_factory=dict)
    """The schema for each type of time stamps: forecasts have the type of the input."""

    @classmethod
    def of(cls, like: TimeSeriesDataFrame) -> CleanReader:
        """A reader for frames that are like a table."""
        return cls(like, _plain(like))

    def table(self, frame: Any) -> TimeSeriesDataFrame | None:
        """One clean series as a table; None if the full reader must read it."""
        if not self.plain:
            return None
        if isinstance(frame, pl.DataFrame):
            library, columns = "polars", _from_polars(frame, self.like)
        else:
            library, columns = "pandas", _from_pandas(frame, self.like)
        if columns is None or not np.isfinite(columns.values).all():
            return None
        begin = self._begin(columns)
        if begin is None:
            return None
        start, anchor = begin
        store = SeriesStore(
            ids=np.array([columns.name]),
            offsets=np.array([0, len(columns.values)]),
            y=columns.values,
            start=start,
            grid_anchor=anchor,
            freq=self.like.store.freq,
        )
        store.__dict__["frequency"] = self.like.frequency  # parsed already
        rows = len(columns.values)
        report = DataReport(rows_read=rows, rows_stored=rows, n_series=1, freq=store.freq)
        table = TimeSeriesDataFrame(store, self._schema(columns.time_type), report, library=library)
        return table if anchor is None else on_grid_of(self.like, table)

    def _begin(self, columns: _Columns) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None] | None:
        """The first time stamp and, for monthly steps, the grid; None if rows are not exactly one step apart."""
        frequency, ticks = self.like.frequency, columns.ticks
        if frequency.integer:
            inside = columns.time_type == "int64" and ticks[0] >= -MOST_WHOLE and ticks[-1] <= MOST_WHOLE
            return (ticks[:1], None) if inside and _apart(ticks, frequency.count) else None
        if columns.time_type == "int64":
            return None
        times = ticks.view("datetime64[us]")
        if not (times[0] >= EARLIEST and times[-1] <= LATEST):  # nor NaT
            return None
        if frequency.microseconds:
            return (times[:1], None) if _apart(ticks, frequency.microseconds) else None
        if not (ticks[1:] > ticks[:-1]).all():
            return None
        found = find_anchors(frequency, times, np.array([0, len(times)]))
        if found is None or not _apart(found[1], 1):
            return None
        return times[:1], frequency.anchor_from(found[0], found[1][:1])

    def _schema(self, time_type: str) -> DataSchema:
        schema = self.schemas.get(time_type)
        if schema is None:
            own = self.like.schema
            schema = own if own.time_type == time_type else own.replace(time_type=time_type)
            self.schemas[time_type] = schema
        return schema


def _plain(like: TimeSeriesDataFrame) -> bool:
    schema, store = like.schema, like.store
    asked = (schema.future, schema.historical, schema.static, schema.categorical, schema.features, schema.static_table)
    other = schema.weight, schema.available_mask, schema.min_length, store.time_zone, schema.time_format
    return not any(asked) and all(item is None for item in other) and schema.constant == "keep" and not schema.wide


def _apart(ticks: npt.NDArray[np.int64], step: int) -> bool:
    return bool((ticks[1:] - ticks[:-1] == step).all())


def _from_polars(frame: pl.DataFrame, like: TimeSeriesDataFrame) -> _Columns | None:
    schema = like.schema
    if not _has_columns(frame.columns, schema) or not 1 <= len(frame) <= MOST_ROWS:
        return None
    times, y = frame[schema.time_col], frame[schema.target_col]
    if times.null_count() or y.null_count() or not (y.dtype.is_float() or y.dtype.is_integer()):
        return None
    name: Any = schema.target_col
    if schema.id_type != "none":
        ids = frame[schema.id_col]
        if ids.dtype != (pl.String if schema.id_type == "text" else pl.Int64) or ids.null_count():
            return None
        name = ids[0]
        if not bool((ids == name).all()):
            return None
    if isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone is None:
        unit: str = times.dtype.time_unit
    elif times.dtype in (pl.Int64, pl.Date):
        unit = "i" if times.dtype == pl.Int64 else "D"
    else:
        return None
    return _columns(name, times.to_physical().to_numpy().astype(np.int64, copy=False), unit, y.to_numpy(), schema)


def _from_pandas(frame: Any, like: TimeSeriesDataFrame) -> _Columns | None:
    pandas, schema = sys.modules.get("pandas"), like.schema
    if pandas is None or type(frame) is not pandas.DataFrame or not 1 <= len(frame) <= MOST_ROWS:
        return None
    names = frame.columns
    if not names.is_unique or names.inferred_type != "string" or not _has_columns(names, schema):
        return None
    times, y = frame[schema.time_col], frame[schema.target_col]
    if not all(isinstance(column.dtype, np.dtype) for column in (times, y)) or y.dtype.kind not in "fiu":
        return None
    name: Any = schema.target_col
    if schema.id_type != "none":
        ids = frame[schema.id_col]
        text = ids.dtype == object or isinstance(ids.dtype, pandas.StringDtype)
        if not (text if schema.id_type == "text" else ids.dtype == np.int64):
            return None
        listed = ids.to_numpy().tolist()
        name = listed[0]
        if {*map(type, listed)} != {str if text else int} or listed.count(name) != len(listed):
            return None
    if times.dtype.kind == "M":
        unit = np.datetime_data(times.dtype)[0]
    elif times.dtype == np.int64:
        unit = "i"
    else:
        return None
    return _columns(name, times.to_numpy().view(np.int64), unit, y.to_numpy(), schema)


def _has_columns(names: Any, schema: DataSchema) -> bool:
    # A table that was one series without a name is not read by a frame that has an id column.
    named = (schema.id_col in names) == (schema.id_type != "none")
    return named and schema.time_col in names and schema.target_col in names


def _columns(
    name: Any, ticks: npt.NDArray[np.int64], unit: str, values: npt.NDArray[Any], schema: DataSchema
) -> _Columns | None:
    """Times in microseconds, or whole numbers as they are, and values in the precision of the table."""
    if isinstance(name, str) and (len(name) > 1000 or "\0" in name):
        return None
    if unit not in _TIME_TYPES:
        return None
    time_type, divisor, factor = _TIME_TYPES[unit]
    if divisor > 1:
        if (ticks % divisor).any():
            return None
        ticks = ticks // divisor
    elif factor > 1:
        if ticks.min() < -(MOST_WHOLE // factor) or ticks.max() > MOST_WHOLE // factor:
            return None
        ticks = ticks * factor
    with np.errstate(over="ignore"):
        converted = values.astype(schema.dtype)
    return _Columns(name, ticks, time_type, converted)
