"""Series that are named by several columns together, such as store and item: joins the parts to one id, and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.sniff.parts import join_parts
from neuro_divergent.data.schema.file_format import FileFormat
from neuro_divergent.data.schema.load_report import DataReport, listing
from neuro_divergent.data.schema.schema import TIE, DataSchema

_ESCAPED = f"%{ord(TIE):02X}"


def key_parts(schema: DataSchema, columns: Collection[str]) -> tuple[str, ...]:
    """The columns that name the series together; empty if one column does.

    A schema of an earlier version has only the joined name.
    """
    if schema.id_parts or schema.id_col in columns or TIE not in schema.id_col:
        return schema.id_parts
    parts = tuple(schema.id_col.split(TIE))
    return parts if set(parts) <= set(columns) else ()


def with_joined_keys(lazy: pl.LazyFrame, schema: DataSchema) -> tuple[pl.LazyFrame, DataSchema]:
    """The table with the id and the time that several columns form together."""
    return with_joined_id(*_with_joined_time(lazy, schema))


def _with_joined_time(lazy: pl.LazyFrame, schema: DataSchema) -> tuple[pl.LazyFrame, DataSchema]:
    """The table with one time column made of its parts. A table that has it already is returned as it is."""
    parts, columns = schema.time_parts, lazy.collect_schema()
    if not parts or (schema.resolved and schema.time_col in columns):
        return lazy, schema
    absent = [part for part in parts if part not in columns]
    if absent or schema.time_col in columns:
        got = f"got none named {listing(absent)}" if absent else f"got a column {schema.time_col!r} as well"
        raise DataError(
            f"the table must have the columns {listing(parts)}, which form the time {schema.time_col!r}, but {got}. "
            "Correct time_col=...",
            advice=[Advice("data.time_col")],
        )
    file = schema.file or FileFormat()
    table = lazy.select(parts).collect()
    joined = join_parts(
        table,
        parts,
        form=schema.time_format,
        known=file.time_format,
        first_hour=file.first_hour,
        zone=schema.time_zone,
    )
    if not schema.resolved and (joined.form or joined.first_hour):
        schema = schema.replace(file=file.replace(time_format=joined.form, first_hour=joined.first_hour))
    if schema.wide:
        lazy = lazy.drop(part for part in parts if part not in (*schema.future, *schema.historical))
    return pl.concat([lazy, joined.values.alias(schema.time_col).to_frame().lazy()], how="horizontal"), schema


def with_joined_id(lazy: pl.LazyFrame, schema: DataSchema) -> tuple[pl.LazyFrame, DataSchema]:
    """The table with one id column made of the parts, and the schema that records which parts are whole numbers."""
    columns = lazy.collect_schema()
    parts = key_parts(schema, columns)
    if not parts or schema.id_col in columns:
        return lazy, schema
    absent = [part for part in parts if part not in columns]
    if absent:
        raise DataError(
            f"the table must have the columns {listing(parts)}, which name its series, but got none named "
            f"{listing(absent)}. Correct id_col=...",
            advice=[Advice("data.id_col")],
        )
    for part in parts:
        kind = columns[part]
        if not (kind.is_integer() or isinstance(kind, pl.String | pl.Categorical | pl.Enum)):
            raise DataError(f"column {part!r} must hold text or whole numbers to name series, but got {kind}.")
    whole = tuple(part for part in parts if columns[part].is_integer())
    if schema.id_parts and not schema.resolved:
        schema = schema.replace(integer_parts=whole)
    return lazy.with_columns(_joined(parts).alias(schema.id_col)), schema


def _joined(parts: Sequence[str]) -> pl.Expr:
    cells = [pl.col(part).cast(pl.String) for part in parts]
    marked = [
        cell.str.replace_all(rf"%(25|{_ESCAPED[1:]})", "%25${1}").str.replace_all(TIE, _ESCAPED, literal=True)
        for cell in cells
    ]
    return pl.concat_str(marked, separator=TIE)


def with_parts(frame: pl.DataFrame, schema: DataSchema) -> pl.DataFrame:
    """A frame of ours with the parts in place of the joined id column."""
    if not schema.id_parts or schema.id_col not in frame.columns:
        return frame
    names = schema.id_parts
    ids = frame[schema.id_col]
    fields = ids.unique()
    split = fields.str.split_exact(TIE, len(names) - 1).struct.unnest()
    columns = []
    for name, column in zip(names, split.get_columns(), strict=True):
        plain = column.str.replace_all(_ESCAPED, TIE, literal=True)
        plain = plain.str.replace_all(rf"%25(25|{_ESCAPED[1:]})", "%${1}")
        columns.append((plain.cast(pl.Int64) if name in schema.integer_parts else plain).alias(name))
    table = pl.DataFrame([fields.alias("\0id"), *columns])
    found = ids.alias("\0id").to_frame().join(table, on="\0id", how="left", maintain_order="left").drop("\0id")
    place = frame.columns.index(schema.id_col)
    rest = [column for column in frame.get_columns() if column.name not in (*names, schema.id_col)]
    before = sum(column.name not in names for column in frame.get_columns()[:place])
    return pl.DataFrame([*rest[:before], *found.get_columns(), *rest[before:]])


def static_per_series(static: pl.DataFrame, lazy: pl.LazyFrame, schema: DataSchema, report: DataReport) -> pl.DataFrame:
    """The static table with one joined id. A table that has a part of the key only holds for every series of it."""
    parts = [part for part in schema.id_parts if part in static.columns]
    if schema.id_col in static.columns or len(parts) == len(schema.id_parts) or not parts:
        return with_joined_id(static.lazy(), schema)[0].drop(schema.id_parts, strict=False).collect()
    twice = static.select(parts).filter(static.select(parts).is_duplicated())
    if len(twice):
        raise DataError(
            f"a static table with the columns {listing(parts)} of the key has one row for each of them, but got "
            f"several for {listing(map(str, twice.row(0)))}. Remove them, or add the other columns of the key."
        )
    series = lazy.select(schema.id_col, *parts).unique(maintain_order=True).collect()
    if [series.schema[part].is_integer() for part in parts] != [static.schema[part].is_integer() for part in parts]:
        raise DataError(f"the columns {listing(parts)} of the static table must have the types of the main table.")
    kinds = {part: series.schema[part] for part in parts}
    found = series.join(
        static.with_columns(pl.col(name).cast(kind) for name, kind in kinds.items()).with_columns(
            pl.lit(True).alias("\0there")
        ),
        on=parts,
        how="left",
    )
    absent = found.filter(pl.col("\0there").is_null())
    if len(absent):
        raise DataError(
            f"the static table must have a row for every {', '.join(parts)}, but got none for "
            f"{listing(map(str, absent.select(parts).row(0)))}. Add it."
        )
    report.notes.append(f"the static table names {listing(parts)} only: each row holds for all series of it")
    return found.drop("\0there", *parts)
