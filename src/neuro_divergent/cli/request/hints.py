"""Commands that the program suggests: complete, quoted for the shell, with the flags that table and model need."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.cli.request.shell_wording import FLAGS

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
    marks = {} if plain else {"decimal_comma": file.decimal == ",", "thousands": file.thousands}
    return marks | ({} if file.time_format is None else {"time_format": file.time_format})


def table_flags(fields: Mapping[str, Any]) -> list[str]:
    """The flags for fields of a run file's data section.

    >>> table_flags({"time_col": "Day", "future": ["price", "promo"], "separator": ";"})
    ['--time', 'Day', '--future', 'price,promo', '--set', 'data.separator=;']
    """
    return [part for name, value in fields.items() if name != "file" for part in _flag(f"data.{name}", value)]


def _flag(field: str, value: Any) -> Iterator[str]:
    several = isinstance(value, Sequence) and not isinstance(value, str)
    if field in FLAGS:
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
