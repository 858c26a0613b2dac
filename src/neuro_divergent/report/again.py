"""How to repeat a training: the section "Do it again" of a report, with a command and a Python script that run."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neuro_divergent._version import __version__
from neuro_divergent.core.config import Description
from neuro_divergent.forecasting.predict.ahead import asked_ahead

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.report.page import Page

CROSS_VALIDATION = "print(nd.cross_validation([model], data, config=config).table)"
LEFT_OUT = ("callbacks", "checkpoints", "progress")
"""Fields of a training that say what is written and shown while it runs."""


@dataclass(frozen=True, kw_only=True)
class Again:
    """Where a table came from and, for a training on the shell, the commands that a page shows."""

    source: str = ""
    """The file; empty for a table from memory."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """How the file was read: fields of a run file's data section. Several id columns have commas between them."""
    train: str = ""
    predict: str = ""
    compare: str = ""


def do_it_again(page: Page, fitted: Forecaster, again: Again) -> None:
    """Add the section: the command if there was one, the versions, the script and every field."""
    import numpy
    import polars
    import torch

    page.heading("Do it again")
    if again.train:
        page.text("The same command, data, versions and threads give the same bits.")
        page.code(again.train)
    versions = [f"{module.__name__} {module.__version__}" for module in (torch, numpy, polars)]
    page.items(
        [
            f"seed {fitted.config.seed}, data fingerprint {_fingerprint(fitted)[:16]}",
            ", ".join([f"neuro-divergent {__version__}", *versions]),
            f"Python {platform.python_version()} on {platform.system()}, {torch.get_num_threads()} threads",
        ]
    )
    page.code(python_script(fitted, again))
    page.folded("Model, every field", fitted.model.to_json())
    page.folded("Training, every field", fitted.config.replace(callbacks=()).to_json())
    page.folded("Data, every field", fitted.data.schema.to_json())


def _fingerprint(fitted: Forecaster) -> str:
    """That of the table of the training, as the saved model has it."""
    known = None if fitted.lineage is None else fitted.lineage.data_fingerprint
    return known or fitted.data.fingerprint


def python_script(fitted: Forecaster, again: Again) -> str:
    """The training in Python: reads the file, trains, prints the forecast. A table from memory is `frame`."""
    config = fitted.config
    names = [name for name in type(config).model_fields if name not in LEFT_OUT]
    training = ",\n    ".join(_arguments(config, names))
    return "\n".join(
        [
            *_imports(fitted.model, config),
            "",
            *_reading(fitted, again),
            f"model = {_literal(fitted.model)}",
            f"config = nd.TrainingConfig(\n    {training},\n)",
            *_forecast(fitted, again),
        ]
    )


def _forecast(fitted: Forecaster, again: Again) -> list[str]:
    """The lines that train and forecast; columns known ahead come from a table of the user's."""
    names = asked_ahead(fitted)
    how = f", short={again.reading['short']!r}" if "short" in again.reading else ""
    if not names:
        return [f"print(model.fit(data, config{how}).predict())"]
    return [
        f"fitted = model.fit(data, config{how})",
        f"# future: a table with {', '.join(map(repr, names))} for the next {fitted.model.h} steps",
        "# print(fitted.predict(future=future))",
        "print(fitted.history)",
    ]


def _reading(fitted: Forecaster, again: Again) -> list[str]:
    """The lines that make `data`."""
    schema = fitted.data.schema
    names = [name for name in type(schema).model_fields if name not in schema.found_when_loading]
    arguments = [f"{name}={_literal(value)}" for name, value in again.reading.items()] or _arguments(schema, names)
    named = again.reading.get("id_col", "")
    parts = [part.strip() for part in (named.split(",") if isinstance(named, str) else named)]
    if again.source and len(parts) > 1:
        return _joined(again, parts)
    if not again.source:
        return [f"data = nd.TimeSeriesDataFrame.from_frame({', '.join(['frame', *arguments])})"]
    reader = "from_parquet" if again.source.endswith((".parquet", ".pq")) else "from_csv"
    return [f"data = nd.TimeSeriesDataFrame.{reader}({', '.join([repr(again.source), *arguments])})"]


def _joined(again: Again, parts: list[str]) -> list[str]:
    """The same for series that several columns name together."""
    layout = {name: again.reading[name] for name in ("separator", "encoding", "decimal_comma") if name in again.reading}
    rest = {name: value for name, value in again.reading.items() if name not in layout} | {"id_col": "/".join(parts)}
    reader = "read_parquet" if again.source.endswith((".parquet", ".pq")) else "read_csv"
    how = [repr(again.source), *(f"{name}={_literal(value)}" for name, value in layout.items())]
    arguments = ", ".join(["frame", *(f"{name}={_literal(value)}" for name, value in rest.items())])
    return [
        "import polars as pl",
        "",
        f"frame = pl.{reader}({', '.join(how)})",
        f"name = pl.concat_str(pl.col({_literal(parts)}).cast(pl.String), separator='/')",
        f"frame = frame.with_columns(name.alias({rest['id_col']!r})).drop({_literal(parts)})",
        f"data = nd.TimeSeriesDataFrame.from_frame({arguments})",
    ]


def _imports(*descriptions: Description) -> list[str]:
    """The library, and the modules of classes that are not in it."""
    kinds = {type(item) for one in descriptions for item in _parts(one)}
    others = sorted(f"from {kind.__module__} import {kind.__name__}" for kind in kinds if not _ours(kind))
    return ["import neuro_divergent as nd", *others]


def _ours(kind: type) -> bool:
    return kind.__module__.startswith("neuro_divergent.")


def _parts(value: Any) -> list[Description]:
    """A description and those inside of it."""
    if isinstance(value, Description):
        inner = [getattr(value, name) for name in type(value).model_fields if name not in LEFT_OUT]
        return [value, *(part for item in inner for part in _parts(item))]
    return [part for item in value for part in _parts(item)] if isinstance(value, tuple | list) else []


def _arguments(description: Description, names: Sequence[str]) -> list[str]:
    """The fields that are not at their defaults, as arguments."""
    found = []
    for name in names:
        value, known = getattr(description, name), type(description).model_fields[name]
        if known.is_required() or value != known.get_default(call_default_factory=True):
            called = getattr(description, "file_names", {}).get(name, name)
            found.append(f"{called}={_literal(value)}")
    return found


def _literal(value: Any) -> str:
    """A value as it is written in Python."""
    if isinstance(value, Description):
        kind = type(value)
        name = f"nd.{kind.__name__}" if _ours(kind) else kind.__name__
        return f"{name}({', '.join(_arguments(value, list(kind.model_fields)))})"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_literal(item)}" for key, item in value.items()) + "}"
    return value.__name__ if callable(value) else repr(value)
