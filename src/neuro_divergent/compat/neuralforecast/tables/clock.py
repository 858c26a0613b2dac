"""Tables whose time stamps do not follow `freq`: rows are counted, as in neuralforecast, and stamps come back after."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import polars as pl

from neuro_divergent.core.errors import DataError

NUMBER = "__number"


@dataclass(frozen=True)
class Clock:
    """The time stamp of every row of a table whose rows are numbered from 0 in each series."""

    stamps: pl.DataFrame
    """The columns of id and time, and the number of the row in its series."""
    id_col: str
    time_col: str
    freq: Any

    @classmethod
    def of(cls, frame: pl.DataFrame, id_col: str, time_col: str, freq: Any) -> Clock | None:
        """The clock of a table; None if a row has no stamp of its own, which counting would hide."""
        stamps = frame.select(id_col, time_col)
        if stamps[time_col].null_count() or stamps.is_duplicated().any():
            return None
        stamps = stamps.sort(id_col, time_col).with_columns(
            pl.int_range(pl.len(), dtype=pl.Int64).over(id_col).alias(NUMBER)
        )
        return cls(stamps, id_col, time_col, freq)

    def counted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A table with numbers for stamps; stamps after the last row of their series count on from it."""
        keys = [self.id_col, self.time_col]
        joined = frame.join(self.stamps, on=keys, how="left", maintain_order="left")
        if joined[NUMBER].null_count():
            last = self.stamps.group_by(self.id_col).agg(pl.col(NUMBER).max().alias("__last"))
            joined = joined.join(last, on=self.id_col, how="left", maintain_order="left")
            later = pl.col(NUMBER).is_null().cum_sum().over(self.id_col, order_by=self.time_col)
            joined = joined.with_columns(pl.coalesce(NUMBER, pl.col("__last").fill_null(-1) + later)).drop("__last")
        return joined.with_columns(pl.col(NUMBER).alias(self.time_col)).drop(NUMBER)

    def told(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A result with stamps for numbers, in the columns of the time and of the cutoff."""
        for name in (self.time_col, "cutoff"):
            if name in frame.columns and frame.schema[name].is_integer():
                frame = frame.with_columns(self._stamps_of(frame[self.id_col], frame[name]).alias(name))
        return frame

    def _stamps_of(self, ids: pl.Series, numbers: pl.Series) -> pl.Series:
        asked = pl.DataFrame({self.id_col: ids, NUMBER: numbers.cast(pl.Int64)})
        known = self.stamps.with_columns(pl.col(self.id_col).cast(ids.dtype))
        found = asked.join(known, on=[self.id_col, NUMBER], how="left", maintain_order="left")
        missing = found[self.time_col].is_null()
        if not missing.any():
            return found[self.time_col]
        ends = known.group_by(self.id_col).agg(
            pl.col(self.time_col).sort_by(NUMBER).first().alias("__first"),
            pl.col(self.time_col).sort_by(NUMBER).last().alias("__last"),
            pl.col(NUMBER).max().alias("__count"),
        )
        rest = asked.filter(missing).join(ends, on=self.id_col, how="left", maintain_order="left")
        stepped = [
            step(first if number < 0 else last, number if number < 0 else number - count, self.freq)
            for number, first, last, count in rest.select(NUMBER, "__first", "__last", "__count").iter_rows()
        ]
        values = iter(stepped)
        return pl.Series(
            self.time_col,
            [next(values) if gone else value for gone, value in zip(missing, found[self.time_col], strict=True)],
            dtype=self.stamps.schema[self.time_col],
        )

    def to_dict(self) -> dict[str, Any]:
        """The last stamp of every series as plain data."""
        last = self.stamps.sort(NUMBER).group_by(self.id_col, maintain_order=True).last()
        kind = last.schema[self.time_col]
        texts = last[self.time_col].cast(pl.String).to_list()
        return {"ids": last[self.id_col].to_list(), "stamps": texts, "numbers": last[NUMBER].to_list(),
                "integers": kind.is_integer(), "date": kind == pl.Date,
                "zone": getattr(kind, "time_zone", None), "unit": getattr(kind, "time_unit", None)}  # fmt: skip

    @classmethod
    def from_dict(cls, data: Any, id_col: str, time_col: str, freq: Any) -> Clock:
        """The inverse of `to_dict`: stamps of rows before the last are gone."""
        stamps = pl.Series(time_col, data["stamps"], dtype=pl.String)
        if data["integers"]:
            stamps = stamps.cast(pl.Int64)
        elif data["date"]:
            stamps = stamps.cast(pl.Date)
        else:
            stamps = stamps.str.to_datetime(time_unit=data["unit"], time_zone=data["zone"])
        return cls(pl.DataFrame([pl.Series(id_col, data["ids"]), stamps, pl.Series(NUMBER, data["numbers"])]),
                   id_col, time_col, freq)  # fmt: skip


def step(stamp: Any, count: int, freq: Any) -> Any:
    """The stamp `count` steps of `freq` later: as pandas writes it, as polars writes it, or a whole number."""
    if isinstance(freq, int):
        return stamp + count * freq
    try:
        import pandas as pd

        return (pd.Timestamp(stamp) + count * pd.tseries.frequencies.to_offset(freq)).to_pydatetime()
    except (ImportError, ValueError):
        pass
    parts = re.fullmatch(r"(\d*)([a-z]+)", str(freq))
    if parts is None:
        raise DataError(f"freq must be a frequency of pandas or polars, or a whole number, but got freq={freq!r}")
    size = int(parts[1] or 1) * count
    return pl.Series([stamp]).dt.offset_by(f"{size}{parts[2]}")[0]
