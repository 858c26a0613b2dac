"""Commands that the program suggests: complete, quoted for the shell, with the flags that table and model need."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.cli.request.shell_wording import FLAGS
from neuro_divergent.core.runs.names import COMMAND
from neuro_divergent.core.runs.process import process_of
from neuro_divergent.core.runs.read import read_run

if TYPE_CHECKING:
    from neuro_divergent.data.schema.file_format import FileFormat
    from neuro_divergent.data.schema.schema import DataSchema
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

COMMA = ","
TYPED: ContextVar[tuple[str, ...]] = ContextVar("TYPED", default=())
"""The arguments of the running command."""


def command(*parts: object) -> str:
    """A command as a person types it.

    >>> command("predict", "my runs/first", "--level", "80,95")
    "neuro-divergent predict 'my runs/first' --level 80,95"
    """
    return shlex.join(["neuro-divergent", *map(str, parts)])


def keep_command(run: Path) -> None:
    """Write the running train command into the directory of its run, for `resume_hint`."""
    from neuro_divergent.core import files

    if TYPED.get() and not process_of(run).running:
        facts = {"arguments": _given("--resume", "--overwrite"), "folder": str(Path.cwd())}
        files.write_json(run / COMMAND, facts)


def resume_hint(run: Path | str) -> str:
    """How to resume a run: the command to type, with what else it needs; in Python for a run of Python."""
    known = read_run(run).command
    if known is None:
        return "in Python, with the same model, data and configuration: model.fit(data, config, resume='auto')"
    arguments = list(known.arguments)
    if not any(part == "--out" or part.startswith("--out=") for part in arguments):
        arguments += ["--out", os.path.relpath(os.path.abspath(run), known.folder)]
    where = "" if os.path.realpath(known.folder) == os.path.realpath(".") else f" (in the directory {known.folder})"
    table = ", with the same table on standard input" if {"-", "./-"} & set(arguments) else ""
    return command(*arguments, "--resume") + table + where


def _given(*left_out: str) -> list[str]:
    return [part for part in TYPED.get() if part not in left_out]


def same_command_again() -> str:
    """The running train command, to run it again beside this run; empty for a resumed run.

    A run may be resumed with changed settings. Then no single command repeats it.
    """
    if "--resume" in TYPED.get():
        return ""
    kept: list[str] = []
    typed = iter(TYPED.get())
    for part in typed:
        if part == "--out":
            kept += [part, f"{next(typed)}-again"]
        elif part.startswith("--out="):
            kept.append(f"{part}-again")
        elif part != "--overwrite":
            kept.append(part)
    return command(*kept)


def resumed_command() -> str:
    """The running command, to go on with it later."""
    typed = TYPED.get()
    return command(*typed, *(() if "--resume" in typed else ("--resume",)))


def predict_command(fitted: Forecaster, run: Path, fields: Mapping[str, Any]) -> str:
    """The command that forecasts with a trained model. FILE stands for a table that the user has to write."""
    from neuro_divergent.data.read.load_file import FILE_FIELDS
    from neuro_divergent.forecasting.evaluate.held_out import interval_levels
    from neuro_divergent.forecasting.predict.ahead import asked_ahead

    parts: list[object] = ["predict", run]
    if levels := sorted(interval_levels(fitted)):
        parts += ["--level", COMMA.join(f"{level:g}" for level in levels)]
    if asked_ahead(fitted):
        layout = {name: fields[name] for name in FILE_FIELDS if name in fields}
        parts += ["--future", "FILE", *table_flags(layout)]
    return command(*parts)


def cv_command(table: Path, fitted: Forecaster, fields: Mapping[str, Any]) -> str:
    """The command that tests a model on several cutoffs of a table."""
    model = fitted.model
    sizes = ("--h", model.h, "--input-size", model.input_size)
    return command("cv", table, "--models", model.kind.lower(), *sizes, *table_flags(fields))


def fields_of(schema: DataSchema) -> dict[str, Any]:
    """The fields that were given when a table was read, without the detected ones."""
    found: dict[str, Any] = {}
    for name, field in type(schema).model_fields.items():
        value = getattr(schema, name)
        if name not in schema.found_when_loading and value != field.get_default(call_default_factory=True):
            found[name] = value
    if found.pop("id_parts", ()):
        found["id_col"] = COMMA.join(schema.id_parts)
    if found.pop("time_parts", ()):
        found["time_col"] = COMMA.join(schema.time_parts)
    return found


def marks_of(file: FileFormat | None) -> dict[str, Any]:
    """The marks in the numbers and the form of the times of a file. The cells alone may not decide them.

    >>> from neuro_divergent.data.schema.file_format import FileFormat
    >>> marks_of(FileFormat(thousands=",", separator=";")), marks_of(None)
    ({'decimal_comma': False, 'thousands': ','}, {})
    """
    if file is None:
        return {}
    plain = (file.decimal, file.thousands) == (".", "")
    marks: dict[str, Any] = {} if plain else {"decimal_comma": file.decimal == ",", "thousands": file.thousands}
    marks |= {} if file.header_line else {"header_line": 0}
    return marks | ({} if file.time_format is None else {"time_format": file.time_format})


def table_flags(fields: Mapping[str, Any]) -> list[str]:
    """The flags for fields of a run file's data section.

    >>> table_flags({"time_col": "Day", "future": ["price", "promo"], "separator": ";"})
    ['--time', 'Day', '--future', 'price,promo', '--set', 'data.separator=;']
    """
    return [part for name, value in fields.items() if name != "file" for part in _flag(f"data.{name}", value)]


def _flag(field: str, value: Any) -> Iterator[str]:
    several = isinstance(value, Sequence) and not isinstance(value, str)
    if field in FLAGS and value is None:
        yield from (FLAGS[field], "none")
    elif field in FLAGS:
        yield from (FLAGS[field], COMMA.join(map(str, value)) if several else str(value))
    else:
        yield from ("--set", f"{field}={_yaml(list(value) if several else value)}")


def _yaml(value: Any) -> str:
    """A value as text that --set reads back as the same value.

    >>> _yaml(";"), _yaml("12"), _yaml(True), _yaml("\\t")
    (';', '"12"', 'true', '"\\\\t"')
    """
    from neuro_divergent.core.errors import ConfigError
    from neuro_divergent.core.yaml import parse_yaml

    if not isinstance(value, str) or not value.isprintable():
        return json.dumps(value)
    try:
        plain = parse_yaml(value) == value
    except ConfigError:
        plain = True  # --set reads invalid YAML as text
    return value if plain else json.dumps(value)
