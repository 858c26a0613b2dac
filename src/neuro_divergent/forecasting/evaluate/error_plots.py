"""Figures of forecast errors: heat map, calibration, autocorrelation, and which series pull the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from neuro_divergent.core.errors import DataError
from neuro_divergent.plotting.style import COLOURS, INK, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuro_divergent.forecasting.evaluate.errors import ForecastErrors

MOST_SERIES = 40


def heat_figure(errors: ForecastErrors, model: str) -> Figure:
    """Series against steps; blue cells are better than the naive forecast of their series, red ones worse."""
    rows = errors.to_polars().filter(pl.col("model") == model)
    order = errors.pull(model)["series"].to_list()[:MOST_SERIES]
    naive = rows.group_by("series").agg(pl.col("naive_error").abs().mean().alias("unit"))
    cells = rows.group_by("series", "step").agg(pl.col("error").abs().mean()).join(naive, on="series")
    steps = int(rows["step"].max())  # type: ignore[arg-type]  # polars says any type
    grid = np.full((len(order), steps), np.nan)
    place = {name: number for number, name in enumerate(order)}
    for name, step, error, unit in cells.select("series", "step", "error", "unit").iter_rows():
        if name in place and unit:
            grid[place[name], step - 1] = error / unit
    figure = new_figure(max(5.5, 0.22 * steps + 3.0), max(2.6, 0.22 * len(order) + 1.4))
    axes = figure.subplots()
    image = axes.imshow(np.log2(grid), aspect="auto", cmap="RdBu_r", vmin=-2, vmax=2, interpolation="nearest")
    axes.set_yticks(range(len(order)), [str(name) for name in order], fontsize=8)
    marks = sorted({0, steps - 1, *range(0, steps, max(1, steps // 8))})
    axes.set_xticks(marks, [str(mark + 1) for mark in marks])
    bar = figure.colorbar(image, ax=axes, ticks=[-2, -1, 0, 1, 2])
    bar.set_ticklabels(["¼", "½", "1", "2", "4"])
    bar.set_label("MAE ÷ MAE of the naive forecast", fontsize=9)
    left = rows["series"].n_unique() - len(order)
    tidy(axes, f"{model}: error by series and step", "step ahead", f"{left} more series" if left else "")
    axes.grid(visible=False)
    return figure


def calibration_figure(errors: ForecastErrors, model: str) -> Figure:
    """Observed against wanted probabilities, and the PIT histogram."""
    found, pit = errors.calibration(model), errors.pit(model)
    figure = new_figure(8.4, 3.7)
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], [0, 1], color="#999999", linestyle=":", linewidth=1.2, label="perfect")
    left.plot(found["level"], found["observed"], color=COLOURS[0], marker="o", markersize=4, label=model)
    left.set(xlim=(0, 1), ylim=(0, 1))
    left.legend(fontsize=8, frameon=False)
    tidy(left, "calibration", "probability of the quantile", "share of actual values below")
    widths = [high - low for low, high in zip(pit["from"], pit["to"], strict=True)]
    right.bar(pit["from"], pit["density"], width=widths, align="edge", color=COLOURS[0], alpha=0.75, edgecolor="white")
    right.axhline(1.0, color="#999999", linestyle=":", linewidth=1.2)
    right.set_xlim(0, 1)
    tidy(right, "PIT: flat is good, a U is too narrow", "probability", "observed ÷ expected")
    return figure


def autocorrelation_figure(errors: ForecastErrors, model: str) -> Figure:
    """The autocorrelation of the errors, with the bounds of independent ones."""
    found = errors.autocorrelation(model)
    if found is None:
        raise DataError(
            "the autocorrelation of errors needs at least 7 rows of a series. Evaluate more windows: n_windows=20"
        )
    figure = new_figure(7.0, 3.2)
    axes = figure.subplots()
    lags = np.arange(1, len(found.correlation) + 1)
    axes.axhspan(-found.bound, found.bound, color=COLOURS[0], alpha=0.12, linewidth=0, label="independent errors")
    axes.vlines(lags, 0, found.correlation, color=COLOURS[0], linewidth=2)
    axes.plot(lags, found.correlation, "o", color=COLOURS[0], markersize=4)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.legend(fontsize=8, frameon=False)
    tidy(axes, f"{model}: autocorrelation of errors", "lag", "correlation")
    return figure


def pull_figure(errors: ForecastErrors, model: str) -> Figure:
    """The share of each series in all absolute errors, beside its share of the values."""
    rows = errors.pull(model).head(20)
    figure = new_figure(7.0, 0.28 * len(rows) + 1.3)
    axes = figure.subplots()
    places = np.arange(len(rows))
    axes.barh(places, 100 * rows["share"].to_numpy(), color=COLOURS[0], alpha=0.8, label="of the error")
    axes.plot(100 * rows["share_of_values"].to_numpy(), places, "|", color=INK, markersize=11, label="of the values")
    axes.set_yticks(places, [str(name) for name in rows["series"]], fontsize=8)
    axes.invert_yaxis()
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    tidy(axes, f"{model}: series that pull the mean", "share in percent")
    axes.grid(axis="x", alpha=0.25)
    return figure
