"""Tables that belong together: later rows of known series, and two tables as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.data.agreement import check_together
from neuro_divergent.data.features.attach import horizon_features, span_in
from neuro_divergent.data.read.series_checks import check_series
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.fills import FILLED, LOOKS_AHEAD, Bools, Codes, Ints, columns, fill, last_observed
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame


def later_rows(table: TimeSeriesDataFrame, rows: Any, *, new_series: bool = False) -> TimeSeriesDataFrame:
    """Read rows that extend `table`, with its schema.

    Whole-series checks (min_length, constant, all_missing) are skipped. Series that the table had to drop are dropped
    here too, unless new series are welcome.
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
    """Training and validation rows as one table, and how many rows of each series are training rows."""
    check_together(table, validation, "later", ("the training table", "the validation table"))
    both = pl.concat([table.to_polars(), validation.to_polars()], how="vertical_relaxed")
    return read_again(both, table.schema, (table, validation)), table.store.lengths


def joined_tables(known: TimeSeriesDataFrame, newer: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
    """Both tables as one; a row of both is taken from the newer one, and new series are judged like those of a fit."""
    both = pl.concat([known.to_polars(), newer.to_polars()], how="vertical_relaxed")
    keys = [*known.schema.id_columns, known.schema.time_col]
    latest = both.unique(subset=keys, keep="last", maintain_order=True)
    # Both were judged when they were read: a category that came after the training rows has no name any more.
    joined = read_again(latest, known.schema.replace(unknown_categories="keep"), (known, newer))
    joined.schema = joined.schema.replace(unknown_categories=known.schema.unknown_categories)
    joined._report.merged_targets = newer.report().merged_targets
    joined.store = check_series(joined.store, joined.schema, joined._report, set(known.ids.tolist()))
    return joined


def _columns(table: TimeSeriesDataFrame) -> list[str]:
    """The columns of the table in long form."""
    return table.head(1).to_polars().columns


def read_again(rows: pl.DataFrame, schema: DataSchema, parts: Sequence[TimeSeriesDataFrame]) -> TimeSeriesDataFrame:
    """Rows of tables that were read already as one table.

    They were repaired when they were read: what is still empty was masked, and no policy is asked a second time. What
    was filled is filled again where the other rows say more about it.
    """
    done: dict[str, Any] = {"missing": "mask", "constant": "keep", "all_missing": "keep", "min_length": None}
    whole = TimeSeriesDataFrame.from_frame(rows, schema=schema.replace(**done))
    whole.schema = whole.schema.replace(**{name: getattr(schema, name) for name in done})
    whole.store = _filled_again(whole.store, [part.store for part in parts])
    whole.library = parts[0].library
    return on_grid_of(parts[0], whole)


def on_grid_of(known: TimeSeriesDataFrame, table: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
    """Rows of known series count on from the known grid, if they are on it.

    A few rows do not always say which grid they are on: a 30th of April and of June may stand for the 30th or for the
    31st of every month.
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


def _filled_again(whole: SeriesStore, parts: Sequence[SeriesStore]) -> SeriesStore:
    """A store with the fills of those that it was put together from; a gap that is closed now gets both its sides.

    A made-up value stays as it was, unless there was nothing to fill it with, or its part ended before the next value.
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
    """The rows of a store that a part of it became, and which rows of the part they were."""
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
    """Of each column of a part: its place among `names`, values and codes of some rows, and what to fill anew."""
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
