"""The report of one training: what went in, what came out, how good it is, and how to do it again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from neuro_divergent._version import __version__
from neuro_divergent.diagnostics.doctor.diagnose import judged
from neuro_divergent.diagnostics.doctor.gather import from_forecaster
from neuro_divergent.diagnostics.doctor.verdict import Diagnosis
from neuro_divergent.forecasting.evaluate.held_out import HeldOut, held_out_forecasts
from neuro_divergent.forecasting.evaluate.residuals import Bias
from neuro_divergent.forecasting.predict.ahead import asked_ahead
from neuro_divergent.forecasting.predict.calibrate_intervals import coverage_sentences
from neuro_divergent.forecasting.predict.validated import BEFORE_REFIT, refit_words, validated_on
from neuro_divergent.metrics.base import metric_name
from neuro_divergent.report import sections
from neuro_divergent.report.again import CROSS_VALIDATION, Again, do_it_again
from neuro_divergent.report.diagnostics import error_sentences, gradient_items
from neuro_divergent.report.forecast_charts import EXTREMES, Ranking, future_charts, held_out_charts
from neuro_divergent.report.page import CHOOSER_SIZE, Page
from neuro_divergent.report.sections import figure

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster


def training_report(
    fitted: Forecaster,
    *,
    source: str = "",
    command: str = "",
    again: Again | None = None,
    seconds: float | None = None,
    future: Any = None,
    held: HeldOut | None = None,
    metric: str | None = None,
    diagnosis: Diagnosis | None = None,
) -> Page:
    """A page about a fitted model; `page.save("report.html")` writes it, a notebook shows it.

    Args:
        fitted: the model; its table must be the one it was trained on.
        source: where the data came from.
        command: what was typed, if it was typed.
        again: both of these, with further commands of a training on the shell.
        seconds: how long the training took.
        future: values of the columns known ahead, as `predict` takes them, for the chart of the forecast. Without them
            the last rows of the table stand in for models that need such columns.
        held: forecasts of the held-out rows, if `held_out_forecasts` made them already.
        metric: the figure that colours and charts follow; the first of the training's `metrics`, or MAE, unless given.
        diagnosis: the result of `nd.diagnose`; without it, everything is examined but other learning rates.
    """
    model, data = fitted.model, fitted.data
    again = again or Again(source=source, train=command)
    source = again.source
    of = f" on {source.replace(chr(92), '/').rsplit('/', 1)[-1]}" if source else ""
    took = "" if seconds is None else f", trained in {seconds:.1f} s"
    lead = f"{model.h} steps ahead from {model.input_size} past steps, {fitted.num_parameters:,} parameters{took}."
    page = Page(f"{model.name}{of}", lead)
    held = held_out_forecasts(fitted) if held is None else held
    by = None if held is None else _metric(fitted, held, metric)
    page.cards(_facts(fitted, held, by))
    page.heading("Forecast")
    charts, said = future_charts(fitted, future)
    if said:
        page.text(said)
    if page.chooser(charts, "Series", total=data.n_series) and fitted.point is not None:
        page.text(_point_shown(fitted), soft=True)
    if future is None and asked_ahead(fitted):
        page.text("The forecast after the table needs a table (FILE) of the columns known ahead:", soft=True)
        page.code(again.predict or "fitted.predict(future=table)")
    _quality(page, fitted, held, by, again)
    page.heading("Training")
    page.pair(sections.training_charts(fitted.history))
    gradient_items(page, fitted)
    _diagnosis(page, _diagnosed(fitted, held) if diagnosis is None else diagnosis)
    page.heading("Data")
    page.items(data.report().lines())
    page.chooser(sections.series_charts(data), "Series", total=data.n_series)
    do_it_again(page, fitted, again)
    page.footer = f"neuro-divergent {__version__}. This file needs no network."
    return page


def _diagnosed(fitted: Forecaster, held: HeldOut | None) -> Diagnosis:
    """What is wrong with the training, from the forecasts that the report shows."""
    return judged(from_forecaster(fitted, probes=False, held=held))


def _metric(fitted: Forecaster, held: HeldOut, asked: str | None) -> str:
    names = held.evaluation.table.columns[1:]
    followed = [name for name in map(metric_name, fitted.config.metrics) if name in names]
    return sections.chosen_metric(names, asked or next(iter(followed), None), "mae")


def _point_shown(fitted: Forecaster) -> str:
    if fitted.loss.probabilistic:
        return f"The line is the {fitted.point} of the forecast distribution."
    return f"The line is a point forecast; {fitted.loss.kind} aims at the {fitted.point}."


def _facts(fitted: Forecaster, held: HeldOut | None, metric: str | None) -> list[tuple[str, str, sections.Mood]]:
    data = fitted.data
    facts: list[tuple[str, str, sections.Mood]] = [
        (f"{data.n_series:,}", "series", ""),
        (f"{len(data):,}", f"rows, {data.freq} apart", ""),
    ]
    if held is None or metric is None:
        return facts
    own, naive = held.evaluation.table[metric].to_list()[:2]
    facts.append((figure(own), "mean absolute error" if metric == "mae" else sections.title(metric), ""))
    beside, mood = sections.beside_naive(metric, own, naive)
    if beside:
        facts.append((beside, "as seasonal naive" if beside == "as good" else "than seasonal naive", mood))
    bias = held.bias()
    if math.isfinite(bias.percent):
        facts.append((f"{bias.percent:+.1f} %", "bias of the forecasts", "bad" if _biased(bias) else ""))
    for promised, inside, *_, verdict in sections.coverage_rows(held)[-1:]:
        facts.append(
            (inside, f"of values inside the {promised} interval", "good" if verdict == "as promised" else "bad")
        )
    return facts


def _biased(bias: Bias) -> bool:
    return bias.significant and abs(bias.percent) >= sections.SMALL_BIAS


def _quality(page: Page, fitted: Forecaster, held: HeldOut | None, metric: str | None, again: Again) -> None:
    page.heading("Accuracy")
    if held is None:
        page.text(
            "No rows were held out, or fewer than one forecast needs. Errors on training rows are too small. Measure "
            "the accuracy at several cutoffs by cross-validation:"
        )
        page.code(again.compare or CROSS_VALIDATION)
        return
    count, percent, season = len(held.truth.series), f"{100 * held.share:.3g} %", held.truth.season
    part, refit = validated_on(fitted), refit_words(fitted.history)
    if refit:
        page.text(
            f"These are {BEFORE_REFIT} ({refit}). The refit has seen the held-out rows, so the forecasts that the "
            "network made before it are shown and scored."
        )
    page.text(
        f"{count:,} forecasts of {held.n_series:,} series over the last {percent} of their rows, each from the rows "
        f"before it.{f' Held out were {part}.' if part else ''} The network was not trained on these rows, but they "
        "decided when to stop, so the metrics are a little too good. The seasonal naive forecast repeats the last "
        f"{season} step{'s' if season > 1 else ''} of the same rows. Cross-validation gives metrics of rows that "
        "were not used for any decision:"
    )
    page.code(again.compare or CROSS_VALIDATION)
    sections.score_table(page, held.evaluation.table, metric, held.truth.naive_name)
    page.text(
        "MASE below 1: better than the naive forecast on the history. Bias is the sum of forecast minus actual, "
        "in percent of the sum of the actual values: below 0 the forecasts are too low.",
        soft=True,
    )
    _held_out(page, fitted, held)
    page.parts.append("<h3>Error by horizon</h3>")
    page.text("The error of the held-out forecasts at each step ahead. Lower is better.")
    page.chart(sections.horizon_chart(held.by_step(), metric or "mae"))
    uneven = error_sentences(held, fitted.model.name)
    if uneven:
        page.items(uneven)
    residuals = sections.residual_charts(held)
    if residuals:
        page.parts.append("<h3>Distribution of the errors</h3>")
        page.pair(residuals)
    bias = held.bias()
    if _biased(bias) and bias.percent < 0 and fitted.point == "median":
        change = 'point="mean"' if fitted.loss.probabilistic else "MSE, or a distribution,"
        page.text(
            "The forecasts are medians. Where a few values are much larger than the rest, the median lies below the "
            f"mean, and a sum of medians is too low. {change} forecasts the mean."
        )
    calibration = sections.calibration_chart(held)
    if calibration is not None:
        page.parts.append("<h3>Coverage of the intervals</h3>")
        page.table(sections.COVERAGE_HEADER, sections.coverage_rows(held))
        for sentence in coverage_sentences(fitted):
            page.text(f"{sentence}.")
        if fitted.calibration is not None:
            page.text(
                "In this section each half of the held-out rows is corrected by the errors of the other half. The "
                "model's own correction uses both halves.",
                soft=True,
            )
        page.pair([calibration])


def _diagnosis(page: Page, found: Diagnosis) -> None:
    """What is wrong with the training, with evidence and remedy."""
    page.heading("Diagnosis")
    page.table(
        ["cause", "what", "evidence", "what to change"],
        [[item.cause, item.what, item.figures(), item.change()] for item in found.verdicts],
    )
    page.items([f"Not examined: {item}" for item in found.not_examined])


def _held_out(page: Page, fitted: Forecaster, held: HeldOut) -> None:
    """Forecasts of held-out rows beside what happened, and the series with the largest and the smallest errors."""
    page.parts.append("<h3>Held-out forecasts</h3>")
    page.text(
        "Actual values, the forecasts with their intervals, and the naive forecast. A dashed line is a cutoff: the "
        f"{fitted.model.h} steps after it are forecast from the rows before it."
    )
    ranking = Ranking(held)
    name = page.chooser_name
    count = page.chooser(
        held_out_charts(fitted, held, ranking), "Series", total=len(ranking.order), most=2 * CHOOSER_SIZE
    )
    if len(ranking.order) < 2:
        return
    few = len(ranking.order) <= 2 * EXTREMES
    page.parts.append(f"<h3>{'Errors by series' if few else 'The worst and the best series'}</h3>")
    choices = {place: number for number, (place, _) in enumerate(ranking.shown()[:count])}
    places = [place for place in ranking.extremes() if place in choices]
    rows = [[str(fitted.data.ids[ranking.numbers[place]]), *ranking.row(place)] for place in places]
    page.link_table(["series", "MAE", "naive MAE", "MASE"], rows, name, [choices[place] for place in places])
    page.text(f"Sorted by {ranking.by.upper()}, the worst first. The name of a series shows its chart.", soft=True)
