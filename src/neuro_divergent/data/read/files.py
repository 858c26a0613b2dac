"""Reading CSV and Parquet files, and taking over tables of other libraries."""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from neuro_divergent.core.errors import Advice, DataError, DataFileError, NeuroDivergentError
from neuro_divergent.core.extras import require
from neuro_divergent.data.read.columns import COMMA_NUMBER, MISSING_TEXT
from neuro_divergent.data.read.parquet_guard import check_pages

_DAY_OR_MONTH = re.compile(r"\s*\d{1,2}[/-]\d{1,2}[/-]\d{4}")
PathLike = str | os.PathLike[str]


@contextmanager
def guarded(what: str, error: type[DataError] = DataError) -> Iterator[None]:
    """Turn what the reading libraries raise into our error, with their first sentence."""
    try:
        yield
    except (NeuroDivergentError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as problem:
        # A defect of a reader on a broken file surfaces as a panic, which is no Exception.
        if not isinstance(problem, Exception) and type(problem).__name__ != "PanicException":
            raise
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        raise error(
            f"{what} cannot be read: {lines[0][:300]}. Check that it is complete and of the right kind."
        ) from None


def read_csv(
    path: PathLike, *, separator: str = ",", encoding: str = "utf-8", decimal_comma: bool = False
) -> pl.DataFrame:
    """The whole file, numbers and dates recognised; ragged rows, foreign bytes and empty files refused by line."""
    if len(separator.encode()) != 1:
        raise DataFileError(f"separator must be one character, but got separator={separator!r}")
    file = _existing(path)
    data = _decoded(file, encoding)
    header = _header(file, data, separator)
    options: dict[str, Any] = {"separator": separator, "try_parse_dates": True, "decimal_comma": decimal_comma}
    try:
        texts = _undecided(data, options)
        frame = pl.read_csv(io.BytesIO(data), infer_schema_length=10_000, schema_overrides=texts, **options)
    except pl.exceptions.PolarsError:
        # A later row may contradict the types of the first ones: read text, and let the columns say which cell it is.
        _check_ragged(file, data, header, separator)
        with guarded(f"{file}", DataFileError):
            frame = pl.read_csv(io.BytesIO(data), infer_schema=False, **options)
    if not len(frame):
        raise DataFileError(f"{file} must have rows, but got a header only.")
    if decimal_comma:
        frame = _with_points(frame)
    if frame.width != len(header) or frame.to_series(frame.width - 1).null_count():
        _check_ragged(file, data, header, separator)
    return frame


def _undecided(data: bytes, options: dict[str, Any]) -> dict[str, type[pl.String]]:
    """Columns of dates such as 02/01/2026, and of stamps with an offset, to be read as the text that they are.

    The reader would take the day first, and bring the stamps to UTC, without a word.
    """
    first = pl.read_csv(io.BytesIO(data), n_rows=100, **options)
    dates = [name for name, kind in first.schema.items() if kind == pl.Date or isinstance(kind, pl.Datetime)]
    if not dates:
        return {}
    texts = pl.read_csv(io.BytesIO(data), columns=dates, infer_schema=False, separator=options["separator"], n_rows=100)
    return {
        name: pl.String
        for name in dates
        if getattr(first.schema[name], "time_zone", None) is not None
        or any(_DAY_OR_MONTH.match(text) for text in texts[name].drop_nulls())
    }


def _with_points(frame: pl.DataFrame) -> pl.DataFrame:
    """Numbers with a decimal comma that were read as text, for a word such as NA or a late decimal, with a point."""
    changed = []
    for column in frame.get_columns():
        if column.dtype != pl.String:
            continue
        text = column.str.strip_chars()
        empty = text.str.to_lowercase().is_in(list(MISSING_TEXT)).fill_null(True)
        if bool((empty | text.str.contains(COMMA_NUMBER)).all()):
            changed.append(column.str.replace(",", ".", literal=True))
    return frame.with_columns(changed)


def _existing(path: PathLike) -> Path:
    file = Path(path)
    try:
        if file.is_dir():
            raise DataFileError(f"{file} must be a file, but it is a directory. Name a file inside it.")
        if not file.is_file():
            raise DataFileError(f"{file} must be an existing file, but there is none. Check the path.")
        if file.stat().st_size == 0:
            raise DataFileError(f"{file} must have content, but it is empty (0 bytes).")
    except (OSError, ValueError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{path!r} must be a readable file, but: {error}") from None
    return file


def _decoded(file: Path, encoding: str) -> bytes:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DataFileError(f"{file} cannot be read: {error.strerror or error}") from None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) and encoding.lower() in ("utf-8", "utf8"):
        raise DataFileError(
            f'{file} must be UTF-8, but it begins like UTF-16. Say encoding="utf-16".',
            advice=[Advice("data.encoding", "utf-16")],
        )
    try:
        text = data.decode(encoding)
    except LookupError:
        raise DataFileError(f'encoding must be a known name such as "latin-1", but got encoding={encoding!r}') from None
    except UnicodeError as error:
        line = data[: getattr(error, "start", 0)].count(b"\n") + 1
        raise DataFileError(
            f'{file} must be {encoding}, but line {line} has bytes that are not. Say encoding="latin-1" or what it is.',
            advice=[Advice("data.encoding", "latin-1")],
        ) from None
    if "\0" in text:
        raise DataFileError(
            f"{file} must be text, but it has a zero byte on line {text[: text.index(chr(0))].count(chr(10)) + 1}."
        )
    if encoding.lower() not in ("utf-8", "utf8"):
        data = text.encode()
    return data.removeprefix(b"\xef\xbb\xbf")


def _header(file: Path, data: bytes, separator: str) -> list[str]:
    first = next(_rows(file, data, separator), [])
    if not first or not any(name.strip() for name in first):
        raise DataFileError(f"{file} must begin with a line of column names, but its first line is empty.")
    twice = sorted({name for name in first if first.count(name) > 1})
    if twice:
        raise DataFileError(f"{file} must name each column once, but got {', '.join(map(repr, twice))} more than once.")
    if len(first) == 1:
        for other in (";", "\t", "|", ","):
            if other != separator and other in first[0]:
                raise DataFileError(
                    f"{file} must have several columns, but got one named {first[0][:80]!r}. Say separator={other!r}.",
                    advice=[Advice("data.separator", other)],
                )
    return first


def _rows(file: Path, data: bytes, separator: str) -> Iterator[list[str]]:
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    try:
        yield from csv.reader(lines, delimiter=separator)
    except (csv.Error, ValueError) as error:
        raise DataFileError(f"{file} must be a table, but: {error}.") from None


def _check_ragged(file: Path, data: bytes, header: list[str], separator: str) -> None:
    for number, row in enumerate(_rows(file, data, separator)):
        if row and len(row) != len(header):
            raise DataFileError(
                f"{file} must have {len(header)} cells in every row, but row {number - 1} (line {number + 1}) has "
                f"{len(row)}. Correct the line."
            )


def scan_parquet(path: PathLike) -> pl.LazyFrame:
    """A file, a glob pattern, or a directory of partitions, read only when its columns are asked for."""
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise DataFileError(f"path must be text, but got {path!r}")
    folder = os.path.isdir(text)
    if folder:
        files = sorted(str(file) for file in Path(text).rglob("*.parquet"))
    elif any(sign in text for sign in "*?[") and not os.path.exists(text):
        files = sorted(glob.glob(text, recursive=True))
    else:
        files = [str(_existing(text))]
    if not files:
        raise DataFileError(f"{text} must have Parquet files, but there are none. Check the path.")
    for file in files:
        check_pages(_existing(file))
    with guarded(text, DataFileError):
        lazy = pl.scan_parquet(
            files, hive_partitioning=folder, missing_columns="raise", extra_columns="raise", glob=False
        )
        lazy.collect_schema()
    return lazy


def take_over(frame: Any) -> tuple[pl.LazyFrame, str]:
    """Anybody's table as a polars LazyFrame, and the name of its library."""
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
