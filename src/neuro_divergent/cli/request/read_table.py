"""Reading the table of a command; what is wrong with it is said in the command line's words."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.cli.request.guess_roles import Guess, guess, is_parquet, peek
from neuro_divergent.core.errors import ConfigError, DataError, NeuroDivergentError

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.data.schema.schema import DataSchema
    from neuro_divergent.data.table import TimeSeriesDataFrame

HOLES = 4
"""How many times as many rows may be absent as there are, before a table is refused."""
COMMA, TIE = ",", "/"
FILE_FIELDS = ("separator", "encoding", "decimal_comma")


def table_path(data: Path | None, fields: dict[str, Any]) -> Path:
    """The file of the command, or of the run file's data section."""
    if data is not None:
        return data
    if not fields.get("file"):
        raise ConfigError(
            "which table? Give a CSV or Parquet file, or a run file whose data section names one (file: ...)"
        )
    path = Path(str(fields["file"]))
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ConfigError(f"the table of a run file must be a file, but {path} is a pipe or a device")
    return path


def read_table(path: Path, fields: dict[str, Any]) -> TimeSeriesDataFrame:
    """A CSV or Parquet file by its name, its columns as the fields of `DataSchema` say."""
    from neuro_divergent.data.schema.schema import DataSchema
    from neuro_divergent.data.table import TimeSeriesDataFrame

    options = {name: value for name, value in fields.items() if name != "file"}
    layout = {name: options.pop(name) for name in FILE_FIELDS if name in options}
    DataSchema.from_dict(options)  # a misspelt field is better refused before the file is read
    with _warned_if_accepted("neuro_divergent.data.read.row_layout"):
        try:
            if COMMA in str(options.get("id_col", "")):
                frame = _frame(path, layout)
                options["id_col"] = joined_name(str(options["id_col"]))
                table = TimeSeriesDataFrame.from_frame(_joined(frame, options["id_col"]), **options)
            elif is_parquet(path):
                table = TimeSeriesDataFrame.from_parquet(path, **options)
            else:
                table = TimeSeriesDataFrame.from_csv(path, **layout, **options)
        except DataError as error:
            raise advised(error, path, fields) from None
        if "gaps" not in fields:
            _refuse_holes(table, path)
    return table


@contextmanager
def _warned_if_accepted(name: str) -> Iterator[None]:
    """Hold back what a logger says until the table is accepted: a refusal is one sentence, not two."""
    logger = logging.getLogger(name)
    records: list[logging.LogRecord] = []

    def hold(record: logging.LogRecord) -> bool:
        records.append(record)
        return False

    logger.addFilter(hold)
    try:
        yield
    finally:
        logger.removeFilter(hold)
    for record in records:
        logger.handle(record)


def _refuse_holes(table: TimeSeriesDataFrame, path: Path) -> None:
    """A grid that is almost empty comes from a wrong frequency, and would train on almost nothing for a long time."""
    report = table.report()
    if report.gap_rows <= HOLES * report.rows_read:
        return
    share = 100 * report.gap_rows / report.rows_stored
    said = "was found" if report.freq_inferred else "was given"
    raise DataError(
        f"the rows of {path} must be about as far apart as the frequency says, but {report.freq} {said} and "
        f"{share:.0f} % of the rows would be empty. {'Say' if report.freq_inferred else 'Leave --freq out, or say'} "
        "the true distance of two rows, such as --freq 1d; if the holes are meant, say --set data.gaps=mask"
    )


def read_again(path: Path, schema: DataSchema, fields: dict[str, Any]) -> TimeSeriesDataFrame:
    """Newer rows, or other series, of the kind that a model was trained on."""
    from neuro_divergent.data.table import TimeSeriesDataFrame

    layout = _layout(fields)
    if TIE in schema.id_col:
        return TimeSeriesDataFrame.from_frame(_joined(_frame(path, layout), schema.id_col), schema=schema)
    if is_parquet(path):
        return TimeSeriesDataFrame.from_parquet(path, schema=schema)
    return TimeSeriesDataFrame.from_csv(path, schema=schema, **layout)


def read_ahead(path: Path, schema: DataSchema, fields: dict[str, Any]) -> pl.DataFrame:
    """The columns known ahead, their series named as in the table that a model was trained on."""
    return _joined(_frame(path, _layout(fields)), schema.id_col)


def _layout(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that say how a file is written; all others are about its columns."""
    return {name: fields[name] for name in FILE_FIELDS if name in fields}


def joined_name(columns: str) -> str:
    """The one column that several make, which its parts can be read from again.

    >>> joined_name("store, product")
    'store/product'
    """
    return TIE.join(part.strip() for part in columns.split(COMMA))


def _joined(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """The table with its series named by several columns together; as it is where one of them is not there."""
    import polars as pl

    parts = name.split(TIE)
    if name in frame.columns or not set(parts) <= set(frame.columns):
        return frame
    tied = pl.concat_str([pl.col(part).cast(pl.String) for part in parts], separator=TIE).alias(name)
    return frame.select(tied, *(column for column in frame.columns if column not in parts))


def _frame(path: Path, layout: dict[str, Any]) -> pl.DataFrame:
    from neuro_divergent.data.read.files import read_csv, scan_parquet

    return scan_parquet(path).collect() if is_parquet(path) else read_csv(path, **layout)


def advised(error: DataError, path: Path, fields: dict[str, Any]) -> DataError:
    """The error, with the flags that would probably mend it in place of advice for Python."""
    try:
        frame = peek(path, fields)
    except (NeuroDivergentError, OSError):
        return error
    found = guess(frame)
    time, target = fields.get("time_col", "ds"), fields.get("target_col", "y")
    absent = [name for name in (time, target) if name not in found.columns]
    if absent and not fields.get("wide"):
        return DataError(_absent(path, absent, found, fields))
    named = str(fields.get("id_col", "unique_id"))
    lost = [name for name in map(str.strip, named.split(COMMA)) if name not in found.columns]
    if lost and "id_col" in fields:
        return DataError(_absent(path, lost, found, fields))
    if found.id is not None and found.id != named and found.time == time and (lost or error.rule == "one row per time"):
        return DataError(f"{str(error).rstrip('.')}. {naming(found.id)}", **error.facts)
    return error


def naming(columns: str) -> str:
    """How to say which columns name the series.

    >>> naming("store,product")
    "If the columns 'store', 'product' together name the series, say --id store,product."
    """
    names = columns.split(COMMA)
    which = ", ".join(map(repr, names))
    what = f"column {which} names" if len(names) == 1 else f"columns {which} together name"
    return f"If the {what} the series, say {flag('--id', columns)}."


def _absent(path: Path, absent: list[str], found: Guess, fields: dict[str, Any]) -> str:
    names = " and ".join(repr(name) for name in absent)
    columns = ", ".join(repr(name) for name in found.columns[:20])
    flags = [
        flag(name, value)
        for name, field, default, value in (
            ("--time", "time_col", "ds", found.time),
            ("--target", "target_col", "y", found.target),
            ("--id", "id_col", "unique_id", found.id),
        )
        if value is not None and value != fields.get(field, default)
    ]
    advice = f"Probably: {' '.join(flags)}" if flags else "Name them with --time NAME --target NAME"
    more = " ..." if len(found.columns) > 20 else ""
    return f"{path} must have the column{'s' if len(absent) > 1 else ''} {names}, but it has {columns}{more}. {advice}"


def flag(name: str, value: str) -> str:
    """A flag as it is typed."""
    return f"{name} {shlex.quote(value)}"
