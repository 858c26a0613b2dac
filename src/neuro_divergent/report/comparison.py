"""The report of a cross-validation: the leaderboard, the error at each step ahead, and the forecasts themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuro_divergent._version import __version__
from neuro_divergent.plotting.style import COLOURS
from neuro_divergent.report import sections
from neuro_divergent.report.chart import Chart, Trace
from neuro_divergent.report.page import Page

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.forecasting.evaluate.cross_validation import CrossValidation


def comparison_report(
    found: CrossValidation,
    board: pl.DataFrame,
    *,
    source: str = "",
    interactive: bool = True,
    metric: str | None = None,
) -> Page:
    """A page about a cross-validation.

    Args:
        found: what `cross_validation` gave.
        board: one row per model with the mean of each figure, best first.
        source: where the data came from.
        interactive: charts that can be zoomed, if plotly is installed; pictures otherwise.
        metric: the figure that colours and charts follow; MASE unless given.
    """
    of = f" on {source.replace(chr(92), '/').rsplit('/', 1)[-1]}" if source else ""
    page = Page(f"Comparison{of}", f"{len(found.folds)} tests over time, best model first.", interactive=interactive)
    page.heading("Leaderboard")
    page.text("Means over the tests. Every model was trained only on rows before the ones it was tested on.")
    sections.score_table(page, board, metric)
    by_step = _polars(found.evaluation.by_step)
    page.heading("Error by horizon")
    page.chart(sections.horizon_chart(by_step, sections.chosen_metric(by_step.columns[2:], metric, "mase")))
    page.heading("Test by test")
    page.chart(_folds_chart(_polars(found.by_fold), metric))
    page.heading("Forecasts")
    page.chooser(_forecast_charts(found), "Series")
    page.footer = f"neuro-divergent {__version__}. This file needs no network."
    return page


def _polars(frame: Any) -> pl.DataFrame:
    import polars as pl

    if isinstance(frame, pl.DataFrame):
        return frame
    return pl.DataFrame(frame) if isinstance(frame, dict) else pl.from_dataframe(frame)


def _folds_chart(by_fold: pl.DataFrame, asked: str | None) -> Chart:
    import polars as pl

    names = by_fold["metric"].unique(maintain_order=True).to_list()
    metric = sections.chosen_metric(names, asked, "mase")
    traces = []
    for number, (key, part) in enumerate(
        by_fold.filter(pl.col("metric") == metric).group_by("model", maintain_order=True)
    ):
        name = str(key[0])
        colour = sections.NAIVE if "naive" in name else COLOURS[number % len(COLOURS)]
        folds = [int(fold) + 1 for fold in part["fold"]]
        traces.append(Trace(name=name, x=folds, y=part["value"].to_list(), colour=colour, width=2.0))
    return Chart(title="Error of each test", traces=traces, xlabel="test", ylabel=sections.title(metric))


def _forecast_charts(found: CrossValidation) -> list[Chart]:
    frame = _polars(found.frame)
    cutoff = frame.columns.index("cutoff")
    time, target = frame.columns[cutoff - 1], frame.columns[cutoff + 1]
    models = [name for name in frame.columns[cutoff + 2 :] if "-lo-" not in name and "-hi-" not in name]
    models = [name for name in models if not name.endswith("-median") and "_ql" not in name]
    charts: list[Chart] = []
    parts = frame.group_by(frame.columns[0], maintain_order=True) if cutoff > 1 else [((target,), frame)]
    for key, part in parts:
        if len(charts) >= sections.MAX_SERIES:
            break
        rows = part.sort(time)
        times = rows[time].to_list()
        traces = [Trace(name="actual", x=times, y=_numbers(rows[target]), colour="ink", width=1.6)]
        for number, name in enumerate(models):
            colour = COLOURS[number % len(COLOURS)]
            traces.append(Trace(name=name, x=times, y=_numbers(rows[name]), colour=colour))
        charts.append(Chart(title=str(key[0]), traces=traces, ylabel=target))
    return charts


def _numbers(column: pl.Series) -> list[float]:
    return [float("nan") if value is None else float(value) for value in column]
