"""Input and output tables: ids of any type, roles by model, results in the library of the input."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl

from neuro_divergent.compat.neuralforecast.errors import MissingColumnError
from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.compat.neuralforecast.tables.clock import Clock
from neuro_divergent.core import bundle
from neuro_divergent.core.errors import CorruptFileError, DataError
from neuro_divergent.data.read.files import take_over
from neuro_divergent.data.read.parquet_guard import check_pages
from neuro_divergent.data.table import TimeSeriesDataFrame

MASK, WEIGHT = "available_mask", "sample_weight"
"""Columns whose names have a meaning."""
TABLE, STATIC = "table.parquet", "static.parquet"
"""Files of a saved training table."""


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a user's table."""

    id_col: str = "unique_id"
    time_col: str = "ds"
    target_col: str = "y"


@dataclass(frozen=True)
class Types:
    """What our store does not contain: the types of the id and the target, as polars writes them."""

    id_type: str = "String"
    target_type: str = "Float32"
    categories: Sequence[Any] | None = None
    """The ids in their order, if the column of ids is categorical."""

    @classmethod
    def of(cls, frame: pl.DataFrame, columns: Columns, df: Any) -> Types:
        """The types in a table."""
        id_type, target_type = (str(frame.schema[name]) for name in (columns.id_col, columns.target_col))
        return cls(id_type, target_type, _categories(df, columns.id_col))

    def order(self, ids: Sequence[Any]) -> list[int]:
        """The places of ids in the order of the categories."""
        if self.categories is None:
            return list(range(len(ids)))
        place = {str(name): number for number, name in enumerate(self.categories)}
        return sorted(range(len(ids)), key=lambda number: place.get(str(ids[number]), len(place)))

    def as_category(self, values: Any) -> Any:
        """Ids of a pandas result, categorical if they were."""
        if self.categories is None or not hasattr(values, "astype"):
            return values
        import pandas as pd

        return values.astype(pd.CategoricalDtype(list(self.categories)))

    def give_back(self, frame: pl.DataFrame, columns: Columns) -> pl.DataFrame:
        """The columns of a result in the types of the data, the series in their order."""
        if self.categories is not None:
            ids = frame[columns.id_col].unique(maintain_order=True).to_list()
            ranks = {ids[number]: rank for rank, number in enumerate(self.order(ids))}
            rank = pl.col(columns.id_col).replace_strict(ranks, return_dtype=pl.Int64)
            frame = frame.sort(rank, maintain_order=True)
        kinds = {columns.id_col: _simple(self.id_type), columns.target_col: _simple(self.target_type)}
        casts = [pl.col(name).cast(kind) for name, kind in kinds.items() if kind is not None and name in frame.columns]
        if columns.target_col in frame.columns and frame[columns.target_col].null_count():
            casts = [cast for cast in casts if cast.meta.output_name() != columns.target_col]
        return frame.with_columns(casts)


def _categories(df: Any, id_col: str) -> list[Any] | None:
    """The categories of a column of ids of pandas or polars, in order; None for other columns."""
    if isinstance(df, pl.LazyFrame):
        kind: Any = df.collect_schema()[id_col]
    else:
        inside = hasattr(df, "columns") and hasattr(df, "__getitem__") and id_col in list(df.columns)
        kind = getattr(df[id_col], "dtype", None) if inside else None
    if isinstance(kind, pl.Enum):
        return kind.categories.to_list()
    known = getattr(kind, "categories", None)
    return None if known is None or isinstance(kind, pl.DataType) else known.tolist()


def _simple(name: str) -> Any:
    """A numeric type by its name; None for other types, which are not converted."""
    names = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64")
    return getattr(pl, name) if name in names else None


def plain_frame(frame: Any, id_col: str) -> tuple[pl.DataFrame, str]:
    """A user's table in polars with ids that are text or whole numbers, and the name of its library."""
    lazy, library = take_over(read_files(frame, id_col) if isinstance(frame, list | tuple) else frame)
    table = lazy.collect()
    if id_col in table.columns and table.schema[id_col].is_float():
        whole = bool((table[id_col].fill_null(0.0) % 1 == 0).all())
        table = table.with_columns(pl.col(id_col).cast(pl.Int64 if whole else pl.String))
    return table, library


def read_files(paths: Sequence[Any], id_col: str) -> pl.DataFrame:
    """The rows of Parquet files and of directories of them; a directory named id=value is the series of that name."""
    parts = []
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise DataError(f"a list of files must have paths of Parquet files or directories, but got {path!r} in it")
        place = Path(path)
        found = sorted(place.glob("**/*.parquet")) if place.is_dir() else [place]
        if not found or not all(item.is_file() for item in found):
            raise DataError(f"every path must be a Parquet file or a directory with some, but {place} is not")
        for item in found:
            check_pages(item)
            part = pl.read_parquet(item, hive_partitioning=False)
            if id_col not in part.columns:
                holder = item.parent.name if item.parent.name.startswith(f"{id_col}=") else place.stem
                part = part.with_columns(pl.lit(unquote(holder.rpartition("=")[2])).alias(id_col))
            parts.append(part)
    return pl.concat(parts, how="diagonal_relaxed")


def use_empty(path: str | os.PathLike[str]) -> None:
    """Let an empty folder be written to, as the peer does. A folder with anything else in it stays as it is."""
    place = Path(path)
    if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
        place.rmdir()


