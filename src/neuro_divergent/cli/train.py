"""`neuro-divergent train`: a table, a model, a run directory."""

from __future__ import annotations

import os
import shlex
import sys
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.options import Columns, Settings, Training, describe, levels, sections, train_config
from neuro_divergent.cli.output import note, say, say_json, sparkline
from neuro_divergent.cli.tables import read_table, table_path
from neuro_divergent.core.errors import ConfigError, DataError, StorageError

if TYPE_CHECKING:
    from neuro_divergent.data.frame import TimeSeriesDataFrame
    from neuro_divergent.forecasting.forecaster import Forecaster

SHOWN_SERIES = 3


def train(
    data: Path | None = None,
    /,
    *,
    model: str | None = None,
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
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train a model on a table; save it with its history and a report.

    Parameters
    ----------
    data
        A CSV or Parquet file; may also be named in the run file.
    model
        The model's name, nhits unless given; `neuro-divergent models` lists them.
    h
        How many steps ahead to forecast.
    input_size
        How many past steps the model sees; about four horizons unless given.
    config
        A run file (YAML or JSON) with data, model and training fields; `neuro-divergent init` writes one.
    set
        One field, such as training.max_epochs=20, model.scaler=robust or data.gaps=linear; may be repeated.
    out
        The run's directory; runs/TABLE-MODEL unless given.
    overwrite
        Replace a run that is there already.
    resume
        Go on from the last checkpoint in OUT, with the same bits as if nothing had happened; start if there is none.
    report
        Write OUT/report.html.
    json
        Print JSON for machines.
    """
    named = {"kind": model, "h": h, "input_size": input_size}
    flags = {
        "data": columns.fields(),
        "model": {name: value for name, value in named.items() if value is not None},
        "training": training.fields(),
    }
    fields = sections(config, flags, set)
    if "h" not in fields["model"]:
        raise ConfigError("how far ahead? Give the number of steps, such as --h 28")
    levels(training.level)
    path = table_path(data, fields["data"])
    described = describe({**fields, "model": {"input_size": 1} | fields["model"]})
    train_config(fields, described, training.level, None)  # what is wrong with the request is said before the work
    table = read_table(path, fields["data"])
    directory = run_directory(out, path, described.kind, overwrite=overwrite or resume)
    show = note if json else say
    show(str(table.report()))
    _show_series(table, show)
    check_horizon(table, described.h)
    if "input_size" not in fields["model"]:
        described = described.replace(input_size=lookback(table, described.h))
        show(f"input_size is {described.input_size}: the model sees that many past steps (--input-size)")
    settings = train_config(fields, described, training.level, directory)
    begun = clock.perf_counter()
    how: dict[str, Any] = {"short": fields["data"]["short"]} if "short" in fields["data"] else {}
    fitted = described.fit(table, settings, resume="auto" if resume else None, **how)
    seconds = clock.perf_counter() - begun
    fitted.save(directory / "model", overwrite=overwrite or resume or out is None)
    written = _write_report(fitted, directory, path, seconds) if report else None
    summary = _summary(fitted, directory, written, seconds)
    if json:
        say_json(summary)
        return
    _say_summary(fitted, summary)


def run_directory(out: Path | None, data: Path, kind: str, *, overwrite: bool) -> Path:
    """Where the run goes, made and found writable before the training begins; a free name unless one was given."""
    directory = out
    if directory is None:
        directory = first = Path("runs") / f"{data.stem or 'table'}-{kind.lower()}"
        number = 2
        while not overwrite and directory.exists() and any(directory.iterdir()):
            directory = first.with_name(f"{first.name}-{number}")
            number += 1
    elif (directory / "model").exists() and not overwrite:
        raise ConfigError(f"{directory / 'model'} exists already. Choose another --out, or say --overwrite or --resume")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        writable = os.access(directory, os.W_OK)
    except OSError as error:
        raise StorageError(
            f"the run's directory {directory} cannot be made: {error.strerror}. Choose another --out"
        ) from None
    if not writable:
        raise StorageError(f"the run's directory {directory} cannot be written to. Choose another --out")
    return directory


def lookback(table: TimeSeriesDataFrame, h: int) -> int:
    """Four horizons, or two seasons if that is more; less where the series are too short for it."""
    import numpy as np

    from neuro_divergent.forecasting.naive import season_of

    wanted = max(4 * h, 2 * season_of(table.store), 8)
    longest = int(np.max(table.store.lengths))
    # A fifth is held back for validation, and each of the two parts needs a horizon of its own.
    fits = int(0.8 * longest) - 2 * h
    return max(1, min(wanted, max(fits, h)))


def check_horizon(table: TimeSeriesDataFrame, h: int) -> None:
    """Refuse a horizon that no series is long enough for, with one that fits."""
    longest = int(table.store.lengths.max())
    if longest < 2 * h + 2:
        raise DataError(
            f"a horizon of {h} steps needs series of at least {2 * h + 2} rows, but the longest has {longest}. "
            f"Ask for fewer steps: --h {max(1, longest // 4)} would fit"
        )


def _show_series(table: TimeSeriesDataFrame, show: Any) -> None:
    from neuro_divergent.forecasting.pictures import recent

    if not sys.stdout.isatty() and not sys.stderr.isatty():
        return
    names = [str(name) for name in table.ids[:SHOWN_SERIES]]
    width = max(map(len, names), default=0)
    for number, name in enumerate(names):
        _, values = recent(table, number, int(table.store.lengths[number]))
        show(f"  {name.ljust(width)}  {sparkline(values.tolist())}")


def _write_report(fitted: Forecaster, directory: Path, data: Path, seconds: float) -> Path:
    from neuro_divergent.report import training_report

    path = directory / "report.html"
    command = shlex.join(["neuro-divergent", *sys.argv[1:]])
    training_report(fitted, source=str(data), command=command, seconds=seconds).save(path)
    return path


def _summary(fitted: Forecaster, directory: Path, report: Path | None, seconds: float) -> dict[str, Any]:
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
        "seconds": round(seconds, 3),
        "saved": str(directory / "model"),
        "report": None if report is None else str(report),
    }


def _say_summary(fitted: Forecaster, summary: dict[str, Any]) -> None:
    history = fitted.history
    losses = history.validation_loss or history.train_loss
    say(f"{fitted!r} trained in {summary['seconds']:.1f} s: {history.stopped}")
    if losses:
        which = "validation loss" if history.validation_loss else "training loss"
        say(f"{which} {sparkline(losses)} {losses[0]:.4g} → {min(losses):.4g}")
    say(f"saved to {summary['saved']}" + (f", report in {summary['report']}" if summary["report"] else ""))
    wanted = " --level 80,95" if fitted.loss.probabilistic else ""
    say(f"forecast with: neuro-divergent predict {Path(summary['saved']).parent}{wanted}")
