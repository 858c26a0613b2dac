"""Reads the columns known ahead for the steps after the end of every series."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.columns import Stamps, Where, encode, is_text, read_numbers, warn_unknown
from neuro_divergent.data.read.timestamps import localise, read_stamps
from neuro_divergent.data.schema.load_report import DataReport
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.store import SeriesStore


class FutureValues(NamedTuple):
    """Values for the horizon of every series; a field is None if no column has that role."""

    future: npt.NDArray[np.floating] | None
    """[S, h, F] in the order of `store.future_names`: the table's own columns, then calendar features."""
    categorical: npt.NDArray[np.int32] | None
    """[S, h, K] codes of the schema's `future_categorical` columns."""


def read_future(
    table: pl.DataFrame, store: SeriesStore, schema: DataSchema, horizon: pl.DataFrame, least: int
) -> FutureValues:
    """The columns of `table` for each row of `horizon` (series number, ticks, shown time).

    At least the first `least` steps must be there. Further ones count up to the first step that a series lacks; the
    last step that counts is repeated for the rest.
    """
    own = tuple(name for name in store.future_names if name in schema.future)
    categorical = schema.future_categorical
    names = (*own, *categorical)
    if not names:
        return FutureValues(None, None)
    _check_names(table, schema, names)
    if not len(table):
        raise DataError(f"the future table must have rows for {', '.join(map(repr, names))}, but got none.")
    rows = _matched(table, store, schema, horizon, least)
    chosen = table[rows.reshape(-1)]
    where: Where = lambda row: f"row {int(rows.reshape(-1)[row])} of the future table"  # noqa: E731
    numbers = [_numbers(chosen[name], rows, where, schema, least) for name in own]
    codes = [_codes(chosen[name], store.categories[name], where, schema).reshape(rows.shape) for name in categorical]
    known = min((part.shape[1] for part in numbers), default=rows.shape[1])
    steps = np.minimum(np.arange(len(horizon) // len(store.ids)), known - 1)
    return FutureValues(
        np.stack([part[:, steps] for part in numbers], axis=2) if numbers else None,
        np.stack([part[:, steps] for part in codes], axis=2) if codes else None,
    )


def _codes(series: pl.Series, known: tuple[str, ...], where: Where, schema: DataSchema) -> npt.NDArray[np.int32]:
    codes, _ = encode(series, where, DataReport(), schema.unknown_categories, known)
    warn_unknown(series, codes, where, empty=True)
    return codes


def _check_names(table: pl.DataFrame, schema: DataSchema, names: tuple[str, ...]) -> None:
    needed = [schema.time_col, *names] if schema.id_type == "none" else [schema.id_col, schema.time_col, *names]
    absent = [name for name in needed if name not in table.columns]
    if absent:
        raise DataError(
            f"the future table must have the columns {', '.join(map(repr, needed))}, but got none named "
            f"{', '.join(map(repr, absent))}. Add them for every step of the horizon."
        )


def _matched(
    table: pl.DataFrame, store: SeriesStore, schema: DataSchema, horizon: pl.DataFrame, least: int
) -> npt.NDArray[np.int64]:
    """[S, n] the row of the table for each step of each series, up to the first step that one of them lacks."""
    numbers = _series_numbers(table, store, schema)
    stamps = future_stamps(table, numbers, schema)
    ticks = stamps.times().astype("datetime64[us]").astype(np.int64) if stamps.unit != "i" else stamps.ticks
    given = pl.DataFrame({"series": numbers, "ticks": ticks, "row": np.arange(len(table))}).filter(
        pl.col("series") >= 0
    )
    twice = given.filter(pl.struct("series", "ticks").is_duplicated())
    if len(twice):
        raise DataError(
            f"the future table has one row per series and time, but got several, such as row {twice['row'][1]} "
            f"of series {store.ids[twice['series'][1]].item()!r}. Remove them."
        )
    found = horizon.join(given, on=["series", "ticks"], how="left", maintain_order="left")
    shape = (len(store.ids), -1)
    there = found["row"].is_not_null().to_numpy().reshape(shape)
    known = _complete(there)
    if known < least:
        lacking = found.filter(((np.arange(there.shape[1]) < least) & ~there).reshape(-1))
        raise DataError(
            f"the future table must have a row for every step of the horizon, but got none for series "
            f"{store.ids[lacking['series'][0]].item()!r} at {lacking['time'][0]} "
            f"({len(lacking):,} rows are missing in all). Add them."
        )
    rows = found["row"].fill_null(-1).to_numpy().astype(np.int64).reshape(shape)
    return np.asarray(rows[:, :known])


def _complete(known: npt.NDArray[np.bool_]) -> int:
    """How many first steps of [S, h] are there in all series."""
    return int(np.append(known.all(axis=0), False).argmin())


def _series_numbers(table: pl.DataFrame, store: SeriesStore, schema: DataSchema) -> npt.NDArray[np.int64]:
    if schema.id_type == "none":
        return np.zeros(len(table), dtype=np.int64)
    ids = table[schema.id_col]
    kind = pl.String if schema.id_type == "text" else pl.Int64
    if is_text(ids) != (kind == pl.String) or not (is_text(ids) or ids.dtype.is_integer()):
        raise DataError(
            f"column {schema.id_col!r} of the future table must hold {schema.id_type} ids as the data, "
            f"but got {ids.dtype}. Cast it."
        )
    known = pl.DataFrame({"id": pl.Series(store.ids.tolist(), dtype=kind), "number": np.arange(len(store.ids))})
    joined = pl.DataFrame({"id": ids.cast(kind)}).join(known, on="id", how="left", maintain_order="left")
    return joined["number"].fill_null(-1).to_numpy().astype(np.int64)


def future_stamps(table: pl.DataFrame, numbers: npt.NDArray[Any], schema: DataSchema) -> Stamps:
    """The time column of a future table, read like that of the data. `numbers` are the series of its rows."""
    where: Where = lambda row: f"row {row} of the future table"  # noqa: E731
    known = None if schema.file is None else schema.file.time_format
    whole = schema.freq is not None and schema.freq.endswith("i")
    stamps = read_stamps(
        table[schema.time_col], where, zone=schema.time_zone, form=schema.time_format, known=known, counted=whole
    )
    if (stamps.unit == "i") != whole:
        raise DataError(
            f"column {schema.time_col!r} of the future table must hold time stamps of the same kind as the data."
        )
    if schema.time_zone is not None and stamps.zone is None:
        return localise(stamps, schema.time_zone, numbers, schema.time_col, where)
    if stamps.zone != schema.time_zone:
        raise DataError(
            f"column {schema.time_col!r} of the future table must have no time zone, as in the data, but got "
            f"{stamps.zone}. Remove it, or load the data with time_zone=...",
            advice=[Advice("data.time_zone")],
        )
    return stamps


def _numbers(
    series: pl.Series, rows: npt.NDArray[np.int64], where: Where, schema: DataSchema, least: int
) -> npt.NDArray[Any]:
    """[S, n] a column at some rows of the table, up to the first step at which a cell is empty."""
    numbers = read_numbers(series, where, DataReport(), dtype=schema.dtype)
    values = numbers.values.reshape(rows.shape)
    if numbers.observed is None:
        return values
    observed = numbers.observed.reshape(rows.shape)
    known = _complete(observed)
    if known < least:
        row = int(rows[:, :least][~observed[:, :least]][0])
        raise DataError(
            f"column {series.name!r} must be known for every step of the horizon, but got an empty cell at row {row} "
            "of the future table. Fill it in."
        )
    return np.asarray(values[:, :known])
