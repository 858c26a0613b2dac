"""`neuro-divergent predict`: forecasts of a saved model, as CSV on standard output or as a file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.options import Settings, levels, sections
from neuro_divergent.cli.output import note, say, say_json
from neuro_divergent.cli.tables import read_again
from neuro_divergent.core.errors import ConfigError, StorageError

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.forecasting.forecaster import Forecaster


def predict(
    model: Path,
    data: Path | None = None,
    /,
    *,
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
    level
        Prediction intervals in percent, such as 80,95.
    future
        A CSV or Parquet file with the columns known ahead, for every step of the horizon.
    out
        A .csv or .parquet file; without it the forecast is printed as CSV.
    set
        How the file is written: data.separator=";", data.encoding=latin-1 or data.decimal_comma=true.
    json
        Print JSON for machines.
    """
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise ConfigError(f"--out must end in .csv or .parquet, but got {str(out)!r}")
    wanted = levels(level)
    layout = sections(None, {}, set)["data"]
    fitted = load_model(model)
    table = None if data is None else read_again(data, fitted.data.schema, layout)
    ahead = None if future is None else _frame_of(future, layout)
    forecast = as_polars(fitted.predict(table, level=wanted, future=ahead))
    if out is not None:
        write_frame(out, forecast)
        note(f"{len(forecast):,} rows written to {out}")
    elif json:
        say_json(forecast.to_dicts())
    else:
        say(forecast.write_csv().rstrip("\n"))


def load_model(path: Path) -> Forecaster:
    """A saved model, or the model of a run."""
    from neuro_divergent.forecasting.forecaster import Forecaster
    from neuro_divergent.forecasting.storage import load

    if not path.exists():
        raise StorageError(
            f"{path} must be the directory of a saved model or of a run, but there is none. Check the path"
        )
    loaded: Any = load(path / "model" if (path / "model").is_dir() else path)
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
        files.write_text(path, frame.write_csv())
        return
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    files.write_bytes(path, buffer.getvalue())


def _frame_of(path: Path, layout: dict[str, Any]) -> Any:
    from neuro_divergent.cli.guess import is_parquet
    from neuro_divergent.data.io import read_csv, scan_parquet

    return scan_parquet(path).collect() if is_parquet(path) else read_csv(path, **layout)
