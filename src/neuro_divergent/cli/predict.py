"""`neuro-divergent predict`: forecasts of a saved model, as CSV on standard output or as a file."""

from __future__ import annotations

from pathlib import Path

from neuro_divergent.cli.output import say
from neuro_divergent.core.errors import ConfigError


def predict(model: Path, data: Path | None = None, /, *, level: str | None = None, out: Path | None = None) -> None:
    """Forecast with a saved model.

    Parameters
    ----------
    model
        The directory of a saved model, or of a run.
    data
        Newer rows or other series; without it the forecast follows the training data.
    level
        Prediction intervals in percent, such as 80,95.
    out
        A .csv or .parquet file; without it the forecast is printed as CSV.
    """
    import polars as pl

    from neuro_divergent.cli.train import read_table
    from neuro_divergent.core import files
    from neuro_divergent.forecasting.storage import load

    fitted = load(model / "model" if (model / "model").is_dir() else model)
    table = None if data is None else read_table(data, schema=fitted.data.schema)
    forecast = fitted.predict(table, level=_levels(level))
    if not isinstance(forecast, pl.DataFrame):
        forecast = pl.DataFrame(forecast) if isinstance(forecast, dict) else pl.from_pandas(forecast)
    if out is None:
        say(forecast.write_csv().rstrip("\n"))
    elif out.suffix == ".csv":
        files.write_text(out, forecast.write_csv())
    elif out.suffix == ".parquet":
        import io

        buffer = io.BytesIO()
        forecast.write_parquet(buffer)
        files.write_bytes(out, buffer.getvalue())
    else:
        raise ConfigError(f"--out must end in .csv or .parquet, but got {str(out)!r}")


def _levels(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--level takes percentages such as 80,95, but got {text!r}") from None
