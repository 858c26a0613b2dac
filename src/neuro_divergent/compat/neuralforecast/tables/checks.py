"""Checks of the tables of `fit` and `predict`. Messages have the key words of neuralforecast: scripts look for them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import polars as pl

from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.compat.neuralforecast.tables.frames import MASK, WEIGHT, Source, plain_frame
from neuro_divergent.core.errors import ConfigError, DataError


def check_values(source: Source) -> None:
    """Refuse missing values in available rows or in static columns, and weights below 0."""
    frame, columns = source.frame, source.columns
    if WEIGHT in frame.columns:
        weights = frame[WEIGHT].cast(pl.Float64)
        if _gaps(weights):
            raise DataError(f"the column {WEIGHT} contains NaN values. Give every row a weight")
        if (weights < 0).any():
            raise DataError(f"the column {WEIGHT} must be non-negative, but its smallest value is {weights.min()!r}")
    seen = frame.filter(pl.col(MASK).cast(pl.Float64) != 0) if MASK in frame.columns else frame
    names = [name for name in frame.columns if name not in (columns.id_col, columns.time_col, WEIGHT)]
    found = [name for name in names if _gaps(seen[name])]
    static = [] if source.static is None else [name for name in source.static.columns if _gaps(source.static[name])]
    if found or static:
        raise DataError(
            f"Found missing values in {found + static}. Fill them in, or set {MASK}=0 in rows that are not available"
        )


def _gaps(values: pl.Series) -> bool:
    return bool(values.null_count()) or (values.dtype.is_float() and bool(values.is_nan().any()))


def check_categories(members: Sequence[Member], source: Source) -> None:
    """Refuse categorical columns with more values than declared, and models that declare different numbers."""
    declared: dict[str, int] = {}
    for member in members:
        for name, number in member.facts.cardinalities:
            if declared.setdefault(name, number) != number:
                raise ConfigError(
                    f"models declare conflicting categorical_cardinalities of {name!r}: {declared[name]} and {number}"
                )
    for name, number in declared.items():
        values = len(source.values_of(name))
        if values > number:
            raise DataError(
                f"{name!r} has {values} distinct values, but categorical_cardinalities declares {number}. Declare more"
            )


def needed_future(members: Sequence[Member], futr_df: Any, id_col: str) -> tuple[pl.DataFrame | None, list[str]]:
    """The user's table of future columns, and the columns that the models need."""
    wanted = sorted({name for member in members for name in member.facts.future})
    if not wanted:
        return None, []
    if futr_df is None:
        raise DataError(
            f"Models require the following future exogenous features: {{{str(wanted)[1:-1]}}}, but got no futr_df. "
            "Give futr_df=..."
        )
    frame, _ = plain_frame(futr_df, id_col)
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise DataError(f"columns are missing from `futr_df`: {{{str(missing)[1:-1]}}}. Add the columns")
    return frame, wanted


def check_future(frame: pl.DataFrame, expected: pl.DataFrame, wanted: Sequence[str]) -> pl.DataFrame:
    """The rows of future columns at the expected ids and times; missing rows and values are refused."""
    keys = expected.columns
    try:
        own = frame.with_columns([pl.col(name).cast(expected.schema[name]) for name in keys])
    except pl.exceptions.PolarsError:
        return frame  # the reader has a sentence about types
    kept = own.join(expected, on=keys, how="semi")
    if len(kept.unique(keys)) < len(expected):
        raise DataError(
            "There are missing combinations of id and step in `futr_df`, which must have all: "
            f"{len(expected) - len(kept.unique(keys))} "
            f"of {len(expected)}. make_future_dataframe() gives all, get_missing_future(futr_df) the missing ones"
        )
    if len(kept) < len(frame):
        warnings.warn(f"Dropped {len(frame) - len(kept):,} unused rows from `futr_df`.", UserWarning, stacklevel=4)
    empty = [name for name in wanted if _gaps(kept[name])]
    if empty:
        raise DataError(f"Found null values in `futr_df`, which must be complete: {', '.join(empty)}. Fill them in")
    return kept
