"""Series that are named by several columns together, such as store and item: joins the parts to one id, and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.schema.load_report import listing
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
