"""Tables that commands write: as files, as CSV, and aligned for a person."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.cli.io.terminal import table

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.forecasting.evaluate.scores import Evaluation


def as_polars(frame: Any) -> pl.DataFrame:
    """A forecast, in the data frame of any library, as a polars table."""
    import polars as pl

    if isinstance(frame, pl.DataFrame):
        return frame
    return pl.DataFrame(frame) if isinstance(frame, dict) else pl.from_pandas(frame)


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write a table as CSV or Parquet, as the name says: the whole file or nothing."""
    from neuro_divergent.core import files

    if path.suffix == ".csv":
        files.write_text(path, as_csv(frame))
        return
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    files.write_bytes(path, buffer.getvalue())


def as_csv(frame: pl.DataFrame) -> str:
    """A table as CSV. Times have fractions of a second only if there are any."""
    return _readable(frame).write_csv()


def _readable(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Datetime) and not (frame[name].dt.nanosecond() != 0).any():
            form = "%Y-%m-%d %H:%M:%S" + ("%:z" if kind.time_zone else "")
            frame = frame.with_columns(pl.col(name).dt.to_string(form))
    return frame


def aligned(frame: pl.DataFrame) -> str:
    """A table for a person: text aligned left, numbers aligned right with six digits."""
    shown = _readable(frame)
    numbers = [kind.is_numeric() for kind in shown.schema.values()]
    left = numbers.index(True) if True in numbers else len(numbers)
    rows = [[_six_digits(value) for value in row] for row in shown.iter_rows()]
    return table(shown.columns, rows, left=left)


def _six_digits(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def score_text(scores: pl.DataFrame) -> str:
    """An aligned table of metrics, one row per model."""
    names = [name for name in scores.columns if name != "model"]
    rows = [[str(row["model"]), *(_four_digits(row[name]) for name in names)] for row in scores.iter_rows(named=True)]
    return table(["model", *names], rows)


def _four_digits(value: Any) -> str:
    return "-" if value is None or value != value else f"{value:.4g}"


def coverage_text(found: Evaluation, what: str = "values") -> str:
    """The measured coverage of every interval, one line each. The model is named if there are several."""
    names = {interval.model for interval in found.coverage}
    return "\n".join(
        (f"{interval.model}: " if len(names) > 1 else "") + interval.sentence(what) for interval in found.coverage
    )


def coverage_facts(found: Evaluation) -> list[dict[str, Any]]:
    """The measured coverage for JSON. Shares are between 0 and 1."""
    return [
        {"model": item.model, "level": item.level, "coverage": item.inside / item.values, "values": item.values}
        for item in found.coverage
    ]
