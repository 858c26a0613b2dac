"""Refuses two columns of one name in a frame, before anything is trained.

A frame of forecasts has the id, time and target columns of the table, some fixed columns, and those of every model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from neuro_divergent import metrics
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.schema.schema import DataSchema

OURS = {
    "cutoff": "the last row that a forecast saw",
    "sample_id": "the number of a sample path",
}
"""The fixed columns of frames of forecasts."""

_OF_MODEL = re.compile(r"-(lo|hi)-[\d.]+|-median|[-_]ql[\d.]+")
_OF_FIGURE = re.compile(r"(coverage|interval_score)-[\d.]+")
_NAIVE = re.compile(r"seasonal naive \(\d+\)")


def check_column_names(models: Sequence[str], schema: DataSchema | None = None) -> None:
    """Refuse names of models and columns that would be equal in a frame of forecasts or scores.

    Args:
        models: the names of the models in the frame.
        schema: the names of the table's columns; None checks the models alone.
    """
    for name in models:
        if name in OURS or _NAIVE.fullmatch(name):
            what = OURS.get(name, "the naive forecast")
            raise ConfigError(f"a frame of forecasts has a column {name!r} ({what}), but a model has this name. "
                              "Give another alias=...")  # fmt: skip
        for other in models:
            if _OF_MODEL.fullmatch(other.removeprefix(name)) and other.startswith(name):
                raise ConfigError(
                    f"{other!r} is a column of the forecasts of {name!r}, but another model has that name. Give "
                    "another alias=..."
                )
    for role, column in () if schema is None else _columns(schema):
        owner = _owner(column, models) or (_figure(column) if role == "id_col" else None)
        if owner is not None:
            raise ConfigError(
                f"the columns of a table and of its forecasts must differ in name, but {column!r} is both the {role} "
                f"and {owner}. Rename the column, or the model by alias=..."
            )


def check_figure_names(schema: DataSchema, figures: Iterable[str]) -> None:
    """Refuse metrics with the name of the id column: the scores by series would have this column twice."""
    for column in {*schema.id_columns, schema.id_col} & {*figures}:
        raise ConfigError(
            f"a table of scores has the id column and a column for each metric, but {column!r} is both. Rename "
            "the metric, or the column"
        )


def _columns(schema: DataSchema) -> list[tuple[str, str]]:
    """The columns of a table that are in frames of forecasts, each with its role."""
    ids = [("id_col", name) for name in schema.id_parts or (schema.id_col,)]
    return [*ids, ("time_col", schema.time_col), ("target_col", schema.target_col)]


def _owner(column: str, models: Sequence[str]) -> str | None:
    """What a column of this name would be in a frame; None if the name is free."""
    if column in OURS:
        return OURS[column]
    if _NAIVE.fullmatch(column):
        return "the naive forecast"
    for name in models:
        if column == name or (column.startswith(name) and _OF_MODEL.fullmatch(column.removeprefix(name))):
            return f"a forecast of the model {name!r}"
    return None


def _figure(column: str) -> str | None:
    known = column in metrics.METRICS or _OF_FIGURE.fullmatch(column)
    return "a metric in the scores by series" if known else None
