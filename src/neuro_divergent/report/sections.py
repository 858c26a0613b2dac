"""The sections of a report, each from figures that are there already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.forecasting.evaluate.held_out import HeldOut, columns_of, interval_levels
from neuro_divergent.forecasting.plots import recent
from neuro_divergent.plotting.style import COLOURS
from neuro_divergent.report.chart import Chart, Trace

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.report.page import Page
    from neuro_divergent.training.state.history import History

MAX_SERIES = 40
MAX_POINTS = 1500
LAGS = 24
NAIVE = "#9A9A9A"
_TITLES = {
    "mae": "MAE",
    "rmse": "RMSE",
    "smape": "sMAPE %",
    "mase": "MASE",
    "pinball": "pinball",
    "scaled_crps": "CRPS, scaled",
}


def figure(value: float | None) -> str:
    """A number as a person writes it.

    >>> figure(1234.5), figure(0.00123), figure(float("nan"))
    ('1,234', '0.00123', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def forecast_charts(fitted: Forecaster) -> list[Chart]:
    """The end of some series with their forecasts and intervals; empty where columns known ahead would be needed."""
    from neuro_divergent.core.errors import DataError

    data, h = fitted.data, fitted.model.h
    # A model that sees all series at once has to be given all of them.
    whole = fitted.model.together
    shown = data if whole else data.select(data.ids[:MAX_SERIES].tolist())
    columns, levels = columns_of(fitted), interval_levels(fitted)
    try:
        values = fitted.forecast_values(shown, columns)
    except DataError:
        return []
    charts = []
    for number in range(min(shown.n_series, MAX_SERIES)):
        times, past = recent(shown, number, min(max(4 * h, 60), MAX_POINTS))
        ahead = shown.times(number, int(shown.store.lengths[number]), h).to_list()
        bands = [
            (f"{level:g} %", values[number, :, 1 + 2 * place], values[number, :, 2 + 2 * place])
            for place, level in enumerate(levels)
        ]
        traces = [_band(name, ahead, low, high, depth) for depth, (name, low, high) in enumerate(bands)]
        traces.append(Trace(name="history", x=times, y=past, colour="ink", width=1.5))
        traces.append(Trace(name=fitted.model.name, x=ahead, y=values[number, :, 0], width=2.4))
        charts.append(Chart(title=str(shown.ids[number]), traces=traces, ylabel=data.schema.target_col))
    return charts


def _band(name: str, x: Sequence[Any], low: Any, high: Any, depth: int) -> Trace:
    return Trace(name=name, x=x, y=high, low=low, kind="band", opacity=0.18 + 0.12 * depth)


def series_charts(data: TimeSeriesDataFrame) -> list[Chart]:
    """Whole series; long ones are thinned out."""
    charts = []
    for number in range(min(data.n_series, MAX_SERIES)):
        times, values = recent(data, number, int(data.store.lengths[number]))
        every = max(1, -(-len(values) // MAX_POINTS))
        trace = Trace(name=data.schema.target_col, x=times[::every], y=values[::every], width=1.3)
        charts.append(Chart(title=str(data.ids[number]), traces=[trace], legend=False, ylabel=data.schema.target_col))
    return charts


def score_table(page: Page, table: pl.DataFrame, name: str = "model") -> None:
    """One row per model, the best by MASE (or the first figure) marked."""
    names = [
        column for column in table.columns if column != name and not column.startswith(("interval_score", "pinball"))
    ]
    rows = [[str(row[name]), *(_cell(column, row[column]) for column in names)] for row in table.iter_rows(named=True)]
    by = "mase" if "mase" in names else names[0]
    scores = [math.inf if row is None or math.isnan(row) else row for row in table[by].to_list()]
    page.table(["model", *map(_title, names)], rows, int(np.argmin(scores)))


def _title(column: str) -> str:
    metric, _, level = column.partition("-")
    if level:
        return f"{'inside' if metric == 'coverage' else metric.replace('_', ' ')} {level} %"
    return _TITLES.get(column, column.replace("_", " "))


def _cell(column: str, value: float | None) -> str:
    if column.startswith("coverage") and value is not None:
        return f"{100 * value:.0f} %"
    return figure(value)


def horizon_chart(by_step: pl.DataFrame, metric: str = "mae") -> Chart:
    """The error of every model at each step ahead."""
    traces = []
    for number, (name, part) in enumerate(by_step.group_by("model", maintain_order=True)):
        naive = "naive" in str(name[0])
        colour = NAIVE if naive else COLOURS[number % len(COLOURS)]
        traces.append(
            Trace(name=str(name[0]), x=part["step"].to_list(), y=part[metric].to_list(), colour=colour, width=2.2)
        )
    return Chart(title="Error by horizon", traces=traces, xlabel="steps ahead", ylabel=_title(metric))


def residual_charts(held: HeldOut) -> list[tuple[Chart, str]]:
    """A histogram of all errors, and the autocorrelation of those one step ahead."""
    errors = held.errors[np.isfinite(held.errors)]
    if not len(errors):
        return []
    heights, edges = np.histogram(_without_tails(errors), bins=min(40, max(8, int(len(errors) ** 0.5))))
    middles = (edges[:-1] + edges[1:]) / 2
    bars = Trace(name="forecasts", x=middles, y=heights, kind="bars", opacity=0.85)
    mean, spread = float(errors.mean()), float(errors.std())
    histogram = Chart(title="Errors", traces=[bars], xlabel="actual − forecast", ylabel="forecasts", legend=False)
    found = [(histogram, f"Mean error {figure(mean)}, standard deviation {figure(spread)}: {_bias(mean, spread)}")]
    lags = min(LAGS, max(map(len, held.neighbours), default=0) // 3)
    correlation = held.autocorrelation(lags)
    if len(correlation):
        found.append(_correlogram(correlation, sum(map(len, held.neighbours))))
    return found


def _without_tails(errors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    low, high = np.quantile(errors, [0.005, 0.995])
    return np.asarray(np.clip(errors, low, high))


def _bias(mean: float, spread: float) -> str:
    if abs(mean) <= 0.25 * spread:
        return "centred, as it should be."
    return f"the forecasts are too {'low' if mean > 0 else 'high'} on average."


def _correlogram(correlation: npt.NDArray[np.float64], count: int) -> tuple[Chart, str]:
    lags = list(range(1, len(correlation) + 1))
    bound = 1.96 / math.sqrt(count)
    edges = [
        Trace(name="by chance", x=[0.5, len(lags) + 0.5], y=[edge, edge], colour="soft", dash="dash", width=1.2)
        for edge in (bound, -bound)
    ]
    bars = Trace(name="autocorrelation", x=lags, y=correlation, kind="bars", opacity=0.85)
    chart = Chart(
        title="Autocorrelation of errors", traces=[bars, *edges], legend=False, xlabel="lag", ylabel="autocorrelation"
    )
    outside = [lag for lag, value in zip(lags, correlation, strict=True) if abs(value) > bound]
    if len(outside) <= 2:
        return chart, "Errors one step ahead are as good as independent: little is left to learn from the past."
    largest = int(np.argmax(np.abs(correlation))) + 1
    return chart, (
        f"Errors one step ahead repeat, most at lag {largest}: a longer input_size, an anchor or features may help."
    )


def calibration_chart(held: HeldOut) -> tuple[Chart, str] | None:
    """How often values fell below each quantile, beside how often they should."""
    pairs = held.observed_shares()
    if len(pairs) < 2:
        return None
    wanted, seen = [100 * level for level, _ in pairs], [100 * share for _, share in pairs]
    traces = [
        Trace(name="as promised", x=[0, 100], y=[0, 100], colour="soft", dash="dash", width=1.4),
        Trace(name="observed", x=wanted, y=seen, width=2.0),
        Trace(name="quantiles", x=wanted, y=seen, kind="points", listed=False),
    ]
    chart = Chart(
        title="Calibration", traces=traces, xlabel="quantile, %", ylabel="values below it, %", hover="closest"
    )
    return chart, "On the dashed line the intervals hold what they promise; flatter means too narrow, steeper too wide."


def coverage_rows(held: HeldOut) -> list[list[str]]:
    """For each interval: promised, observed, and the verdict in words."""
    columns, actual, values = held.found.columns, held.truth.actual, held.found.values
    seen = np.isfinite(actual)
    rows = []
    for place in range(1, len(columns.names), 2):
        low, high = columns.levels[place], columns.levels[place + 1]
        if low is None or high is None or not seen.any():
            continue
        inside = ((actual >= values[:, :, place]) & (actual <= values[:, :, place + 1]))[seen].mean()
        width = float(np.mean((values[:, :, place + 1] - values[:, :, place])[seen]))
        promised = high - low
        verdict = "as promised" if abs(inside - promised) <= 0.05 else "too narrow" if inside < promised else "too wide"
        rows.append([f"{100 * promised:g} %", f"{100 * inside:.1f} %", figure(width), verdict])
    return rows


def training_charts(history: History) -> list[tuple[Chart, str]]:
    """Loss and learning rate over the epochs."""
    epochs = [record["epoch"] for record in history.epochs]
    held = [(record["epoch"], record["validation_loss"]) for record in history.epochs if "validation_loss" in record]
    traces = [Trace(name="training", x=epochs, y=history.train_loss)]
    if held:
        traces.append(Trace(name="validation", x=[x for x, _ in held], y=[y for _, y in held], colour=COLOURS[1]))
    values = [value for trace in traces for value in trace.y if math.isfinite(value)]
    if history.best_epoch is not None and values:
        best = history.best_epoch
        ends = [min(values), max(values)]
        traces.append(Trace(name=f"best: epoch {best}", x=[best, best], y=ends, colour="soft", dash="dot", width=1.4))
    wide = bool(values) and min(values) > 0 and max(values) / min(values) > 20
    loss = Chart(title="Loss", traces=traces, xlabel="epoch", ylabel="loss", log=wide)
    rates = [record["learning_rate"] for record in history.epochs]
    rate = Chart(
        title="Learning rate", traces=[Trace(name="rate", x=epochs, y=rates, colour=COLOURS[2])], xlabel="epoch",
        ylabel="learning rate", legend=False,
    )  # fmt: skip
    return [(loss, f"Ended: {history.stopped}."), (rate, "")]
