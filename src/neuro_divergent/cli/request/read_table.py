"""Reads the table of a command. Errors name flags instead of Python arguments."""

from __future__ import annotations

import io
import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from neuro_divergent.cli.request.findings import LENIENT, Finding, findings
from neuro_divergent.core.errors import ConfigError, DataError, NeuroDivergentError

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.data.read.sniff.unpack import Source
    from neuro_divergent.data.schema.file_format import FileFormat
    from neuro_divergent.data.schema.schema import DataSchema
    from neuro_divergent.data.table import TimeSeriesDataFrame

HOLES = 4
"""A table is refused if it has more than this many missing rows per existing row."""
STANDARD_INPUT = "-"


def table_path(data: Path | None, fields: dict[str, Any]) -> Path:
    """The table that the command names, or the one in the data section of the run file."""
    if data is not None:
        return data
    if not fields.get("file"):
        raise ConfigError(
            "a table is required, but none is given. Give a CSV, Parquet or .xlsx file, - for standard input, or a run "
            "file whose data section names one (file: ...)"
        )
    path = Path(str(fields["file"]))
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ConfigError(f"the table of a run file must be a file, but {path} is a pipe or a device")
    return path


class Examined(NamedTuple):
    """A table and all findings about it."""

    table: TimeSeriesDataFrame
    findings: list[Finding]
    error: DataError | None = None
    """Why the table is refused. Its bad rows were then repaired, so that all problems could be found."""


def read_table(path: Path, fields: dict[str, Any]) -> TimeSeriesDataFrame:
    """The table of a command. One error lists all reasons to refuse it."""
    table, found, error = examine(path, fields)
    refused = [item for item in found if item.refused]
    if error is not None and len(refused) < 2:
        raise error
    if refused:
        text = "\n".join(f"  {number}. {item.what}: {item.todo}" for number, item in enumerate(refused, 1))
        raise DataError(f"{path} must be corrected before it is trained on, but has {len(refused)} problems:\n{text}")
    return table


def examine(path: Path, fields: dict[str, Any]) -> Examined:
    """Read a table and list its findings. `train`, `cv` and `data check` share this, so that they agree."""
    from neuro_divergent.data.read.load_file import FILE_FIELDS
    from neuro_divergent.data.schema.schema import DataSchema

    options = {name: value for name, value in fields.items() if name != "file"}
    for name in ("id_col", "time_col"):
        if isinstance(options.get(name), str) and "," in options[name]:
            options[name] = [part.strip() for part in options[name].split(",")]
    # Refuse a misspelt field before the file is read.
    DataSchema.from_dict({name: value for name, value in options.items() if name not in FILE_FIELDS})
    source = _source(path)
    with _warned_if_accepted("neuro_divergent.data.read.row_layout"):
        try:
            table = _read(source, options)
        except DataError as error:
            return _repaired(source, options, error)
        if "gaps" not in fields:
            _refuse_holes(table, path)
    return Examined(table, findings(table.report(), fields))


def _repaired(source: Source, options: dict[str, Any], error: DataError) -> Examined:
    """The refused table with its bad rows repaired. Raises the error if repairs do not help."""
    hint = _other_keys(source, options) if error.rule == "one row per time" else ""
    told = DataError(f"{str(error).rstrip('.')}. {hint}", **error.facts) if hint else error
    lenient = {name: value for name, value in LENIENT.items() if name not in options}
    try:
        table = _read(source, lenient | options)
    except DataError:
        raise told from None
    return Examined(table, findings(table.report(), options, f"{hint} Otherwise " if hint else ""), told)


def _other_keys(source: Source, options: dict[str, Any]) -> str:
    """A hint that names columns which distinguish rows of the same time; empty if there are none."""
    from neuro_divergent.data.read.sniff.roles import find_roles

    try:
        frame = _frame(source, options, {name: value for name, value in options.items() if name != "id_col"})
    except NeuroDivergentError:
        return ""
    asked = {name: value for name, value in options.items() if name != "id_col"}
    roles = find_roles(frame.drop("unique_id", strict=False), asked)
    found, time = roles.fields.get("id_col"), roles.fields.get("time_col", asked.get("time_col", "ds"))
    if found is None or found == options.get("id_col"):
        return ""
    names = [found] if isinstance(found, str) else found
    if time not in frame.columns or frame.select(time, *names).is_duplicated().any():
        return ""
    which = ", ".join(map(repr, names))
    what = f"column {which} names" if len(names) == 1 else f"columns {which} together name"
    return f"If the {what} the series, add --id {shlex.quote(','.join(names))}."


