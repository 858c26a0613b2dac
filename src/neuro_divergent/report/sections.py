"""The sections of a report. Nothing is computed by a model here; the metrics are given."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from neuro_divergent.forecasting.evaluate.coverage import IntervalCoverage
from neuro_divergent.forecasting.evaluate.held_out import HeldOut
from neuro_divergent.forecasting.evaluate.residuals import Bias, Dependence
from neuro_divergent.forecasting.plots import recent
from neuro_divergent.metrics.base import badness
from neuro_divergent.plotting.style import COLOURS
from neuro_divergent.report.chart import Chart, Trace
from neuro_divergent.report.page import Choice, Page

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.training.state.history import History

MAX_SERIES = 40
MAX_POINTS = 500
LAGS = 24
SMALL_BIAS, LARGE_BIAS = 1.0, 10.0
"""In percent. A bias below the first is called small. One above the second is mentioned even if not significant."""
NAIVE = "#9A9A9A"
COVERAGE_HEADER = ("level", "actual values inside", "number of values", "mean width", "")
Mood = Literal["", "good", "bad"]
_TITLES = {
    "mae": "MAE",
    "rmse": "RMSE",
    "smape": "sMAPE %",
    "mase": "MASE",
    "bias_percent": "bias %",
    "pinball": "pinball",
    "scaled_crps": "CRPS, scaled",
}


def figure(value: float | None) -> str:
    """A number as text, with few digits.

    >>> figure(1234.5), figure(0.00123), figure(float("nan"))
    ('1,234', '0.00123', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def series_charts(data: TimeSeriesDataFrame) -> Iterator[Choice]:
    """A chart of each series. A long one is drawn by the smallest and the largest value of each part."""
    for number in range(min(data.n_series, MAX_SERIES)):
        times, values = recent(data, number, int(data.store.lengths[number]))
        rows = _extremes(values)
        title, target = str(data.ids[number]), data.schema.target_col
        trace = Trace(name=target, x=[times[row] for row in rows], y=values[rows], width=1.3)
        chart = Chart(title=title, traces=[trace], legend=False, titled=True, ylabel=target, hover=False)
        yield Choice(title=title, charts=[chart])


def _extremes(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The rows to draw: all, or the smallest and the largest value of each of MAX_POINTS / 2 stretches."""
    if len(values) <= MAX_POINTS:
        return np.arange(len(values))
    rows: set[int] = set()
    for part in np.array_split(np.arange(len(values)), MAX_POINTS // 2):
        filled = np.nan_to_num(values[part], nan=np.inf), np.nan_to_num(values[part], nan=-np.inf)
        rows |= {int(part[filled[0].argmin()]), int(part[filled[1].argmax()])}
    return np.array(sorted(rows))


def chosen_metric(names: Sequence[str], asked: str | None, otherwise: str) -> str:
    """The column that decides colours and charts: the metric asked for, or its first level, or another."""
    for wanted in (asked, otherwise):
        for name in names:
            if wanted in (name, name.partition("-")[0]):
                return name
    return names[0]


def score_table(page: Page, table: pl.DataFrame, metric: str | None = None, naive: str = "") -> None:
    """One row per model, the best by a metric (MASE unless given) marked, and a sentence that says so.

    With the name of the naive forecast, the second column says how much better or worse than it a model is.
    """
    names = [column for column in table.columns if column != "model"]
    by = chosen_metric(names, metric, "mase")
    shown = [name for name in names if name == by or not name.startswith(("coverage", "interval_score", "pinball"))]
    rows = [[str(row["model"]), *(_cell(name, row[name]) for name in shown)] for row in table.iter_rows(named=True)]
    scores = dict(zip(table["model"].to_list(), table[by].to_list(), strict=True))
    best = int(np.argmin([badness(by, value) for value in scores.values()]))
    header = ["model", *map(title, shown)]
    if naive in scores:
        header.insert(1, f"{title(by)} compared with naive")
        for row in rows:
            row.insert(1, "" if row[0] == naive else beside_naive(by, scores[row[0]], scores[naive])[0])
    page.table(header, rows, best)
    page.text(f"The row that is best by {title(by)} is coloured.", soft=True)


def beside_naive(metric: str, own: float | None, naive: float | None) -> tuple[str, Mood]:
    """How a model's figure compares with that of the naive forecast; no words where one of them is missing.

    >>> beside_naive("mae", 1.5, 2.0), beside_naive("mae", 3.0, 2.0), beside_naive("mae", 2.0, 2.0)
    (('25 % better', 'good'), ('50 % worse', 'bad'), ('as good', ''))
    """
    bad, other = badness(metric, own), badness(metric, naive)
    if not (math.isfinite(bad) and math.isfinite(other)):
        return "", ""
    gain = 1 - bad / other if other > 0 else float(np.sign(other - bad))
    if abs(gain) < 0.005:
        return "as good", ""
    word, mood = ("better", "good") if gain > 0 else ("worse", "bad")
    return (f"{abs(100 * gain):.0f} % {word}" if other > 0 else word), mood  # type: ignore[return-value]


def title(column: str) -> str:
    """The name of a metric in a report."""
    metric, _, level = column.partition("-")
    if level:
        return f"{'inside' if metric == 'coverage' else metric.replace('_', ' ')} {level} %"
    return _TITLES.get(column, column.replace("_", " "))


def _cell(column: str, value: float | None) -> str:
    if column.startswith("coverage") and value is not None:
        return f"{100 * value:.0f} %"
    if column == "bias_percent" and value is not None and math.isfinite(value):
        return f"{value:+.1f}"
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
    return Chart(title="Error by horizon", traces=traces, xlabel="steps ahead", ylabel=title(metric))


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
    caption = (
        f"Mean of actual − forecast {figure(mean)}, standard deviation {figure(spread)}. {bias_sentence(held.bias())}"
    )
    found = [(histogram, caption)]
    dependence = held.dependence(LAGS)
    if dependence is not None:
        found.append((_correlogram(dependence), dependence_sentence(dependence)))
    return found


def _without_tails(errors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    low, high = np.quantile(errors, [0.005, 0.995])
    return np.asarray(np.clip(errors, low, high))


def bias_sentence(bias: Bias) -> str:
    """What the errors say about a bias.

    >>> bias_sentence(Bias(-38.0, 0.0002))
    'Bias -38.0 %: the forecasts are too low, by more than chance explains (p < 0.001).'
    >>> bias_sentence(Bias(2.0, 0.4))
    'Bias +2.0 %: not more than chance explains (p = 0.4).'
    """
    if not math.isfinite(bias.percent):
        return "All actual values are 0, so a bias has no percentage."
    size = f"Bias {bias.percent:+.1f} %"
    if bias.p_value is None:
        return f"{size}: there are too few periods to tell it from chance."
    if not bias.significant:
        doubt = " There are too few forecasts to rule out a real bias." if abs(bias.percent) >= LARGE_BIAS else ""
        return f"{size}: not more than chance explains ({_p(bias.p_value)}).{doubt}"
    side = "low" if bias.percent < 0 else "high"
    degree = "" if abs(bias.percent) >= SMALL_BIAS else "a little "
    return f"{size}: the forecasts are {degree}too {side}, by more than chance explains ({_p(bias.p_value)})."


def dependence_sentence(found: Dependence) -> str:
    """What the autocorrelation of errors says."""
    first, bound, lags = float(found.correlation[0]), found.bound, len(found.correlation)
    where = "outside" if 1 in found.outside else "inside"
    facts = (
        f"Errors one step ahead: lag 1 is {first:.2f}, {where} ±{bound:.2f}; {len(found.outside)} of {lags} lags "
        f"{'is' if len(found.outside) == 1 else 'are'} outside, where chance gives about {0.05 * lags:.1g}; Ljung-Box "
        f"over all lags {_p(found.p_box)}."
    )
    if not found.significant:
        return f"{facts} This is consistent with independent errors."
    if found.p_first <= found.p_box and first < 0:
        return f"{facts} They are not independent: an error is often followed by one of the other sign."
    largest = int(np.argmax(np.abs(found.correlation))) + 1
    return (
        f"{facts} They are not independent, most at lag {largest}: a longer input_size, an anchor or features may help."
    )


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.1g}" if value >= 0.1 else f"p = {value:.2g}"


def _correlogram(found: Dependence) -> Chart:
    lags = list(range(1, len(found.correlation) + 1))
    edges = [
        Trace(name="by chance", x=[0.5, len(lags) + 0.5], y=[edge, edge], colour="soft", dash="dash", width=1.2)
        for edge in (found.bound, -found.bound)
    ]
    bars = Trace(name="autocorrelation", x=lags, y=found.correlation, kind="bars", opacity=0.85)
    return Chart(
        title="Autocorrelation of errors", traces=[bars, *edges], legend=False, xlabel="lag", ylabel="autocorrelation"
    )


def calibration_chart(held: HeldOut) -> tuple[Chart, str] | None:
    """The observed share of values below each quantile, against the expected share."""
    pairs = held.observed_shares()
    if len(pairs) < 2:
        return None
    wanted, seen = [100 * level for level, _ in pairs], [100 * share for _, share in pairs]
    traces = [
        Trace(name="as promised", x=[0, 100], y=[0, 100], colour="soft", dash="dash", width=1.4),
        Trace(name="observed", x=wanted, y=seen, width=2.0),
        Trace(name="quantiles", x=wanted, y=seen, kind="points", listed=False),
    ]
    chart = Chart(title="Calibration", traces=traces, xlabel="quantile, %", ylabel="values below it, %")
    return (
        chart,
        "On the dashed line the intervals have their promised coverage. Flatter is too narrow, steeper too wide.",
    )


def coverage_rows(held: HeldOut) -> list[list[str]]:
    """A row of `COVERAGE_HEADER` for each interval."""
    return [coverage_row(item) for item in held.evaluation.coverage]


def coverage_row(item: IntervalCoverage) -> list[str]:
    """Promised, observed, of how many values, mean width, and the verdict in words."""
    off = item.percent - item.level
    verdict = "as promised" if abs(off) <= 5 else "too narrow" if off < 0 else "too wide"
    return [f"{item.level:g} %", f"{item.percent:.1f} %", f"{item.values:,}", figure(item.width), verdict]


def training_charts(history: History) -> list[tuple[Chart, str]]:
    """Loss and learning rate over the epochs."""
    epochs = [record["epoch"] for record in history.epochs]
    held = [(record["epoch"], record["validation_loss"]) for record in history.epochs if "validation_loss" in record]
    traces = [Trace(name="training", x=epochs, y=history.train_loss)]
    if held:
        traces.append(Trace(name="validation", x=[x for x, _ in held], y=[y for _, y in held], colour=COLOURS[1]))
    values = [value for trace in traces for value in trace.y if math.isfinite(value)]
    marks: list[tuple[int, str]] = []
    if history.best_epoch is not None and values:
        marks.append((history.best_epoch, f"best: epoch {history.best_epoch}"))
    wide = bool(values) and min(values) > 0 and max(values) / min(values) > 20
    loss = Chart(title="Loss", traces=traces, xlabel="epoch", ylabel="loss", log=wide, marks=marks)
    rates = [record["learning_rate"] for record in history.epochs]
    rate = Chart(
        title="Learning rate", traces=[Trace(name="rate", x=epochs, y=rates, colour=COLOURS[2])], xlabel="epoch",
        ylabel="learning rate", legend=False,
    )  # fmt: skip
    return [(loss, f"Ended: {history.stopped}."), (rate, "")]