@dataclass
class Source:
    """The tables that a user gave to `fit` or `cross_validation`, read once for each set of roles."""

    frame: pl.DataFrame
    library: str
    columns: Columns
    types: Types
    freq: Any
    static: pl.DataFrame | None = None
    clock: Clock | None = None
    """The stamps of the rows, if they do not follow `freq`."""
    _read: dict[tuple[Any, ...], TimeSeriesDataFrame] = field(default_factory=dict)

    @classmethod
    def of(cls, df: Any, static_df: Any, columns: Columns, freq: Any) -> Source:
        """Convert a user's tables."""
        if isinstance(df, list | tuple):
            df = read_files(df, columns.id_col)
        lazy, _ = take_over(df)
        require_columns(lazy.collect_schema().names(), (columns.id_col, columns.time_col, columns.target_col), "df")
        types = Types.of(lazy.head(0).collect(), columns, df)
        frame, library = plain_frame(df, columns.id_col)
        static = None if static_df is None else plain_frame(static_df, columns.id_col)[0]
        return cls(frame, library, columns, types, freq, static)

    def files(self) -> dict[str, bytes]:
        """The tables as Parquet files, by name."""
        frames = {TABLE: self.frame} | ({} if self.static is None else {STATIC: self.static})
        found = {}
        for name, frame in frames.items():
            frame.write_parquet(buffer := io.BytesIO())
            found[name] = buffer.getvalue()
        return found

    @classmethod
    def from_files(cls, folder: Path, columns: Columns, types: Types, freq: Any) -> Source | None:
        """The inverse of `files`; None if the folder has no table."""
        contents = bundle.read(folder)
        if TABLE not in contents:
            return None
        frames = []
        for name in (TABLE, STATIC):
            check_pages(folder / name)
            frames.append(_parquet(contents[name], folder / name) if name in contents else None)
        frame = frames[0]
        assert frame is not None
        require_columns(frame.columns, (columns.id_col, columns.time_col, columns.target_col), TABLE)
        return cls(frame, "polars", columns, types, freq, frames[1])

    def table(self, member: Member) -> TimeSeriesDataFrame:
        """The table of a model, with the columns that it takes."""
        facts = member.facts
        key = (facts.future, facts.historical, facts.static, facts.categorical)
        if key not in self._read:
            self._read[key] = self._table(member)
        member.check(self._read[key])
        return self._read[key]

    def values_of(self, name: str) -> dict[Any, int]:
        """The values of a column in order, numbered from 1."""
        holder = self.frame if name in self.frame.columns or self.static is None else self.static
        return {value: number for number, value in enumerate(holder[name].drop_nulls().unique().sort(), start=1)}

    def _table(self, member: Member) -> TimeSeriesDataFrame:
        columns, facts = self.columns, member.facts
        for kind, names in (("historical", facts.historical), ("future", facts.future)):
            require_exogenous(self.frame.columns, names, kind, f"{member.name} takes them from df")
        options: dict[str, Any] = dict(member.roles) | {
            "id_col": columns.id_col, "time_col": columns.time_col, "target_col": columns.target_col, "freq": self.freq,
            "lower": None,  # neuralforecast does not limit forecasts
        }  # fmt: skip
        if facts.static:
            options["static"] = static_part(self.static, facts.static, columns.id_col, member.name)
        options |= {role: name for role, name in (("available_mask", MASK), ("weight", WEIGHT)) if name in self.frame}
        if MASK not in self.frame.columns:
            options["missing"] = "error"
        table = self._counted(options)
        table.library = self.library
        return table

    def _counted(self, options: dict[str, Any]) -> TimeSeriesDataFrame:
        """The table with its time stamps, or with numbered rows if the stamps do not follow `freq`."""
        if self.clock is None:
            error = None
            try:
                table = TimeSeriesDataFrame.from_frame(self.frame, **options)
                if len(table) <= 2 * len(self.frame):
                    return table
            except DataError as refused:
                error = refused
            clock = Clock.of(self.frame, self.columns.id_col, self.columns.time_col, self.freq)
            try:
                if clock is None:
                    raise DataError("rows cannot be counted")
                table = TimeSeriesDataFrame.from_frame(clock.counted(self.frame), **options | {"freq": 1})
            except DataError as second:
                raise (second if error is None else error) from None
            self.clock = clock
            warnings.warn(
                f"the time stamps do not follow freq={self.freq!r}: rows are counted, and freq gives the stamps after "
                "the last row.", UserWarning, stacklevel=2,
            )  # fmt: skip
            return table
        return TimeSeriesDataFrame.from_frame(self.clock.counted(self.frame), **options | {"freq": 1})


def _parquet(data: bytes, path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(io.BytesIO(data), hive_partitioning=False)
    except pl.exceptions.PolarsError as error:
        raise CorruptFileError(f"{path} must be a Parquet file, but is not: {error}") from None


def static_part(static: pl.DataFrame | None, names: tuple[str, ...], id_col: str, model: str) -> pl.DataFrame:
    """The static columns that a model takes."""
    if static is None:
        require_exogenous((), names, "static", f"{model} takes them from static_df, but got none")
    assert static is not None
    require_columns(static.columns, (id_col,), "static_df")
    require_exogenous(static.columns, names, "static", f"{model} takes them from static_df")
    return static.select(id_col, *names)


def require_exogenous(have: Iterable[str], wanted: Iterable[str], kind: str, who: str) -> None:
    """Refuse a table that lacks the columns of a kind."""
    have = list(have)
    missing = [name for name in wanted if name not in have]
    if missing:
        raise MissingColumnError(
            f"{kind} exogenous variables not found in input dataset, which must have all columns of the models: "
            f"{missing}. {who}"
        )


def require_columns(have: Iterable[str], wanted: Iterable[str], where: str) -> None:
    """Refuse a table that lacks columns."""
    have = list(have)
    missing = [name for name in wanted if name not in have]
    if missing:
        raise MissingColumnError(f"{where} must have the columns {', '.join(missing)}, but has {', '.join(have)}")