def is_parquet(path: Path) -> bool:
    """Whether the name says Parquet: a file, a pattern or a directory of files."""
    return path.suffix.lower() in (".parquet", ".pq") or path.is_dir()


def _source(path: Path) -> Source:
    """The file of a command. Standard input is read once and kept, because it cannot be read again."""
    if str(path) != STANDARD_INPUT:
        return path
    from neuro_divergent.data.read.sniff.unpack import contents

    return io.BytesIO(contents(sys.stdin.buffer))


def _read(source: Source, options: dict[str, Any]) -> TimeSeriesDataFrame:
    from neuro_divergent.data.table import TimeSeriesDataFrame

    if isinstance(source, Path) and is_parquet(source):
        return TimeSeriesDataFrame.from_parquet(source, **_without_file_fields(options))
    return TimeSeriesDataFrame.from_csv(_again(source), **options)


def _again(source: Source) -> Source:
    if isinstance(source, io.BytesIO):
        source.seek(0)
    return source


def _without_file_fields(options: dict[str, Any]) -> dict[str, Any]:
    from neuro_divergent.data.read.load_file import FILE_FIELDS

    return {name: value for name, value in options.items() if name not in FILE_FIELDS}


def _frame(
    source: Source, fields: dict[str, Any], asked: dict[str, Any], known: FileFormat | None = None
) -> pl.DataFrame:
    """The columns of a file, with numbers and times parsed."""
    from neuro_divergent.data.read.files import scan_parquet
    from neuro_divergent.data.read.load_file import FILE_FIELDS, load_file

    if isinstance(source, Path) and is_parquet(source):
        return scan_parquet(source).collect()
    given = {name: fields[name] for name in FILE_FIELDS if name in fields}
    return load_file(_again(source), given, asked, known).frame


@contextmanager
def _warned_if_accepted(name: str) -> Iterator[None]:
    """Delay the log lines of a logger until the table is accepted: a refusal is one sentence, not two."""
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
    """Refuse a time grid that is almost empty: its frequency is wrong, and training on it would be long and useless."""
    report = table.report()
    if report.gap_rows <= HOLES * report.rows_read:
        return
    share = 100 * report.gap_rows / report.rows_stored
    said = "was found" if report.freq_inferred else "was given"
    raise DataError(
        f"the rows of {path} must be about as far apart as the frequency, but {report.freq} {said} and "
        f"{share:.0f} % of the rows would be empty. {'Say' if report.freq_inferred else 'Leave --freq out, or say'} "
        "the true frequency, such as --freq 1d; if the gaps are intended, add --set data.gaps=mask"
    )


def read_again(path: Path, schema: DataSchema, fields: dict[str, Any]) -> TimeSeriesDataFrame:
    """Newer rows, or other series, read with the schema of a trained model. `fields` change the file format."""
    from neuro_divergent.data.read.load_file import FILE_FIELDS
    from neuro_divergent.data.table import TimeSeriesDataFrame

    if is_parquet(path):
        return TimeSeriesDataFrame.from_parquet(path, schema=schema)
    layout = {name: fields[name] for name in FILE_FIELDS if name in fields}
    if fields.get("time_format") is not None:
        schema = schema.replace(time_format=fields["time_format"])
    return TimeSeriesDataFrame.from_csv(_source(path), schema=schema, **layout)


def read_ahead(path: Path, schema: DataSchema, fields: dict[str, Any]) -> pl.DataFrame:
    """The columns known ahead, read like the training file."""
    asked: dict[str, Any] = {
        "time_col": schema.time_col,
        "time_parts": schema.time_parts,
        "target_col": schema.target_col,
        "time_format": schema.time_format,
    }
    asked |= {"id_col": list(schema.id_parts) or schema.id_col, "freq": schema.freq, "time_zone": schema.time_zone}
    asked["future"] = [name for name in schema.future if name not in schema.categorical]
    return _frame(_source(path), fields, asked | {"categorical": list(schema.categorical)}, schema.file)
