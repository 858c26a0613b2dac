"""Aggregate a table with key columns to all series of its hierarchy, with the summing matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.hierarchy.hierarchy import Hierarchy
from neuro_divergent.data.read.files import take_over
from neuro_divergent.data.schema.load_report import listing

How = Literal["sum", "mean", "min", "max", "first", "last"]

TOTAL = "Total"
"""Name of the series of the level without keys."""


class Aggregated(NamedTuple):
    """All series of a hierarchy, and its summing matrix."""

    data: Any
    """A frame of the input's library: name of the series, time, target, and the other columns requested."""
    hierarchy: Hierarchy
    """The summing matrix; the argument S of HINT. `hierarchy.levels` names the series of each level."""


def aggregate(
    table: Any,
    levels: Sequence[Sequence[str]],
    *,
    time_col: str = "ds",
    target_col: str = "y",
    id_col: str = "unique_id",
    columns: Mapping[str, How] | None = None,
    separator: str = "/",
) -> Aggregated:
    """Sum a table over its key columns, level by level, and return all series with the summing matrix.

    A series is named by its keys, such as "Victoria/Melbourne". The level [] is the total of all series. At each time,
    a parent is the sum of the children between their first and last row. If a child has a gap, its parents have a gap
    there too: a sum without the child would show a false drop.

    Args:
        table: rows of keys, time and target, in any library that `TimeSeriesDataFrame.from_frame` takes. Rows with the
            same keys and time are summed.
        levels: the key columns of each level, such as [[], ["state"], ["state", "region"]]. The last level has all
            keys.
        time_col: name of the time column.
        target_col: name of the column to sum.
        id_col: name of the new column with the names of the series.
        columns: other columns to keep, and how the rows of a series at one time are combined: {"price": "mean"}.
            A parent combines all rows of its children. "first" and "last" follow the order of the table. Empty cells
            are skipped.
        separator: text between two keys in a name.

    >>> table = {"shop": ["a", "b", "a", "b"], "ds": [1, 1, 2, 2], "y": [1.0, 2.0, 3.0, 4.0]}
    >>> aggregate(table, [[], ["shop"]]).data["y"]
    [3.0, 7.0, 1.0, 3.0, 2.0, 4.0]
    """
    lazy, library = take_over(table)
    frame = lazy.collect()
    chosen = [tuple([level] if isinstance(level, str) else level) for level in levels]
    keys = _keys(chosen)
    others = dict(columns or {})
    _check(frame, keys, (time_col, target_col, *others))
    # Every level is computed from the rows of the table: aggregated children have lost the order of the rows.
    rows = frame.select(*dict.fromkeys([*keys, time_col, target_col, *others]))
    rows = rows.with_columns(pl.col(name).fill_nan(None) for name in others if rows.schema[name].is_float())
    rows = _gaps_shown(rows, keys, time_col)
    names = {_level_column(number): _named(level, separator) for number, level in enumerate(chosen)}
    rows = rows.with_columns(**names)
    parts = [
        rows.group_by(name, time_col, maintain_order=True)
        .agg(_added(target_col), *_combined(others))
        .rename({name: id_col})
        for name in names
    ]
    data = pl.concat([part.select(id_col, time_col, target_col, *others) for part in parts])
    hierarchy = _hierarchy(rows, chosen, separator)
    return Aggregated(_given_back(data.sort(id_col, time_col), library), hierarchy)


def _given_back(frame: pl.DataFrame, library: str) -> Any:
    """The frame in the library of the input table."""
    if library == "pandas":
        return frame.to_pandas()
    if library == "pyarrow":
        return frame.to_arrow()
    return frame.to_dict(as_series=False) if library == "dict" else frame


