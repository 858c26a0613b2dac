"""The data sets of benchmarks/accuracy.py and how a forecast of each is scored.

Every set has a validation stretch inside its training part: settings were chosen there (`--validation` scores it), and
the test part is only ever scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

import neuro_divergent as nd
from neuro_divergent.core.batch import Batch

Floats = npt.NDArray[np.float64]
KEYS = ("unique_id", "ds")


def without_last(table: pl.DataFrame, rows: int) -> pl.DataFrame:
    """Every series without its last rows."""
    return table.filter(pl.int_range(pl.len()).over("unique_id") < pl.len().over("unique_id") - rows)


def only_last(table: pl.DataFrame, rows: int) -> pl.DataFrame:
    """The last rows of every series."""
    return table.filter(pl.int_range(pl.len()).over("unique_id") >= pl.len().over("unique_id") - rows)


@dataclass(frozen=True)
class Panel:
    """Known rows, the rows to be forecast, and what a forecast needs to be told."""

    known: pl.DataFrame
    held: pl.DataFrame
    freq: str
    h: int
    season: int
    options: dict[str, Any]

    @property
    def table(self) -> nd.TimeSeriesDataFrame:
        """The known rows as the library reads them."""
        return nd.TimeSeriesDataFrame.from_frame(self.known, freq=self.freq, **self.options)

    def pairs(self, forecast: pl.DataFrame, name: str) -> tuple[Floats, Floats]:
        """[S, H] what happened and what was forecast, of every series that has a forecast."""
        joined = self.held.join(forecast, on=KEYS, maintain_order="left")
        actual, said = (joined[column].to_numpy().astype(np.float64).reshape(-1, self.h) for column in ("y", name))
        return actual, said

    def naive(self) -> pl.DataFrame:
        """The seasonal naive forecast of every series, beside the truth."""
        last = only_last(self.known, self.season).group_by("unique_id", maintain_order=True).agg(pl.col("y"))
        seasons = {name: np.resize(np.asarray(values, dtype=np.float64), self.h) for name, values in last.iter_rows()}
        held = self.held.filter(pl.col("unique_id").is_in(list(seasons)))
        values = np.concatenate([seasons[name] for name in held["unique_id"].unique(maintain_order=True)])
        return held.select(KEYS).with_columns(pl.Series("naive", values))


def m4_hourly(folder: Path, *, validation: bool = False) -> Panel:
    """414 series, 48 steps; the validation stretch is the last 48 steps of the training part."""
    return _competition(folder, "m4_hourly", 48, 24, validation)


def m4_yearly(folder: Path, *, validation: bool = False) -> Panel:
    """23,000 series, 6 steps; validation is the last 6 of the training part."""
    return _competition(folder, "m4_yearly", 6, 1, validation)


def _competition(folder: Path, name: str, h: int, season: int, validation: bool) -> Panel:
    columns = pl.col("unique_id"), pl.col("ds").cast(pl.Int64), pl.col("y").cast(pl.Float64)
    known, held = (
        pl.read_parquet(folder / f"{name}_{part}.parquet").select(columns).sort(KEYS) for part in ("train", "test")
    )
    if validation:
        known, held = without_last(known, h), only_last(known, h)
    return Panel(known, held, "1i", h, season, {})


def m5_tail(folder: Path, *, series: int | None = None, validation: bool = False) -> Panel:
    """Daily sales of 30,490 items, 28 steps; items that were sold for less than 56 days are left out.

    `series` takes that many, evenly spread over the sorted names.
    """
    columns = pl.col("unique_id"), pl.col("ds"), pl.col("y").cast(pl.Float32)
    known, held = (pl.read_parquet(folder / f"m5_tail_{part}.parquet").select(columns) for part in ("train", "test"))
    ids = known.group_by("unique_id").len().filter(pl.col("len") >= 140)["unique_id"].sort()
    if series is not None:
        ids = ids.gather(np.linspace(0, len(ids) - 1, series).astype(int))
    known, held = (part.filter(pl.col("unique_id").is_in(ids.to_list())).sort(KEYS) for part in (known, held))
    if validation:
        known, held = without_last(known, 28), only_last(known, 28)
    return Panel(known, held, "1d", 28, 7, {"features": ["dayofweek", "day", "month"]})


def smape(actual: Floats, forecast: Floats) -> float:
    """In percent, as in the M4 competition; 0 where both are 0."""
    size = np.abs(actual) + np.abs(forecast)
    return float(200 * np.mean(np.abs(actual - forecast) / np.where(size > 0, size, 1)))


def rmsse(panel: Panel, forecast: pl.DataFrame, name: str) -> float:
    """The mean over the series of the root mean squared error over that of the one-step naive forecast, as in M5."""
    steps = (pl.col("y").cast(pl.Float64).diff() ** 2).mean().sqrt().alias("scale")
    scales = panel.known.group_by("unique_id").agg(steps)
    errors = (
        panel.held.join(forecast, on=KEYS)
        .group_by("unique_id")
        .agg(((pl.col("y") - pl.col(name)).cast(pl.Float64) ** 2).mean().sqrt().alias("error"))
    )
    both = errors.join(scales, on="unique_id").filter(pl.col("scale") > 0)
    return float((both["error"] / both["scale"]).mean())  # type: ignore[arg-type]


class Etth1:
    """Seven channels, scaled by the first 8,640 hours; 2,880 to validate and 2,880 to test, every window scored."""

    horizon = 96
    edges = (0, 8640, 11520, 14400)

    def __init__(self, folder: Path) -> None:
        table = pl.read_parquet(folder / "etth1.parquet")
        values = table.drop("date").to_numpy().astype(np.float64)[: self.edges[3]]
        past = values[: self.edges[1]]
        self.values = torch.from_numpy(((values - past.mean(axis=0)) / past.std(axis=0)).astype(np.float32))
        self.dates = table["date"][: self.edges[3]]
        self.names = [name for name in table.columns if name != "date"]
        self.train, self.validation = self._long(0, 1), self._long(1, 2)

    def _long(self, first: int, last: int) -> pl.DataFrame:
        rows = slice(self.edges[first], self.edges[last])
        channels = [
            pl.DataFrame({"unique_id": name, "ds": self.dates[rows], "y": self.values[rows, place].numpy()})
            for place, name in enumerate(self.names)
        ]
        return pl.concat(channels)

    def errors(self, fitted: nd.Forecaster, *, validation: bool = False) -> tuple[float, float]:
        """MSE and MAE over every window of the test (or validation) part."""
        first, last = (self.edges[1], self.edges[2]) if validation else (self.edges[2], self.edges[3])
        L, H, C = fitted.model.input_size, self.horizon, len(self.names)
        windows = self.values[first - L : last].unfold(0, L + H, 1).transpose(1, 2)
        sums, count = np.zeros(2), 0
        fitted.module.eval()
        for some in windows.split(256):
            past, ahead = some[:, :L], some[:, L:]
            if fitted.model.capabilities.multivariate:
                said = fitted.forward(Batch(past.contiguous()))
            else:
                said = fitted.forward(past.transpose(1, 2).reshape(-1, L)).view(-1, C, H).transpose(1, 2)
            error = (said - ahead).double()
            sums += [float(error.square().sum()), float(error.abs().sum())]
            count += error.numel()
        return float(sums[0] / count), float(sums[1] / count)
