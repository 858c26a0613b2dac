"""`neuro-divergent evaluate`: a saved model on a table that it was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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


LOOKED_AT = 100
"""How many series are compared with those of the training."""


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
    """Forecast the last windows of a table and score them beside a seasonal naive forecast.

    Parameters
    ----------
    model
        The directory of a run, or of a saved model.
    data
        A CSV, Parquet or .xlsx file whose last rows the model was not trained on; earlier rows are what it sees.
    metrics
        Figures such as mae,rmse,mase,smape; the common ones unless given.
    level
        Prediction intervals in percent, such as 80,95, whose coverage is measured.
    n_windows
        How many horizons, counted from the end of each series.
    step_size
        The distance of two of them; one horizon unless given.
    out
        A .csv or .parquet file for the forecasts beside what happened.
    set
        How the file is written, if it is not as that of the training: data.separator=";", data.encoding=latin-1,
        data.decimal_comma=true, data.time_format=%d.%m.%Y.
    json
        Print JSON for machines.
    """
    table_file(out)
    n_windows = at_least_one("n_windows", n_windows)
    step_size = None if step_size is None else at_least_one("step_size", step_size)
    asked = levels(level)
    fitted = load_model(model)
    read = read_again(data, fitted.data.schema, sections(None, {}, set)["data"])
    seen = already_seen(fitted, read, fitted.model.h + (n_windows - 1) * (step_size or fitted.model.h))
    if seen:
        layout = sections(None, {}, set)["data"]
        fields = fields_of(fitted.data.schema) | marks_of(read.schema.file) | layout
        note(f"{seen}: {cv_command(data, fitted, fields)}")
    named = None if metrics is None else split((metrics,))
    found = fitted.evaluate(read, metrics=named, level=asked, n_windows=n_windows, step_size=step_size)
    if out is not None:
        write_frame(out, as_polars(found.frame))
        note(f"the forecasts beside what happened were written to {out}")
    if json:
        by_step = as_polars(found.by_step).to_dicts()
        facts = {"season": found.season, "overall": found.table.to_dicts(), "by_step": by_step}
        say_json(facts | {"coverage": coverage_facts(found)})
        return
    say(score_text(found.table))
    if found.coverage:
        say(coverage_text(found))


def already_seen(fitted: Forecaster, read: TimeSeriesDataFrame, rows: int) -> str:
    """A warning if the last rows of a table were there in the training; nothing if they are newer, or other series."""
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
                f"neuro-divergent: warning: the model was trained with rows up to {last}, and these figures begin at "
                f"{first}: they flatter it. Hand over newer rows, or test it on several cutoffs"
            )
    return ""
