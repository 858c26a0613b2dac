"""The tables of benchmarks/refit.py: small parts of public sets, so that many trainings fit into minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

import neuro_divergent as nd


@dataclass(frozen=True)
class Case:
    """A table with its hidden rows at the end, and how it is forecast."""

    table: nd.TimeSeriesDataFrame
    h: int
    input_size: int
    season: int
    windows: int
    """How many horizons, one after the other, are hidden from the training and scored."""

    @property
    def hidden(self) -> int:
        """Hidden rows at the end of each series."""
        return self.windows * self.h

    def earlier(self) -> Case:
        """The same case without the rows of the test: choices are made on the horizons before them."""
        return Case(self.table.drop_last(self.hidden), self.h, self.input_size, self.season, self.windows)


def cases(folder: Path) -> dict[str, Case]:
    """Every set that is there, by name."""
    makers = {
        "M4 hourly": _m4_hourly,
        "vic_elec": _vic_elec,
        "tourism": _tourism,
        "classics": _classics,
        "M5": _m5,
        "ETTh1": _etth1,
    }
    return {name: make(folder) for name, make in makers.items()}


def _read(frame: pl.DataFrame, freq: str | int) -> nd.TimeSeriesDataFrame:
    return nd.TimeSeriesDataFrame.from_frame(frame.select("unique_id", "ds", "y"), freq=freq)


def _some(frame: pl.DataFrame, count: int) -> pl.DataFrame:
    """Evenly spaced series."""
    names = frame["unique_id"].unique(maintain_order=True)
    return frame.filter(pl.col("unique_id").is_in(names.gather_every(max(1, len(names) // count))[:count].implode()))


def _two_parts(folder: Path, name: str, count: int) -> pl.DataFrame:
    """Some series of a set whose test part is a file of its own."""
    parts = [
        pl.read_parquet(folder / f"{name}_{part}.parquet", columns=["unique_id", "ds", "y"])
        for part in ("train", "test")
    ]
    chosen = _some(parts[0], count)["unique_id"].unique().implode()
    some = [part.filter(pl.col("unique_id").is_in(chosen)) for part in parts]
    return pl.concat(some, how="vertical_relaxed").sort("unique_id", "ds").with_columns(pl.col("y").cast(pl.Float64))


def _m4_hourly(folder: Path) -> Case:
    return Case(_read(_two_parts(folder, "m4_hourly", 12), 1), 48, 168, 24, 1)


def _vic_elec(folder: Path) -> Case:
    frame = pl.read_parquet(folder / "vic_elec_30min.parquet").sort("ds")
    hourly = frame.group_by_dynamic("ds", every="1h", group_by="unique_id").agg(pl.col("y").mean())
    return Case(_read(hourly.tail(5000), "1h"), 24, 168, 168, 7)


def _tourism(folder: Path) -> Case:
    frame = pl.read_parquet(folder / "australia_tourism_quarterly.parquet").sort("unique_id", "ds")
    return Case(_read(_some(frame, 100), "1q"), 8, 16, 4, 1)


def _classics(folder: Path) -> Case:
    frame = pl.read_parquet(folder / "classics_small.parquet").sort("unique_id", "ds")
    monthly = ("AirPassengers", "MonthlyMilk", "WineInd", "Heater", "IceCream")
    return Case(_read(frame.filter(pl.col("unique_id").is_in(monthly)), "1mo"), 12, 24, 12, 1)


def _m5(folder: Path) -> Case:
    return Case(_read(_two_parts(folder, "m5_tail", 60), "1d"), 28, 56, 7, 1)


def _etth1(folder: Path) -> Case:
    frame = pl.read_parquet(folder / "etth1.parquet").tail(3000)
    long = frame.unpivot(index="date", variable_name="unique_id", value_name="y").rename({"date": "ds"})
    return Case(_read(long.sort("unique_id", "ds"), "1h"), 24, 96, 24, 7)
