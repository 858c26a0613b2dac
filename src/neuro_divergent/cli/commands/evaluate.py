"""`neuro-divergent evaluate`: score a saved model on rows that it was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.output_paths import table_file
from neuro_divergent.cli.io.tables_out import as_polars, coverage_facts, coverage_text, score_text, write_frame
from neuro_divergent.cli.io.terminal import note, say, say_json
from neuro_divergent.cli.request.hints import cv_command, fields_of, marks_of
from neuro_divergent.cli.request.read_table import read_again
from neuro_divergent.cli.request.run_file import MetricNames, Settings, levels, sections, split
from neuro_divergent.cli.request.saved_model import load_model
from neuro_divergent.core.counts import at_least_one

if TYPE_CHECKING:
    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.forecasting.several.ensemble import Ensemble


LOOKED_AT = 100
"""How many series are compared with the training series."""


def evaluate(
    model: Path,
    data: Path,
    /,
    *,
    metrics: MetricNames = None,
    level: str | None = None,
    n_windows: int = 1,
    step_size: int | None = None,
    out: Path | None = None,
    set: Settings = (),  # noqa: A002
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Forecast the last windows of a table with a saved model, and score them beside a seasonal naive forecast.

    Parameters
    ----------
    model
        The directory of a run, or of a saved model.
    data
        A CSV, Parquet or .xlsx file. Its last rows are forecast: they must be newer than the training rows.
    metrics
        Metrics such as mae,rmse,mase,smape. Default: the common ones.
    level
        Prediction intervals in percent, such as 80,95. Their coverage is measured.
    n_windows
        How many horizons to forecast, counted from the end of each series.
    step_size
        Number of rows from one forecast origin to the next. Default: one horizon.
    out
        A .csv or .parquet file for the forecasts and the actual values.
    set
        The format of the file, if it differs from the training file: data.separator=";", data.encoding=latin-1,
        data.decimal_comma=true, data.time_format=%d.%m.%Y.
    json
        Print JSON.
    """
    table_file(out)
    n_windows = at_least_one("n_windows", n_windows)
    step_size = None if step_size is None else at_least_one("step_size", step_size)
    asked = levels(level)
    fitted = load_model(model, "evaluate")
    read = read_again(data, fitted.data.schema, sections(None, {}, set)["data"])
    one = alone(fitted)  # an ensemble refuses rows that it was trained on
    seen = one and already_seen(one, read, one.model.h + (n_windows - 1) * (step_size or one.model.h))
    if one and seen:
        layout = sections(None, {}, set)["data"]
        fields = fields_of(fitted.data.schema) | marks_of(read.schema.file) | layout
        note(f"{seen}: {cv_command(data, one, fields)}")
    named = None if metrics is None else split((metrics,))
    scores: Any = fitted  # load_model has seen that it has the method
    found = scores.evaluate(read, metrics=named, level=asked, n_windows=n_windows, step_size=step_size)
    if out is not None:
        write_frame(out, as_polars(found.frame))
        note(f"forecasts and actual values written to {out}")
    if json:
        by_step = as_polars(found.by_step).to_dicts()
        facts = {"season": found.season, "overall": found.table.to_dicts(), "by_step": by_step}
        say_json(facts | {"coverage": coverage_facts(found)})
        return
    say(score_text(found.table))
    if found.coverage:
        say(coverage_text(found))


def alone(fitted: Forecaster | Ensemble) -> Forecaster | None:
    """The model, if it is a single one."""
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

    return fitted if isinstance(fitted, Forecaster) else None


def already_seen(fitted: Forecaster, read: TimeSeriesDataFrame, rows: int) -> str:
    """A warning if the model was trained on the last rows of a table; empty if they are newer, or of other series."""
    trained = fitted.data
    known = {str(name): number for number, name in enumerate(trained.ids)}
    for number, name in enumerate(read.ids[:LOOKED_AT]):
        own, length = known.get(str(name)), int(read.store.lengths[number])
        if own is None or not length:
            continue
        first = read.times(number, max(0, length - rows), 1)[0]
        last = trained.times(own, int(trained.store.lengths[own]) - 1, 1)[0]
        if first <= last:
            return (
                f"neuro-divergent: warning: the model was trained with rows up to {last}, and these metrics begin at "
                f"{first}: they are too optimistic. Give newer rows, or test it on several cutoffs"
            )
    return ""
