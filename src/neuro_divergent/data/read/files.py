"""Reads Parquet files and tables of other libraries."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from neuro_divergent.core.errors import DataError, DataFileError
from neuro_divergent.core.extras import require
from neuro_divergent.data.read.guard import guarded
from neuro_divergent.data.read.parquet_guard import check_pages
from neuro_divergent.data.read.sniff.unpack import PathLike, existing


def scan_parquet(path: PathLike) -> pl.LazyFrame:
    """A Parquet file, a glob pattern, or a directory of partitions, as a LazyFrame: columns are read on demand."""
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise DataFileError(f"path must be text, but got {path!r}")
    folder = os.path.isdir(text)
    if folder:
        files = sorted(str(file) for file in Path(text).rglob("*.parquet"))
    elif any(sign in text for sign in "*?[") and not os.path.exists(text):
        files = sorted(glob.glob(text, recursive=True))
    else:
        files = [str(existing(text))]
    if not files:
        raise DataFileError(f"{text} must have Parquet files, but there are none. Check the path.")
    for file in files:
        check_pages(existing(file))
    with guarded(text, DataFileError):
        lazy = pl.scan_parquet(
            files, hive_partitioning=folder, missing_columns="raise", extra_columns="raise", glob=False
        )
        lazy.collect_schema()
    return lazy


def take_over(frame: Any) -> tuple[pl.LazyFrame, str]:
    """A table of any supported library as a polars LazyFrame, and the name of the library."""
    if isinstance(frame, pl.LazyFrame):
        return frame, "polars"
    if isinstance(frame, pl.DataFrame):
        return frame.lazy(), "polars"
    library = type(frame).__module__.split(".")[0]
    if library == "pandas":
        return _from_pandas(frame).lazy(), "pandas"
    if library == "pyarrow":
        with guarded("the pyarrow table"):
            return _as_frame(pl.from_arrow(frame)).lazy(), "pyarrow"
    if isinstance(frame, Mapping):
        with guarded("the dict of columns"):
            return pl.DataFrame({str(name): _array(column) for name, column in frame.items()}).lazy(), "dict"
    raise DataError(
        "data must be a polars, pandas or pyarrow table or a dict of columns, "
        f"but got {type(frame).__name__}. For a file use from_csv or from_parquet."
    )


def _as_frame(table: Any) -> pl.DataFrame:
    return table if isinstance(table, pl.DataFrame) else table.to_frame()


def _array(column: Any) -> Any:
    return list(column) if isinstance(column, tuple | range) else column


def _from_pandas(frame: Any) -> pl.DataFrame:
    pandas = require("pandas", extra="pandas", purpose="Reading a pandas table")
    require("pyarrow", extra="pandas", purpose="Reading a pandas table")
    if isinstance(frame, pandas.Series):
        frame = frame.to_frame(frame.name or "y")
    with guarded("the pandas table"):
        named = [name for name in frame.index.names if name is not None and name not in frame.columns]
        if named:
            frame = frame.reset_index(level=named)
        frame = frame.rename(columns=str)
        _check_names(list(frame.columns))
        for name in frame.columns:
            if isinstance(frame[name].dtype, pandas.PeriodDtype):
                frame = frame.assign(**{name: frame[name].dt.to_timestamp()})
        return _as_frame(pl.from_pandas(frame.reset_index(drop=True)))


def _check_names(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"a table must name each column once, but got {', '.join(map(repr, twice))} more than once.")
