"""The report of a cross-validation: the leaderboard, the error of each test and step, and the forecasts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from neuro_divergent._version import __version__
from neuro_divergent.plotting.style import COLOURS
from neuro_divergent.report import sections
from neuro_divergent.report.chart import Chart, Trace
from neuro_divergent.report.forecast_charts import MAX_SERIES, bands, rows_of
from neuro_divergent.report.hover import plain
from neuro_divergent.report.page import CHOOSER_SIZE, Choice, Page

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.forecasting.evaluate.cross_validation import CrossValidation
    from neuro_divergent.forecasting.evaluate.folds import Fold


def comparison_report(
    found: CrossValidation, board: pl.DataFrame, *, source: str = "", metric: str | None = None
) -> Page:
    """A page about a cross-validation.

    Args:
        found: the result of `cross_validation`.
        board: one row per model with the mean of each figure, best first.
        source: where the data came from.
        metric: the figure that colours and charts follow; MASE unless given.
    """
    of = f" on {source.replace(chr(92), '/').rsplit('/', 1)[-1]}" if source else ""
    page = Page(f"Comparison{of}", f"{len(found.folds)} tests over time, best model first.")
    page.heading("Leaderboard")
    page.text("Means over the tests. Every model was trained only on rows before the ones it was tested on.")
    sections.score_table(page, board, metric, found.truth.naive_name)
    if found.evaluation.coverage:
        page.heading("Coverage of the intervals")
        rows = [[item.model, *sections.coverage_row(item)] for item in found.evaluation.coverage]
        page.table(["model", *sections.COVERAGE_HEADER], rows)
    by_step = _polars(found.evaluation.by_step)
    page.heading("Error by horizon")
    page.text("The error of each model at each step ahead, over all tests. Lower is better.")
    page.chart(sections.horizon_chart(by_step, sections.chosen_metric(by_step.columns[2:], metric, "mase")))
    page.heading("Error of each test")
    page.text("The error of each model in each test, over all steps. Lower is better.")
    page.chart(_folds_chart(found, metric))
    page.heading("Forecasts")
    page.text(
        "First all tests of a series. A dashed line is a cutoff: the rows after it are forecast from the rows before "
        "it. Then each test and model by itself, with its intervals and the naive forecast."
    )
    tested = np.unique(found.truth.series)
    page.chooser(_series(found), "Series", total=len(tested), most=4 * CHOOSER_SIZE)
    page.footer = f"neuro-divergent {__version__}. This file needs no network."
    return page


def _polars(frame: Any) -> pl.DataFrame:
    import polars as pl

    if isinstance(frame, pl.DataFrame):
        return frame
    return pl.DataFrame(frame) if isinstance(frame, dict) else pl.from_dataframe(frame)


def _folds_chart(found: CrossValidation, asked: str | None) -> Chart:
    """The error of every model in each test, at the cutoff of the test."""
    import polars as pl

    by_fold = _polars(found.by_fold)
    metric = sections.chosen_metric(by_fold["metric"].unique(maintain_order=True).to_list(), asked, "mase")
    cutoffs = {fold.number: _cutoff(found, fold) for fold in found.folds}
    dated = None not in cutoffs.values()
    means = by_fold.filter(pl.col("metric") == metric).group_by("model", "fold", maintain_order=True)
    traces = []
    for name, part in means.agg(pl.col("value").mean()).group_by("model", maintain_order=True):
        numbers = part["fold"].to_list()
        x = [cutoffs[number] if dated else number + 1 for number in numbers]
        line = Trace(name=str(name[0]), x=x, y=part["value"].to_list(), colour=_colour(found, str(name[0])), width=2.0)
        traces += [line, replace(line, kind="points", listed=False)]
    label = "cutoff: the last row seen" if dated else "test (the cutoffs of the series differ)"
    return Chart(title="Error of each test", traces=traces, xlabel=label, ylabel=sections.title(metric))


def _cutoff(found: CrossValidation, fold: Fold) -> Any:
    """The last row that a test's forecasts see; None where it is another moment for some of the series."""
    first, last = fold.test
    tested = np.flatnonzero(last > first)
    store = found.data.store
    moments = np.unique(store.times(first[tested] - fold.gap - 1, tested))
    return found.data._stamps(moments)[0] if len(moments) == 1 else None


