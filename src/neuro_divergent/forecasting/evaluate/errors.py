"""Errors of forecasts by step ahead, series, calendar and level, and which series pull the mean.

An error is actual value minus forecast. Letters: N forecasts, H steps, K columns of a forecast.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.config import encode
from neuro_divergent.core.errors import ConfigError, UnknownNameError
from neuro_divergent.forecasting.evaluate.residuals import Dependence, dependence_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuro_divergent.forecasting.evaluate.scores import HistoricalForecasts, Truth

Floats = npt.NDArray[np.float64]

LEVELS = 10
"""How many groups of equal size `by_level` makes."""
LAGS = 24
PARTS = ("step", "series", "hour", "weekday", "month", "level")


@dataclass(frozen=True, kw_only=True)
class ForecastErrors:
    """The errors of every model of an evaluation, and of the seasonal naive forecast.

    Frames are polars frames. Each has the columns model, the part, values, mae, rmse, bias, naive_mae and relative.
    The last one is mae divided by that of the naive forecast: above 1 the naive forecast is better.
    """

    truth: Truth
    found: Mapping[str, HistoricalForecasts]
    """The forecasts of each model."""

    @cached_property
    def _rows(self) -> pl.DataFrame:
        """One row per model and known actual value."""
        truth = self.truth
        which, step = np.nonzero(np.isfinite(truth.actual))
        store, table = truth.origins.table.store, truth.origins.table
        rows = truth.origins.rows()[which, step]
        actual, naive = truth.actual[which, step], truth.naive[which, step]
        shared = {
            "series": pl.Series(store.ids.tolist())[truth.series[which]],
            "step": step + 1,
            "time": table._stamps(store.times(rows, truth.series[which])),
            "row": rows,
            "actual": actual,
        }
        frames = []
        for name, item in self.found.items():
            forecast = item.values[which, step, 0]
            own = shared | {"forecast": forecast, "error": actual - forecast, "naive_error": actual - naive}
            frames.append(pl.DataFrame({"model": [name] * len(actual)} | own))
        return pl.concat(frames)

    def to_polars(self) -> pl.DataFrame:
        """One row per model and forecast value: series, step, time, actual, forecast, error, naive_error."""
        return self._rows.drop("row")

    def by(self, part: str) -> pl.DataFrame:
        """The errors by "step", "series", "hour", "weekday" (1 is Monday), "month" or "level".

        "level" makes groups of equal size by the size of the forecast: "from" and "to" are its limits. Groups by the
        actual value would show a bias that no forecast can avoid.
        """
        if part not in PARTS:
            raise UnknownNameError(f"errors are grouped by one of {', '.join(PARTS)}, but got {part!r}")
        rows, keys = self._rows, ["model", part]
        if part in ("hour", "weekday", "month"):
            if not rows["time"].dtype.is_temporal():
                raise ConfigError(f"errors by {part} need dates, but the time column has whole numbers. Use by('step')")
            moment = pl.col("time").cast(pl.Datetime) if rows["time"].dtype == pl.Date else pl.col("time")
            rows = rows.with_columns(getattr(moment.dt, part)().alias(part))
        if part == "level":
            place = (pl.col("forecast").rank("ordinal").over("model") - 1) * LEVELS // pl.len().over("model") + 1
            rows = rows.with_columns(place.cast(pl.Int64).alias("level"))
        found = rows.group_by(keys, maintain_order=True).agg(*_limits(part), *_FIGURES)
        found = found.with_columns((pl.col("mae") / pl.col("naive_mae")).alias("relative"))
        return found if part == "series" else found.sort(keys, maintain_order=True)

    @property
    def by_step(self) -> pl.DataFrame:
        """The errors by step ahead."""
        return self.by("step")

    @property
    def by_series(self) -> pl.DataFrame:
        """The errors by series."""
        return self.by("series")

    @property
    def by_hour(self) -> pl.DataFrame:
        """The errors by hour of the day."""
        return self.by("hour")

    @property
    def by_weekday(self) -> pl.DataFrame:
        """The errors by day of the week, 1 is Monday."""
        return self.by("weekday")

    @property
    def by_month(self) -> pl.DataFrame:
        """The errors by month."""
        return self.by("month")

    @property
    def by_level(self) -> pl.DataFrame:
        """The errors by the size of the forecast."""
        return self.by("level")

    def pull(self, model: str | None = None) -> pl.DataFrame:
        """Which series pull the mean: their share of all absolute errors, the largest first.

        `mae_without` is the mean absolute error of all other series, `share_of_values` what an equal share would be.
        """
        own = self._of(model).group_by("series", maintain_order=True).agg(
            pl.len().alias("values"), pl.col("error").abs().sum().alias("total")
        )  # fmt: skip
        total, count = float(own["total"].sum()), len(self._of(model))
        return own.select(
            "series",
            "values",
            (pl.col("total") / pl.col("values")).alias("mae"),
            (pl.col("total") / total).alias("share") if total > 0 else pl.lit(0.0).alias("share"),
            (pl.col("values") / count).alias("share_of_values"),
            ((total - pl.col("total")) / (count - pl.col("values"))).alias("mae_without"),
        ).sort("share", descending=True, maintain_order=True)

    def calibration(self, model: str | None = None) -> pl.DataFrame:
        """For each probability level of the forecasts, the share of actual values at or below the forecast."""
        levels, below, _ = self._below(model)
        return pl.DataFrame({"level": levels, "observed": below.mean(axis=0)})

    def pit(self, model: str | None = None) -> pl.DataFrame:
        """The probability integral transform: how many actual values lie between two neighbouring quantile forecasts.

        `density` is that share divided by the expected one: 1 everywhere for perfect forecasts, a U for intervals that
        are too narrow, a hump for too wide ones.
        """
        levels, below, _ = self._below(model)
        edges = [0.0, *levels, 1.0]
        shares = np.diff([0.0, *below.mean(axis=0), 1.0])
        expected = np.diff(edges)
        limits = {"from": edges[:-1], "to": edges[1:]}
        return pl.DataFrame(limits | {"observed": shares, "expected": expected, "density": shares / expected})

    def autocorrelation(self, model: str | None = None, lags: int = LAGS) -> Dependence | None:
        """The autocorrelation of the errors of successive rows; None if there are too few of them.

        Each row counts once, with its shortest forecast. Rows without an actual value keep their place: they count as
        an error of the mean, so many of them pull the correlation towards 0. Errors of steps 2, 3, … of one forecast
        are correlated by nature: for a test of what the model leaves unexplained, evaluate with step_size=1.
        """
        rows = (
            self._of(model).sort("series", "time", "step").unique(["series", "time"], keep="first", maintain_order=True)
        )
        series = [_in_place(part) for part in rows.partition_by("series", maintain_order=True)]
        longest = max(map(len, series), default=0)
        return dependence_of(series, min(lags, longest // 3))

    def to_dict(self) -> dict[str, Any]:
        """The tables as plain data."""
        parts = [part for part in PARTS if part in ("step", "series", "level") or self._dated]
        tables = {f"by_{part}": self.by(part).to_dicts() for part in parts}
        return {"kind": "ForecastErrors", **tables, "pull": {name: self.pull(name).to_dicts() for name in self.found}}

    def to_json(self) -> str:
        """The tables as a JSON document; numbers that are not finite become text."""
        return json.dumps(encode(self.to_dict()), allow_nan=False, default=str)

    def plot(self, path: str | os.PathLike[str] | None = None, *, model: str | None = None) -> Figure:
        """A heat map: the mean absolute error of each series at each step, in units of its naive forecast's error."""
        return self._drawn("heat_figure", path, model)

    def plot_calibration(self, path: str | os.PathLike[str] | None = None, *, model: str | None = None) -> Figure:
        """A figure of the calibration and the PIT histogram."""
        return self._drawn("calibration_figure", path, model)

    def plot_autocorrelation(self, path: str | os.PathLike[str] | None = None, *, model: str | None = None) -> Figure:
        """A figure of the autocorrelation of the errors."""
        return self._drawn("autocorrelation_figure", path, model)

    def plot_pull(self, path: str | os.PathLike[str] | None = None, *, model: str | None = None) -> Figure:
        """A figure of the series with the largest shares of the error."""
        return self._drawn("pull_figure", path, model)

    def _drawn(self, name: str, path: str | os.PathLike[str] | None, model: str | None) -> Figure:
        from neuro_divergent.forecasting.evaluate import error_plots
        from neuro_divergent.plotting import save

        figure: Figure = getattr(error_plots, name)(self, self.named(model))
        return save(figure, path)

    def named(self, model: str | None) -> str:
        """The name of a model; None is the first one."""
        if model is not None and model not in self.found:
            raise UnknownNameError(f"there is no model {model!r}. Known names are: {', '.join(self.found)}")
        return next(iter(self.found)) if model is None else model

    def _of(self, model: str | None) -> pl.DataFrame:
        return self._rows.filter(pl.col("model") == self.named(model))

    @property
    def _dated(self) -> bool:
        return bool(self._rows["time"].dtype.is_temporal())

    def _below(self, model: str | None) -> tuple[list[float], npt.NDArray[np.bool_], Floats]:
        """The levels in order, whether each actual value is at or below each quantile [n, levels], and the values."""
        name = self.named(model)
        item = self.found[name]
        places = sorted((level, place) for place, level in enumerate(item.columns.levels) if level is not None)
        if not places:
            raise ConfigError(
                f"calibration needs quantiles or intervals, but {name} was evaluated as a point forecast. Evaluate "
                "with level=[80, 95] or quantiles=[0.1, 0.5, 0.9]"
            )
        seen = np.isfinite(self.truth.actual)
        actual = self.truth.actual[seen]
        values = np.stack([item.values[:, :, place][seen] for _, place in places], axis=1)
        return [float(level) for level, _ in places], actual[:, None] <= values, actual

    def __repr__(self) -> str:
        lines = []
        for name in self.found:
            own = self._of(name)
            mae = float(np.abs(own["error"].to_numpy()).mean())
            by_step = self.by("step").filter(pl.col("model") == name)
            steps, last = by_step["mae"], by_step["step"][-1]
            top = self.pull(name).row(0, named=True)
            lines.append(
                f"{name}: MAE {mae:.4g}, from {steps[0]:.4g} one step ahead to {steps[-1]:.4g} at step {last}; "
                f"{top['series']} has {top['share']:.0%} of the error and {top['share_of_values']:.0%} of the values"
            )
        return "\n".join(["ForecastErrors", *lines])


def _in_place(rows: pl.DataFrame) -> Floats:
    """The errors of one series, one place per row of the table; NaN where there is none."""
    place = rows["row"].to_numpy() - rows["row"][0]
    errors = np.full(place[-1] + 1, np.nan)
    errors[place] = rows["error"].to_numpy()
    return errors


_FIGURES = (
    pl.len().alias("values"),
    pl.col("error").abs().mean().alias("mae"),
    pl.col("error").pow(2).mean().sqrt().alias("rmse"),
    (-pl.col("error").mean()).alias("bias"),
    pl.col("naive_error").abs().mean().alias("naive_mae"),
)
"""Figures of a group. A positive bias is a forecast that is too high, as in all metrics."""


def _limits(part: str) -> tuple[pl.Expr, ...]:
    if part != "level":
        return ()
    return pl.col("forecast").min().alias("from"), pl.col("forecast").max().alias("to")
