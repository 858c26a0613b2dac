"""`neuro-divergent train`: train a model on a table and write a run directory."""

from __future__ import annotations

import os
import re
import sys
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.output_paths import writable_directory
from neuro_divergent.cli.io.tables_out import coverage_facts, coverage_text
from neuro_divergent.cli.io.terminal import aside, say, say_json, sparkline
from neuro_divergent.cli.request.confine import confined
from neuro_divergent.cli.request.hints import cv_command, keep_command, predict_command, resume_hint, same_command_again
from neuro_divergent.cli.request.horizon import check_horizon, lookback
from neuro_divergent.cli.request.read_table import read_table, table_path
from neuro_divergent.cli.request.run_file import (
    Columns,
    ModelName,
    Settings,
    Training,
    changes,
    describe,
    levels,
    sections,
    train_config,
)
from neuro_divergent.cli.request.shell_wording import spelled
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.runs.names import CONFIG, EVENTS, MODEL, REPORT, STOPPED_ON_REQUEST

if TYPE_CHECKING:
    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.evaluate.held_out import HeldOut
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.training.config.training_config import TrainingConfig

SHOWN_SERIES = 3


def train(
    data: Path | None = None,
    /,
    *,
    model: ModelName = None,
    h: int | None = None,
    input_size: int | None = None,
    columns: Columns = Columns(),  # noqa: B008  # frozen
    training: Training = Training(),  # noqa: B008  # frozen
    config: Path | None = None,
    set: Settings = (),  # noqa: A002
    out: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    resume: Annotated[bool, Parameter(negative="")] = False,
    report: bool = True,
    allow_writes: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train a model on a table; save it with its history and a report.

    Parameters
    ----------
    data
        A CSV, Parquet or .xlsx file, or - for standard input. The run file may name it instead.
    model
        The model's name; `neuro-divergent models` lists them. Default: nhits.
    h
        How many steps ahead to forecast.
    input_size
        The lookback window: how many past steps the model sees. Default: about four horizons.
    config
        A run file (YAML or JSON) with data, model and training fields. `neuro-divergent init` writes one.
    set
        Set one field, such as training.max_epochs=20, model.scaler=robust or data.gaps=linear. May be repeated.
    out
        The run's directory. Default: runs/TABLE-MODEL.
    overwrite
        Replace the run if it exists.
    resume
        Resume from the last checkpoint in OUT, with the same bits as an uninterrupted run. Start if there is none.
        Without OUT, the run of TABLE and MODEL that wrote last is resumed.
        Give the same flags again. You may change flags that do not invalidate finished steps: --max-epochs for a longer
        training, --learning-rate, --set training.schedule=...
    report
        Write OUT/report.html.
    allow_writes
        Let the run file's callbacks and checkpoints write outside of OUT too. Use it only with a file that you trust.
    json
        Print JSON.
    """
    others = launched_with_others(out)
    named = {"kind": model, "h": h, "input_size": input_size}
    flags = {
        "data": columns.fields(),
        "model": {name: value for name, value in named.items() if value is not None},
        "training": training.fields(),
    }
    fields = sections(config, flags, set)
    path = table_path(data, fields["data"])
    if "h" not in fields["model"]:
        raise ConfigError("a horizon is required, but --h is missing. Give the number of steps, such as --h 28")
    levels(training.level)
    described = describe({**fields, "model": {"input_size": 1} | fields["model"]})
    train_config(fields, described, training.level, Path())  # refuse a wrong request before the work
    table = read_table(path, fields["data"])
    check_horizon(table, described.h)
    directory = run_directory(out, path, described.kind, overwrite=overwrite or others, resume=resume)
    show = aside(json)
    show("\n".join(table.report().lines(spelled)))
    _show_series(table, show)
    if "input_size" not in fields["model"]:
        from neuro_divergent.forecasting.fit.training_rows import training_rows

        rows = training_rows(described, table.store, train_config(fields, described, training.level, directory))
        described = described.replace(input_size=lookback(table, described.h, rows))
        show(f"input_size is {described.input_size}: the number of past steps that the model sees (--input-size)")
    settings = train_config(fields, described, training.level, directory)
    if config is not None:
        typed = sections(None, flags, set)["training"]
        settings = confined(settings, fields["training"], typed, directory, allowed=allow_writes)
    begun = clock.perf_counter()
    how: dict[str, Any] = {"short": fields["data"]["short"]} if "short" in fields["data"] else {}
    if resume:
        how |= {"resume": "auto", "resume_with": changes(settings, flags, set)}
        found = _last_checkpoint(settings)
        show(f"resuming in {directory}, after {found}" if found else f"nothing to resume in {directory}: it starts")
    elif not others:
        keep_command(directory)
    try:
        fitted = described.fit(table, settings, **how)
    except (KeyboardInterrupt, SystemExit):
        keep_command(directory)
        if (found := _last_checkpoint(settings)) is not None:
            show(f"stopped; {found} is saved in {directory}. Resume: {resume_hint(directory)}")
        raise
    if others:  # the main process writes the model and says what came out
        return
    seconds = clock.perf_counter() - begun
    keep_command(directory)  # of a resumed run only now: a refused command must not replace it
    fitted.save(directory / MODEL, overwrite=overwrite or resume or out is None)
    from neuro_divergent.forecasting.evaluate.held_out import held_out_forecasts

    held = held_out_forecasts(fitted)
    written = _write_report(fitted, directory, path, fields["data"], seconds, held) if report else None
    summary = _summary(fitted, directory, written, seconds, held)
    if json:
        say_json(summary)
        return
    _say_summary(fitted, summary, held, predict_command(fitted, directory, fields["data"]))


def launched_with_others(out: Path | None) -> bool:
    """Whether a launcher started this process beside the main one, which alone speaks and writes."""
    from neuro_divergent.distributed.launched import launched

    place = launched()
    if place is None or place.world == 1:
        return False
    if out is None:
        raise ConfigError("several processes write to one directory, but --out is missing. Name it: --out runs/sales")
    if place.rank > 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    return place.rank > 0


def run_directory(out: Path | None, data: Path, kind: str, *, overwrite: bool, resume: bool) -> Path:
    """The run's directory: it exists and is writable before the training begins.

    Without `out`: a free name; with `resume` the run that wrote last; with `overwrite` the first name.
    """
    from neuro_divergent.core import files

    directory = out
    if directory is None:
        directory = first = Path("runs") / f"{table_name(data)}-{kind.lower()}"
        number = 2
        while not (overwrite or resume) and directory.exists() and any(directory.iterdir()):
            directory = first.with_name(f"{first.name}-{number}")
            number += 1
        if resume:
            directory = _newest(first)
    elif files.present(directory / MODEL).exists() and not (overwrite or resume):
        raise ConfigError(f"{directory / MODEL} exists already. Choose another --out, or say --overwrite or --resume")
    return writable_directory(directory, "the run's directory")


def table_name(data: Path) -> str:
    """The name of a run, taken from its table: the file name without endings.

    >>> table_name(Path("sales.csv.gz")), table_name(Path("-"))
    ('sales', 'table')
    """
    packed = data.suffix.lower() in (".gz", ".zip", ".zst")
    name = Path(data.stem).stem if packed else data.stem
    return name.strip("-") or "table"


def _newest(first: Path) -> Path:
    """The run of this name, with or without a number, that was begun, resumed or written to last.

    The number is no proof: numbers of deleted runs are used again. Nor is the modification time of the directory: a new
    file changes it, but a new line in the event log does not.
    """
    named = re.compile(re.escape(first.name) + r"(-\d+)?")
    written = [
        file
        for place in first.parent.glob("*")
        if named.fullmatch(place.name)
        for file in (place / CONFIG, place / EVENTS)
        if file.is_file()
    ]
    return max(written, key=lambda file: file.stat().st_mtime_ns).parent if written else first


def _last_checkpoint(settings: TrainingConfig) -> str | None:
    from neuro_divergent.training.runs.checkpoint_store import place_of

    names = [] if settings.checkpoints is None else place_of(settings.checkpoints.directory).names()
    return names[-1] if names else None


def _show_series(table: TimeSeriesDataFrame, show: Any) -> None:
    from neuro_divergent.forecasting.plots import recent

    if not sys.stdout.isatty() and not sys.stderr.isatty():
        return
    names = [str(name) for name in table.ids[:SHOWN_SERIES]]
    width = max(map(len, names), default=0)
    for number, name in enumerate(names):
        _, values = recent(table, number, int(table.store.lengths[number]))
        show(f"  {name.ljust(width)}  {sparkline(values.tolist())}")


def _write_report(
    fitted: Forecaster, directory: Path, data: Path, fields: dict[str, Any], seconds: float, held: HeldOut | None
) -> Path:
    from neuro_divergent.report import training_report
    from neuro_divergent.report.again import Again

    again = Again(
        source=str(data),
        reading={name: value for name, value in fields.items() if name != "file"},
        train=same_command_again(),
        predict=predict_command(fitted, directory, fields),
        compare=cv_command(data, fitted, fields),
    )
    return training_report(fitted, again=again, seconds=seconds, held=held).save(directory / REPORT)


def _summary(
    fitted: Forecaster, directory: Path, report: Path | None, seconds: float, held: HeldOut | None
) -> dict[str, Any]:
    from neuro_divergent.forecasting.predict.calibrate_intervals import coverage_sentences
    from neuro_divergent.forecasting.predict.validated import refit_words, validated_on

    history = fitted.history
    return {
        "model": fitted.model.name,
        "h": fitted.model.h,
        "input_size": fitted.model.input_size,
        "parameters": fitted.num_parameters,
        "series": fitted.data.n_series,
        "rows": len(fitted.data),
        "epochs": len(history),
        "best_epoch": history.best_epoch,
        "train_loss": history.train_loss[-1] if history.epochs else None,
        "validation_loss": min(history.validation_loss, default=None),
        "stopped": history.stopped,
        "refit": refit_words(history) or None,
        "validated_on": validated_on(fitted),
        "held_back": None if held is None else held.evaluation.table.to_dicts(),
        "coverage": None if held is None else coverage_facts(held.evaluation),
        "bounds": None if fitted.bounds is None else fitted.bounds.to_dict(),
        "calibrated": coverage_sentences(fitted),
        "seconds": round(seconds, 3),
        "saved": str(directory / MODEL),
        "report": None if report is None else str(report),
    }


def _say_summary(fitted: Forecaster, summary: dict[str, Any], held: HeldOut | None, predict: str) -> None:
    from neuro_divergent.forecasting.predict.validated import BEFORE_REFIT

    history = fitted.history
    losses = history.validation_loss or history.train_loss
    say(f"{fitted!r} trained in {summary['seconds']:.1f} s: {history.stopped}")
    if losses:
        which = "validation loss" if history.validation_loss else "training loss"
        best = f", whose weights are kept (epoch {history.best_epoch})" if history.best_epoch is not None else ""
        say(f"{which} {sparkline(losses)} from {losses[0]:.4g} to {losses[-1]:.4g}, best {min(losses):.4g}{best}")
    if summary["refit"]:
        say(summary["refit"])
    if summary["held_back"] and summary["validated_on"]:
        say(verdict(summary["held_back"], summary["validated_on"]) + (f" ({BEFORE_REFIT})" if summary["refit"] else ""))
    if fitted.bounds is not None:
        hint = " (--lower none: no limit)" if fitted.data.schema.lower == "auto" else ""
        say(f"forecasts are {fitted.bounds.sentence()}{hint}")
    if summary["calibrated"]:
        say("\n".join(summary["calibrated"]))
        say("(each half of the held-out rows is corrected by the errors of the other half)")
    elif held is not None and held.evaluation.coverage:
        say(coverage_text(held.evaluation, "held-out values"))
    say(f"saved to {summary['saved']}" + (f", report in {summary['report']}" if summary["report"] else ""))
    if history.stopped == STOPPED_ON_REQUEST:
        say(f"the training is not finished. Resume: {resume_hint(Path(summary['saved']).parent)}")
    say(f"forecast with: {predict}")
    from neuro_divergent.forecasting.predict.ahead import asked_ahead

    if names := asked_ahead(fitted):
        schema = fitted.data.schema
        parts = [*schema.id_columns, schema.time_col, *names]
        say(f"FILE has the columns {', '.join(map(repr, parts))} for the next {fitted.model.h} steps")


def verdict(scores: list[dict[str, Any]], part: str) -> str:
    """One sentence that compares the model with the naive forecast.

    >>> verdict([{"model": "NHITS", "mae": 1.5}, {"model": "naive", "mae": 2.0}], "the last 20 % of the rows")
    'on the last 20 % of the rows (validation): mean absolute error 1.5, 25 % better than the naive forecast (2)'

    If the first row has a bias, it comes last: the sum of forecast minus actual in percent of the sum of the actual.
    """
    own, naive = float(scores[0]["mae"]), float(scores[1]["mae"])
    gain = 1 - own / naive if naive > 0 else 0.0
    how = "as good as" if abs(gain) < 0.005 else f"{abs(100 * gain):.0f} % {'better' if gain > 0 else 'worse'} than"
    beside = f"{how} the {scores[1]['model']} forecast ({naive:.4g})"
    bias = scores[0].get("bias_percent")
    off = "" if bias is None or bias != bias else f"; bias {bias:+.1f} %"
    return f"on {part} (validation): mean absolute error {own:.4g}, {beside}{off}"