def _colour(found: CrossValidation, name: str) -> str:
    models = list(found.hindcasts)
    return COLOURS[models.index(name) % len(COLOURS)] if name in models else sections.NAIVE


def _series(found: CrossValidation) -> Iterator[Choice]:
    for number in np.unique(found.truth.series)[:MAX_SERIES].tolist():
        title = str(found.data.ids[number])
        folds = [
            _fold_chart(found, number, place, name) for place in _places(found, number) for name in found.hindcasts
        ]
        yield Choice(title=title, charts=[_overview(found, number), *folds])


def _places(found: CrossValidation, number: int) -> list[int]:
    """The tests that have forecasts of a series, as places in `found.folds`."""
    return np.unique(found.fold_of[found.truth.series == number]).tolist()  # type: ignore[no-any-return]


def _overview(found: CrossValidation, number: int) -> Chart:
    """All tests of a series: where they overlap, the later forecast is shown."""
    truth, steps = found.truth, found.truth.actual.shape[1]
    some = np.flatnonzero(truth.series == number)
    begins = (truth.time + truth.gap)[some]
    some, begins = some[np.argsort(begins, kind="stable")], np.sort(begins)
    first = int(begins[0])
    last = min(int(begins[-1]) + steps, int(found.data.store.lengths[number]))
    times, actual = rows_of(found.data, number, max(0, first - 2 * steps), last)
    ahead = times[first - last :]
    traces = [Trace(name="actual", x=times, y=actual, colour="ink", width=1.5)]
    forecasts = {truth.naive_name: truth.naive} | {name: item.values[:, :, 0] for name, item in found.hindcasts.items()}
    for name, values in forecasts.items():
        line = np.full(last - first, np.nan)
        for origin, begin in zip(some, begins - first, strict=True):
            line[begin : begin + steps] = values[origin, : len(line) - begin]
        traces.append(Trace(name=name, x=ahead, y=line, colour=_colour(found, name)))
    cutoffs = sorted({int(truth.time[origin]) - 1 for origin in some})
    marks = [(found.data.times(number, row, 1)[0], "") for row in cutoffs]
    title = str(found.data.ids[number])
    return Chart(title=title, traces=traces, ylabel=found.data.schema.target_col, titled=True, marks=marks)


def _fold_chart(found: CrossValidation, number: int, place: int, name: str) -> Chart:
    """One test of one model: the rows before the cutoff, what happened, the forecast with its intervals."""
    truth, item, data = found.truth, found.hindcasts[name], found.data
    steps = truth.actual.shape[1]
    some = np.flatnonzero((truth.series == number) & (found.fold_of == place))
    some = some[np.argsort(truth.time[some], kind="stable")]
    start = int((truth.time + truth.gap)[some[0]])
    stop = int(found.folds[place].test[1][number])
    seen = int(truth.time[some[0]])
    times, actual = rows_of(data, number, max(0, seen - min(2 * steps, 60)), stop)
    ahead = times[start - stop :]
    values = item.values[some].reshape(-1, item.values.shape[2])[: len(ahead)]
    naive = truth.naive[some].reshape(-1)[: len(ahead)]
    colour = _colour(found, name)
    traces = [
        *bands(item.columns, ahead, values, colour),
        Trace(name="actual", x=times, y=actual, colour="ink", width=1.5),
        Trace(name="naive", x=ahead, y=naive, colour=sections.NAIVE, width=1.4),
        Trace(name="forecast", x=ahead, y=values[:, 0], colour=colour, width=2.0),
    ]
    cutoff = data.times(number, seen - 1, 1)[0]
    return Chart(title=f"{name} after {plain([cutoff])[0]}", traces=traces, titled=True, marks=[(cutoff, "")])
