"""`neuro-divergent init`: write a commented run file for a table, with the detected settings filled in."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.terminal import aside, say, say_json
from neuro_divergent.cli.request.hints import command, marks_of
from neuro_divergent.cli.request.horizon import lookback
from neuro_divergent.cli.request.read_table import read_table
from neuro_divergent.cli.request.run_file import Columns, ModelNames, Settings, levels, sections
from neuro_divergent.cli.request.shell_wording import spelled
from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import StorageError

if TYPE_CHECKING:
    from neuro_divergent.core.config import Description
    from neuro_divergent.data.table import TimeSeriesDataFrame

WIDTH = 118
_FOUND = "Found when loading"


def init(
    data: Path,
    /,
    *,
    model: ModelNames = "nhits",
    h: int | None = None,
    level: str | None = None,
    columns: Columns = Columns(),  # noqa: B008  # frozen
    set: Settings = (),  # noqa: A002
    out: Path = Path("run.yaml"),
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Write a commented run file for a table: columns, frequency, season and sizes filled in, every field explained.

    Parameters
    ----------
    data
        A CSV, Parquet or .xlsx file.
    model
        The model to describe; `neuro-divergent models` lists them.
    h
        How many steps ahead to forecast. Default: proposed from the season.
    level
        Prediction intervals in percent, such as 80,95.
    set
        Set one field of the data, such as data.separator=";". May be repeated.
    out
        The file to write.
    overwrite
        Replace the file if it exists.
    json
        Print JSON.
    """
    from neuro_divergent.core import files, registry
    from neuro_divergent.data.time import seasonality
    from neuro_divergent.forecasting.fit.training_rows import training_rows
    from neuro_divergent.forecasting.model.model import Model
    from neuro_divergent.training.config.training_config import TrainingConfig

    if out.exists() and not overwrite:
        raise StorageError(f"{out} exists already. Choose another --out, or say --overwrite")
    registry.resolve("model", model)
    h = None if h is None else at_least_one("h", h)
    fields = sections(None, {"data": columns.fields()}, set)["data"]
    table = read_table(data, fields)
    fields = _found(table) | fields
    store = table.store
    shortest = Model.from_dict({"kind": model, "h": h or 1, "input_size": 1})
    rows = training_rows(shortest, store, TrainingConfig())  # held-out rows must not influence the proposal
    seasons = seasonality.detect(store.y, store.offsets, store.mask, table.freq, rows=rows)
    steps = h or proposed_horizon(table, seasons)
    size = lookback(table, steps, rows)
    anchor = "auto" if seasons else None
    described = Model.from_dict({"kind": model, "h": steps, "input_size": size, "anchor": anchor})
    training: dict[str, Any] = {"seed": 1}
    if level is not None:
        training["loss"] = {"kind": "MQLoss", "level": levels(level)}
    TrainingConfig.from_dict(training)
    chosen = {name: getattr(described, name) for name in ("h", "input_size", "anchor")}
    files.write_text(out, _document(data, table, fields, {"kind": described.kind} | chosen, training, out))
    summary = {"written": str(out), "data": {"freq": table.freq} | fields, "seasons": list(seasons)} | chosen
    if json:
        say_json(summary)
        return
    aside(json)("\n".join(table.report().lines(spelled)))
    aside(json)(f"seasons found: {', '.join(map(str, seasons))} steps" if seasons else "no season found")
    say(
        f"written: {out} ({described.kind}, h {steps}, input_size {size}); "
        f"train with: {command('train', '--config', out)}"
    )


def proposed_horizon(table: TimeSeriesDataFrame, seasons: tuple[int, ...]) -> int:
    """One season. Without a season, a usual horizon for the frequency. Never more than a tenth of the rows."""
    from neuro_divergent.data.time import seasonality

    usual = seasons or seasonality.suggest(table.freq)
    most = max(1, int(table.store.lengths.max()) // 10)
    return max(1, min(usual[0] if usual else 12, most))


def _found(table: TimeSeriesDataFrame) -> dict[str, Any]:
    """The columns of the table, and the file format where it differs from the defaults."""
    schema, usual = table.schema, type(table.schema)()
    keys: Any = list(schema.id_parts) or schema.id_col
    times: Any = list(schema.time_parts) or schema.time_col
    roles = {"id_col": keys, "time_col": times, "target_col": schema.target_col, "wide": schema.wide}
    found = {name: value for name, value in roles.items() if value != getattr(usual, name)}
    if schema.id_type == "none":
        found.pop("id_col", None)
    if schema.file is None:
        return found
    file = schema.file
    written = {"separator": file.separator, "encoding": file.encoding, "header_line": file.header_line}
    found |= {name: value for name, value in written.items() if value != getattr(type(file)(), name)}
    return found | marks_of(file)


def _document(
    data: Path,
    table: TimeSeriesDataFrame,
    fields: dict[str, Any],
    model: dict[str, Any],
    training: dict[str, Any],
    out: Path,
) -> str:
    from neuro_divergent.core import registry
    from neuro_divergent.data.read.load_file import FILE_FIELDS
    from neuro_divergent.data.schema.schema import DataSchema
    from neuro_divergent.training.config.training_config import TrainingConfig

    cls = registry.resolve("model", str(model["kind"]))
    ignored = table.report().ignored_columns
    hint = [f"# Columns without a role so far: {', '.join(ignored)}"] if ignored else []
    head = [
        "# A run: the table, the model and the training. A line that begins with # shows a default; remove the # to",
        f"# change it. Train with: {command('train', '--config', out)}",
        "",
        "data:",
        "  # The table: a CSV or Parquet file.",
        f"  file: {_yaml(os.fspath(data))}",
        *(f"  {line}" for line in hint),
        *(f"  {name}: {_yaml(fields[name])}" for name in FILE_FIELDS if name in fields),
    ]
    given = {name: value for name, value in fields.items() if name not in FILE_FIELDS} | {"freq": table.freq}
    parts = [*head, *_section(DataSchema, given), "", "model:", *_section(cls, model), "", "training:"]
    return "\n".join([*parts, *_section(TrainingConfig, training)]) + "\n"


def _section(cls: type[Description], given: Mapping[str, Any]) -> list[str]:
    """Every field with its explanation: given fields are set, the others are comments with their defaults."""
    from neuro_divergent.core.config import encode, field_docs

    docs = field_docs(cls)
    lines = [] if "kind" not in given else [f"  kind: {given['kind']}"]
    for name, field in cls.model_fields.items():
        sentence = docs.get(name, "")
        if sentence.startswith(_FOUND):
            continue
        lines += textwrap.wrap(" ".join(sentence.split()), WIDTH, initial_indent="  # ", subsequent_indent="  # ")
        if name in given:
            lines.append(f"  {name}: {_yaml(encode(given[name]))}")
        else:
            default = encode(field.get_default(call_default_factory=True))
            lines.append(f"  # {name}: {_yaml(default)}")
    return lines


def _yaml(value: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")