def _keys(levels: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    if not levels or not levels[-1]:
        raise ConfigError(f"aggregate needs levels, the last one with all keys, but got levels={list(levels)}")
    last = levels[-1]
    lost = [key for level in levels for key in level if key not in last]
    if lost:
        raise ConfigError(
            f"the last level names the bottom series, so it must have all keys, but {listing(dict.fromkeys(lost))} "
            f"is not among {list(last)}"
        )
    sets = [frozenset(level) for level in levels]
    if len(set(sets)) != len(sets):
        raise ConfigError(f"no two levels may have the same keys, but got levels={list(levels)}")
    return last


def _check(frame: pl.DataFrame, keys: Sequence[str], others: Sequence[str]) -> None:
    absent = [name for name in (*keys, *others) if name not in frame.columns]
    if absent:
        raise DataError(f"the table must have the columns {listing(absent)}, but has {listing(frame.columns)}")
    if not len(frame):
        raise DataError("the table must have rows, but got none")
    empty = [key for key in keys if frame[key].null_count()]
    if empty:
        raise DataError(f"every row needs all keys, but the key {listing(empty)} is missing in some rows. Fill it")


def _added(target: str) -> pl.Expr:
    """The sum; missing if any summand is missing."""
    value = pl.col(target).cast(pl.Float64)
    return pl.when(value.is_null().any() | value.is_nan().any()).then(None).otherwise(value.sum()).alias(target)


def _combined(columns: Mapping[str, How]) -> list[pl.Expr]:
    unknown = {name: how for name, how in columns.items() if how not in ("sum", "mean", "min", "max", "first", "last")}
    if unknown:
        raise ConfigError(f"columns are combined by sum, mean, min, max, first or last, but got {unknown}")
    return [getattr(pl.col(name).drop_nulls(), how)() for name, how in columns.items()]


def _gaps_shown(rows: pl.DataFrame, keys: Sequence[str], time_col: str) -> pl.DataFrame:
    """The rows, plus empty rows where a bottom series has none between its first and its last row."""
    place, first, last, count = "__place", "__first", "__last", "__count"  # names that no key has
    times = rows.select(pl.col(time_col).unique().sort()).with_row_index(place)
    spans = (
        rows.join(times, on=time_col)
        .group_by(keys)
        .agg(pl.col(place).min().alias(first), pl.col(place).max().alias(last), pl.col(place).n_unique().alias(count))
        .filter(pl.col(last) - pl.col(first) + 1 > pl.col(count))
    )
    if not len(spans):
        return rows
    wanted = (
        spans.select(*keys, pl.int_ranges(first, pl.col(last) + 1).cast(pl.List(pl.UInt32)).alias(place))
        .explode(place)
        .join(times, on=place)
        .drop(place)
    )
    missing = wanted.join(rows, on=[*keys, time_col], how="anti")
    return pl.concat([rows, missing.select(*keys, time_col)], how="diagonal")


def _level_column(number: int) -> str:
    return f"__level_{number}"


def _named(level: Sequence[str], separator: str) -> pl.Expr:
    if not level:
        return pl.lit(TOTAL)
    return pl.concat_str([pl.col(key).cast(pl.String) for key in level], separator=separator)


def _hierarchy(rows: pl.DataFrame, levels: Sequence[tuple[str, ...]], separator: str) -> Hierarchy:
    names = [_level_column(number) for number in range(len(levels))]
    bottom = rows.select(names).unique().sort(names[-1])
    if len(bottom) != bottom[names[-1]].n_unique():
        raise DataError(
            f"the names of the bottom series must differ, but joining the keys by {separator!r} gives some names "
            "twice. Use another separator"
        )
    members: dict[str, list[int]] = {}
    by_level: dict[str, tuple[str, ...]] = {}
    for level, column in zip(levels, names, strict=True):
        found: dict[str, list[int]] = {}
        for number, name in enumerate(bottom[column].to_list()):
            found.setdefault(name, []).append(number)
        twice = sorted(found.keys() & members.keys())
        if twice:
            raise DataError(
                f"a series has one name, but {listing(twice)} is on two levels. Add a key to one of them, or change "
                "the values of the key"
            )
        members |= found
        by_level[separator.join(level) or TOTAL] = tuple(sorted(found))
    ids = sorted(members)
    place = {name: number for number, name in enumerate(ids)}
    return Hierarchy(
        ids=tuple(ids),
        rows=tuple(tuple(members[name]) for name in ids),
        bottom=tuple(place[name] for name in bottom[names[-1]].to_list()),
        levels=by_level,
    )
