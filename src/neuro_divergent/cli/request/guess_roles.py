"""What the columns of an unknown table probably are: for advice and for run files, never decided silently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

TIMES = ("ds", "timestamp", "datetime", "date", "time", "day", "week", "month", "hour", "period", "index")
IDS = ("unique_id", "id", "series", "series_id", "item", "item_id", "sku", "store", "shop", "symbol", "ticker", "name")
TARGETS = ("y", "target", "close", "value", "price", "sales", "demand", "load", "consumption", "quantity", "count")
SAMPLE_ROWS = 20_000
MOST_TOGETHER = 6


@dataclass(frozen=True, kw_only=True)
class Guess:
    """The likely role of some columns; None where nothing speaks for one."""

    columns: tuple[str, ...]
    time: str | None = None
    target: str | None = None
    id: str | None = None

    @property
    def rest(self) -> tuple[str, ...]:
        """Columns that would be left without a role."""
        named = (self.time, self.target, *(self.id or "").split(","))
        return tuple(name for name in self.columns if name not in named)


def peek(path: Path, options: dict[str, Any]) -> pl.DataFrame:
    """The first rows of a CSV or Parquet file."""
    from neuro_divergent.data.read.files import read_csv, scan_parquet

    if is_parquet(path):
        return scan_parquet(path).head(SAMPLE_ROWS).collect()
    known = {name: options[name] for name in ("separator", "encoding", "decimal_comma") if name in options}
    return read_csv(path, **known).head(SAMPLE_ROWS)


def is_parquet(path: Path) -> bool:
    """Whether the name says Parquet: a file, a pattern or a directory of files."""
    return path.suffix.lower() in (".parquet", ".pq") or path.is_dir()


def guess(frame: pl.DataFrame) -> Guess:
    """The roles of a table's columns, from their types and names.

    >>> import polars as pl
    >>> guess(pl.DataFrame({"timestamp": ["2024-01-01"], "volume": [3], "close": [1.5]})).target
    'close'
    """
    import polars as pl

    time = _time(frame)
    identity = _id(frame, time)
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric() and name not in (time, identity)]
    floats = [name for name in numbers if frame.schema[name].is_float()]
    texts = [name for name, kind in frame.schema.items() if kind == pl.String and name not in (time, identity)]
    # Numbers that were written for people (1,234.50) come as text, but their column's name still tells.
    target = _named(numbers, TARGETS) or _named(texts, TARGETS) or next(iter(reversed(floats or numbers)), None)
    return Guess(columns=tuple(frame.columns), time=time, target=target, id=identity)


def _named(names: Sequence[str], likely: Sequence[str]) -> str | None:
    by_key = {name.lower(): name for name in names}
    whole = [by_key[name] for name in likely if name in by_key]
    return whole[0] if whole else None


def _time(frame: pl.DataFrame) -> str | None:
    import polars as pl

    temporal = [column.name for column in frame.get_columns() if _holds_times(column)]
    if temporal:
        return _named(temporal, TIMES) or temporal[0]
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    return _named(texts, TIMES) or _named([name for name, kind in frame.schema.items() if kind.is_integer()], TIMES)


def _holds_times(column: pl.Series) -> bool:
    """Whether a column holds dates or times; those with an offset come as text."""
    import polars as pl

    from neuro_divergent.data.read.timestamps import OFFSET

    if column.dtype != pl.String:
        return column.dtype in (pl.Date, pl.Datetime)
    return any(OFFSET.search(cell.strip()) for cell in column.drop_nulls().head(1))


def _id(frame: pl.DataFrame, time: str | None) -> str | None:
    """A column of names or numbers that tells rows of the same time apart."""
    import polars as pl

    if time is None or frame[time].n_unique() == len(frame):
        return None
    possible = [
        name for name, kind in frame.schema.items() if name != time and (kind == pl.String or kind.is_integer())
    ]
    splitting = [name for name in possible if not frame.select(time, name).is_duplicated().any()]
    texts = [name for name in splitting if frame.schema[name] == pl.String]
    return _named(splitting, IDS) or next(iter(texts), None) or _together(frame, time) or _named(possible, IDS)


def _together(frame: pl.DataFrame, time: str) -> str | None:
    """The fewest columns of names that tell rows of the same time apart only together, such as store,product."""
    import polars as pl

    texts = [name for name, kind in frame.schema.items() if name != time and kind == pl.String]
    for count in (2, 3):
        for names in combinations(texts[:MOST_TOGETHER], count):
            if not frame.select(time, *names).is_duplicated().any():
                return ",".join(names)
    return None
