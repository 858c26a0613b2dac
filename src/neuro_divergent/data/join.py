"""Join tables: later rows of known series, and two tables as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.data.agreement import check_together
from neuro_divergent.data.features.attach import add_features, horizon_features, span_in
from neuro_divergent.data.read.series_checks import check_series
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.fills import FILLED, LOOKS_AHEAD, Bools, Codes, Ints, columns, fill, last_observed
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame


def later_rows(table: TimeSeriesDataFrame, rows: Any, *, new_series: bool = False) -> TimeSeriesDataFrame:
    """Read rows that extend `table`, with its schema.

    Whole-series checks (min_length, constant, all_missing) are skipped. Series that loading `table` dropped are
    dropped here too, unless `new_series` is true.
    """
    if isinstance(rows, TimeSeriesDataFrame):
        later = rows
        if rows.store is not table.store and _columns(rows) != _columns(table):
            later = read_again(rows.to_polars(), table.schema, (rows,))
    else:
        schema = table.schema.replace(min_length=None, constant="keep", all_missing="keep")
        later = on_grid_of(table, TimeSeriesDataFrame.from_frame(rows, schema=schema))
    dropped = set() if new_series else set(table.report().dropped_series) & set(later.ids.tolist())
    return later.select(name for name in later.ids.tolist() if name not in dropped) if dropped else later


def joined(table: TimeSeriesDataFrame, validation: TimeSeriesDataFrame) -> tuple[TimeSeriesDataFrame, np.ndarray]:
    """Return training and validation rows as one table, and the number of training rows of each series."""
    check_together(table, validation, "later", ("the training table", "the validation table"))
    both = pl.concat([table.to_polars(), validation.to_polars()], how="vertical_relaxed")
    return read_again(both, table.schema, (table, validation)), table.store.lengths


def joined_tables(known: TimeSeriesDataFrame, newer: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
    """Return both tables as one. A row in both is taken from the newer table. New series are checked as in `fit`."""
    both = pl.concat([known.to_polars(), newer.to_polars()], how="vertical_relaxed")
    keys = [*known.schema.id_columns, known.schema.time_col]
    latest = both.unique(subset=keys, keep="last", maintain_order=True)
    # Both tables were checked when they were read. Unknown categories have lost their names since, so keep them.
    joined = read_again(latest, known.schema.replace(unknown_categories="keep"), (known, newer))
    joined.schema = joined.schema.replace(unknown_categories=known.schema.unknown_categories)
    joined._report.merged_targets = newer.report().merged_targets
    joined.store = check_series(joined.store, joined.schema, joined._report, set(known.ids.tolist()))
    return joined


def _columns(table: TimeSeriesDataFrame) -> list[str]:
    """The columns of the table in long form."""
    return table.head(1).to_polars().columns


def read_again(rows: pl.DataFrame, schema: DataSchema, parts: Sequence[TimeSeriesDataFrame]) -> TimeSeriesDataFrame:
    """Return the rows of several loaded tables as one table.

    The rows were repaired when they were loaded: cells that are still empty stay masked, and no repair policy is
    applied again. Values are imputed again where the rows of another table give a better value.
    """
    done: dict[str, Any] = {"missing": "mask", "constant": "keep", "all_missing": "keep", "min_length": None}
    whole = TimeSeriesDataFrame.from_frame(rows, schema=schema.replace(**done))
    whole.schema = whole.schema.replace(**{name: getattr(schema, name) for name in done})
    whole.store = _filled_again(whole.store, [part.store for part in parts])
    whole.library = parts[0].library
    return on_grid_of(parts[0], whole)


def on_grid_of(known: TimeSeriesDataFrame, table: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
    """Return `table` with the time grid of `known` for the series of both, if their rows are on that grid.

    A few rows do not always determine their grid: April 30 and June 30 may mean the 30th or the 31st of every month.
    """
    freq, zone, store = known.frequency, known.store.time_zone, table.store
    if not freq.moves(zone) or (str(freq), zone) != (store.freq, store.time_zone):
        return table
    numbers = {name: number for number, name in enumerate(known.ids.tolist())}
    of_known = np.array([numbers.get(name, -1) for name in store.ids.tolist()], dtype=np.int64)
    rows, on_grid = known.store.rows_at(store.start, of_known)
    there = known.store.starting_at(rows, of_known)
    own = store.start if store.grid_anchor is None else store.grid_anchor
    other = (of_known >= 0) & on_grid & (freq.phase(own, zone) != freq.phase(there["grid_anchor"], zone))
    for series in np.flatnonzero(other):
        steps = np.arange(int(store.lengths[series]))
        each = np.full(len(steps), series)
        if not (known.store.times(rows[series] + steps, of_known[each]) == store.times(steps, each)).all():
            other[series] = False
    if not other.any():
        return table
    store = store.replace(grid_anchor=np.where(other, there["grid_anchor"], own))
    return TimeSeriesDataFrame(store, table.schema, table.report(), library=table.library)


def on_span_of(known: TimeSeriesDataFrame, table: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
    """A table whose feature "time" is counted in the span of the known one, which a model has learned."""
    schema = table.schema
    span = span_in(known.schema, schema.time_type or "")
    if "time" not in schema.features or span is None or span == schema.span or table.store.future is None:
        return table
    schema = schema.replace(span=span)
    values = horizon_features(table.store, schema, table.all_times())
    future = table.store.future.copy()
    future[:, -values.shape[1] :] = values
    return TimeSeriesDataFrame(table.store.replace(future=future), schema, table.report(), library=table.library)


def with_features(table: TimeSeriesDataFrame, names: Sequence[str]) -> TimeSeriesDataFrame:
    """The table with further features, after those that it has. Names of columns that it has are left out."""
    schema = table.schema
    single = (schema.id_col, schema.time_col, schema.target_col, schema.weight, schema.available_mask)
    roles = (*schema.future, *schema.historical, *schema.static, *schema.categorical, *schema.static_table)
    taken = {*single, *schema.id_parts, *roles, *schema.features}
    more = tuple(name for name in names if name not in taken)
    if not more:
        return table
    store, found = add_features(table.store, schema.replace(features=more), table.all_times())
    found = found.replace(features=(*schema.features, *more))
    return TimeSeriesDataFrame(store, found, table.report(), library=table.library)


def _filled_again(whole: SeriesStore, parts: Sequence[SeriesStore]) -> SeriesStore:
    """Return a joined store with the imputed values of its parts. A gap that is closed now is imputed from both sides.

    An imputed value stays as it was, unless its part had no value for it, or ended before the next observed value.
    """
    changes: dict[str, Any] = {}
    for name, field in FILLED.items():
        values, own = getattr(whole, field), getattr(whole, name)
        if values is None or all(getattr(part, name) is None for part in parts):
            continue
        width = 1 if values.ndim == 1 else values.shape[1]
        codes = np.zeros((len(values), width), dtype=np.int8)
        if own is not None:
            codes[:, : own.reshape(len(own), -1).shape[1]] = own.reshape(len(own), -1)
        values, todo = values.reshape(len(values), -1).copy(), codes != 0
        for part in parts:
            place, row = _places(whole, part)
            for position, made, filled, again in _part_fills(part, name, row, _names(whole, field)):
                codes[place, position], values[place, position], todo[place, position] = filled, made, again
        if name == "fills":
            seen = np.ones((len(values), 1), dtype=bool) if whole.mask is None else whole.mask[:, None]
            codes[seen], todo[seen] = 0, False
        else:
            seen = codes == 0
        for number in np.flatnonzero(todo.any(axis=0)):
            some = np.where(todo[:, number], codes[:, number], 0).astype(np.int8)
            column = values[:, number].copy()
            fill(column, seen[:, number], some, whole.offsets)
            values[:, number], codes[some != 0, number] = column, some[some != 0]
        shape = getattr(whole, field).shape
        changes |= {name: codes.reshape(shape) if codes.any() else None, field: values.reshape(shape)}
    return whole.replace(**changes) if changes else whole


def _names(store: SeriesStore, field: str) -> tuple[str, ...]:
    return ("y",) if field == "y" else getattr(store, f"{field}_names")


def _places(whole: SeriesStore, part: SeriesStore) -> tuple[Ints, Ints]:
    """The rows of the joined store that come from a part, and their rows in the part."""
    number = {name: position for position, name in enumerate(whole.ids.tolist())}
    series = np.array([number.get(name, -1) for name in part.ids.tolist()], dtype=np.int64)
    kept = np.flatnonzero(series >= 0)
    steps, _ = whole.rows_at(part.start[kept], series[kept])
    lengths = part.lengths[kept]
    inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    first = whole.offsets[:-1][series[kept]] + steps
    return np.repeat(first, lengths) + inside, np.repeat(part.offsets[:-1][kept], lengths) + inside


def _part_fills(
    part: SeriesStore, name: str, rows: Ints, names: tuple[str, ...]
) -> Iterator[tuple[int, npt.NDArray[Any], Codes, Bools]]:
    """Yield for each column of a part: its index in `names`, values and codes of some rows, and which to impute."""
    found = {number: column for key, number, *column in columns(part) if key == name}
    field = FILLED[name]
    whole = getattr(part, field)
    block = np.empty((len(part.y), 0)) if whole is None else whole.reshape(len(part.y), -1)
    for number, title in enumerate(_names(part, field)):
        if title not in names:
            continue
        values, seen, codes = found.get(number, (block[:, number], None, np.zeros(len(part.y), dtype=np.int8)))
        again = codes < 0
        if seen is not None:
            last = last_observed(seen, part.offsets[1:] - 1, part.offsets[:-1])
            after = np.arange(len(seen)) > np.repeat(last, part.lengths)
            again |= after & (np.abs(codes) >= LOOKS_AHEAD)
        yield names.index(title), values[rows], codes[rows], again[rows]
