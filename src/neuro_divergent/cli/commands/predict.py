"""`neuro-divergent predict`: forecast with a saved model; CSV on standard output, or a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from neuro_divergent.cli.io.output_paths import table_file
from neuro_divergent.cli.io.tables_out import aligned, as_csv, as_polars, write_frame
from neuro_divergent.cli.io.terminal import note, say, say_json
from neuro_divergent.cli.request.read_table import read_again, read_ahead
from neuro_divergent.cli.request.run_file import Settings, levels, sections
from neuro_divergent.cli.request.saved_model import load_model


def predict(
    model: Path,
    data: Path | None = None,
    /,
    *,
    h: int | None = None,
    level: str | None = None,
    point: Literal["mean", "median"] | None = None,
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
        Newer rows or other series. Without it the forecast follows the training data.
    h
        How many steps to forecast. Default: the horizon of the training. Beyond it, forecasts are fed back as input.
    level
        Prediction intervals in percent, such as 80,95.
    point
        Whether the point forecast is the mean or the median of the forecast distribution. Default: as trained.
    future
        A CSV or Parquet file with the columns known ahead, for every step of the horizon.
    out
        A .csv or .parquet file. Without it the forecast is printed, as CSV if the output is a pipe.
    set
        The format of the file, if it differs from the training file: data.separator=";", data.encoding=latin-1,
        data.decimal_comma=true, data.time_format=%d.%m.%Y.
    json
        Print JSON.
    """
    table_file(out)
    wanted = levels(level)
    layout = sections(None, {}, set)["data"]
    fitted = load_model(model, "predict")
    table = None if data is None else read_again(data, fitted.data.schema, layout)
    ahead = None if future is None else read_ahead(future, fitted.data.schema, layout)
    forecast = as_polars(fitted.predict(table, level=wanted, future=ahead, h=h, point=point))
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
