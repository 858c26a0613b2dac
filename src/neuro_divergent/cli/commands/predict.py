"""`neuro-divergent predict`: forecasts of a saved model, as CSV on standard output or as a file."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.output_paths import table_file
from neuro_divergent.cli.io.terminal import note, say, say_json
from neuro_divergent.cli.io.terminal import table as text_table
from neuro_divergent.cli.request.read_table import read_again, read_ahead
from neuro_divergent.cli.request.run_file import Settings, levels, sections
from neuro_divergent.core.errors import ConfigError, StorageError
from neuro_divergent.core.runs.names import CHECKPOINTS, MODEL

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.forecasting.predict.forecaster import Forecaster


def predict(
    model: Path,
    data: Path | None = None,
    /,
    *,
    h: int | None = None,
    level: str | None = None,
    future: Path | None = None,
    out: Path | None = None,
    set: Settings = (),  # noqa: A002
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Forecast with a saved model.

    Parameters
    ----------
    model
        The directory of a run, or of a saved model.
    data
        Newer rows or other series; without it the forecast follows the training data.
    h
        How many steps; as many as were trained for unless given. More than those feed forecasts back.
    level
        Prediction intervals in percent, such as 80,95.
    future
        A CSV or Parquet file with the columns known ahead, for every step of the horizon.
    out
        A .csv or .parquet file; without it the forecast is printed, as CSV to a pipe.
    set
        How the file is written: data.separator=";", data.encoding=latin-1 or data.decimal_comma=true.
    json
        Print JSON for machines.
    """
    table_file(out)
    wanted = levels(level)
    layout = sections(None, {}, set)["data"]
    fitted = load_model(model)
    table = None if data is None else read_again(data, fitted.data.schema, layout)
    ahead = None if future is None else read_ahead(future, fitted.data.schema, layout)
    forecast = as_polars(fitted.predict(table, level=wanted, future=ahead, h=h))
    if out is not None:
        write_frame(out, forecast)
        note(f"{len(forecast):,} rows with the columns {', '.join(forecast.columns)} written to {out}")
        if json:
            say_json({"written": str(out), "rows": len(forecast), "columns": forecast.columns})
    elif json:
        say_json(forecast.to_dicts())
    elif sys.stdout.isatty():
        say(aligned(forecast))
    else:
        say(as_csv(forecast).rstrip("\n"))


def load_model(path: Path) -> Forecaster:
    """A saved model, or the model of a run."""
    from neuro_divergent.core import files
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.forecasting.storage.save_load import load

    if not files.present(path).exists():
        raise StorageError(
            f"{path} must be the directory of a saved model or of a run, but there is none. Check the path"
        )
    if not files.present(path).is_dir():
        raise ConfigError(
            f"{path} must be the directory of a saved model or of a run, but it is a file. "
            "Name the model first, then the table: neuro-divergent predict runs/NAME TABLE"
        )
    if (path / CHECKPOINTS).is_dir() and not files.present(path / MODEL).is_dir():
        raise StorageError(
            f"{path} is a run whose model is not there yet: it was stopped, or is still at work. Train it to its end: "
            "the same train command with --resume"
        )
    loaded: Any = load(path)
    if not isinstance(loaded, Forecaster):
        raise ConfigError(f"{path} holds several models. Name the directory of one of them")
    return loaded


def as_polars(frame: Any) -> pl.DataFrame:
    """A forecast of any library as a polars table."""
    import polars as pl

    if isinstance(frame, pl.DataFrame):
        return frame
    return pl.DataFrame(frame) if isinstance(frame, dict) else pl.from_pandas(frame)


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """A table as the file that its name says, whole or not at all."""
    from neuro_divergent.core import files

    if path.suffix == ".csv":
        files.write_text(path, as_csv(frame))
        return
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    files.write_bytes(path, buffer.getvalue())


def as_csv(frame: pl.DataFrame) -> str:
    """A table as CSV; times as they are usually written, with parts of a second only where there are some."""
    return _readable(frame).write_csv()


def _readable(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Datetime) and not (frame[name].dt.nanosecond() != 0).any():
            form = "%Y-%m-%d %H:%M:%S" + ("%:z" if kind.time_zone else "")
            frame = frame.with_columns(pl.col(name).dt.to_string(form))
    return frame


def aligned(frame: pl.DataFrame) -> str:
    """A table for a person: texts to the left, numbers to the right in six digits."""
    shown = _readable(frame)
    numbers = [kind.is_numeric() for kind in shown.schema.values()]
    left = numbers.index(True) if True in numbers else len(numbers)
    rows = [[_cell(value) for value in row] for row in shown.iter_rows()]
    return text_table(shown.columns, rows, left=left)


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
