"""Checks the names and roles of a table's columns, with a helpful error for every missing name."""

from __future__ import annotations

import polars as pl

from neuro_divergent.core import registry
from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.load_file import raise_all
from neuro_divergent.data.schema.schema import DataSchema

_TIME_TYPES = (pl.Date, pl.Datetime)


def has_id(columns: pl.Schema, schema: DataSchema) -> bool:
    """Whether the table has an id column. A table without the default id column is one series."""
    if schema.id_type is not None:
        if schema.id_type == "none":
            return False
        if schema.id_col not in columns:
            raise _absent(columns, schema.id_col, "id_col")
        return True
    if schema.id_col in columns:
        return True
    if schema.id_col != "unique_id":
        raise _absent(columns, schema.id_col, "id_col")
    return False


def check_columns(columns: pl.Schema, schema: DataSchema, *, wide: bool) -> None:
    """Refuse a table that lacks a column that an argument names."""
    if not len(columns):
        raise DataError("a table needs columns, but got none.")
    names = [(schema.time_col, "time_col"), *([] if wide else [(schema.target_col, "target_col")])]
    for role in ("future", "historical", "categorical", "static"):
        names += [(name, role) for name in getattr(schema, role) if name not in schema.static_table]
    names += [(getattr(schema, role), role) for role in ("weight", "available_mask")]
    raise_all([_absent(columns, name, role) for name, role in names if name is not None and name not in columns])


def _absent(columns: pl.Schema, name: str, role: str) -> DataError:
    """The error about a column that some argument names and that is not there."""
    found = ", ".join(repr(column) for column in list(columns)[:20]) + (" ..." if len(columns) > 20 else "")
    if role in ("id_col", "time_col", "target_col", "weight", "available_mask"):
        proposal = _propose(columns, name, role)
        advice = [Advice(f"data.{role}", proposal or "...")]
        todo = f"Say {role}={proposal!r} if you mean that column." if proposal else f"Name it with {role}=..."
    else:
        near = registry.closest(name, list(columns))
        advice = []
        todo = f"Did you mean {near[0]!r}?" if near else "Correct the name."
    return DataError(
        f"the table must have the column {name!r} ({role}), but got the columns {found}. {todo}", advice=advice
    )


def _propose(columns: pl.Schema, name: str, role: str) -> str | None:
    """The only column that could be meant; None if there are none or several."""
    if role == "time_col":
        likely = [column for column, kind in columns.items() if isinstance(kind, _TIME_TYPES)]
        likely = likely or [c for c in columns if c.lower() in ("timestamp", "date", "time", "datetime", "ds", "index")]
    elif role == "target_col":
        likely = [column for column, kind in columns.items() if kind.is_float()]
        named = [c for c in columns if c.lower() in ("target", "value", "values", "sales", "demand", "y")]
        likely = named or likely
    else:
        likely = []
    near = registry.closest(name, list(columns))
    return likely[0] if len(likely) == 1 else near[0] if near else None


def wide_to_long(lazy: pl.LazyFrame, columns: pl.Schema, schema: DataSchema) -> pl.LazyFrame:
    """A table with one column per series → one row per series and time."""
    if schema.id_col in columns:
        raise DataError(
            f"a wide table has one column per series, but got the column {schema.id_col!r} of a long one. "
            "Leave wide=True out, or remove the column.",
            advice=[Advice("data.wide", False)],
        )
    shared = {schema.time_col, *schema.future, *schema.historical, *schema.categorical, *schema.static}
    shared |= {name for name in (schema.weight, schema.available_mask) if name is not None}
    series = [name for name in columns if name not in shared]
    if not series:
        raise DataError(
            f"a wide table has one column per series, but got only {', '.join(map(repr, columns))}. "
            "Add the columns to forecast."
        )
    for name in series:
        if not (columns[name].is_numeric() or columns[name] in (pl.String, pl.Null, pl.Boolean)):
            raise DataError(
                f"column {name!r} of a wide table must hold numbers, but got {columns[name]}. "
                "Leave it out, or give it a role."
            )
    text = any(columns[name] == pl.String for name in series)
    kind = pl.String if text else None
    if kind is not None:
        lazy = lazy.with_columns(pl.col(name).cast(kind) for name in series)
    index = [name for name in columns if name in shared]
    if schema.target_col in index:
        raise DataError(
            f"the target is named {schema.target_col!r}, but column {schema.target_col!r} has another role. "
            "Rename it, or say target_col=...",
            advice=[Advice("data.target_col")],
        )
    long = lazy.unpivot(on=series, index=index, variable_name="\0id", value_name="\0target")
    return long.rename({"\0id": schema.id_col, "\0target": schema.target_col})
