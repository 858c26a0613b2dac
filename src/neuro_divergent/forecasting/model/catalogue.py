"""The list of all models with their facts, for the shell and for the documentation."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, cast

from neuro_divergent.core import registry
from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.errors import NeuroDivergentError
from neuro_divergent.core.field_docs import field_docs, own_doc
from neuro_divergent.forecasting.model.model import Model

log = logging.getLogger(__name__)

HORIZON, LOOKBACK, SERIES = 24, 96, 7
"""The size at which parameters are counted: 24 hours ahead from four days of hours, seven channels."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The facts of one model."""

    name: str
    family: str
    takes: tuple[str, ...]
    summary: str
    paper: str
    parameters: int | None
    """At the standard size; None for a model that needs an object of the user."""
    fields: tuple[tuple[str, str, str], ...]
    """Name, default and docstring of each field."""
    text: str


def catalogue() -> list[Entry]:
    """Every registered model, sorted by name."""
    return [entry(cast(type[Model], cls)) for cls in registry.members("model").values()]


def entry(cls: type[Model]) -> Entry:
    """The facts of one model."""
    docs = field_docs(cls)
    text = " ".join(own_doc(cls).split("\n\n")[0].split())
    return Entry(
        name=cls.kind,
        family=cls.group,
        takes=takes(cls),
        summary=text,
        paper=cls.paper,
        parameters=count_parameters(cls),
        fields=tuple((name, _default(field), docs.get(name, "")) for name, field in cls.model_fields.items()),
        text=own_doc(cls),
    )


def takes(cls: type[Model]) -> tuple[str, ...]:
    """The kinds of columns that a model takes, and whether it sees all series at once."""
    names = ("future", "historical", "static", "categorical", "multivariate")
    return tuple(name for name in names if getattr(cls.capabilities, name))


def count_parameters(cls: type[Model]) -> int | None:
    """Parameters of the network with default fields at the standard size."""
    series = SERIES if cls.capabilities.multivariate else 1
    try:
        network = cls(h=HORIZON, input_size=LOOKBACK).build(
            InputSpec(horizon=HORIZON, lookback=LOOKBACK, series=series)
        )
    except NeuroDivergentError:
        return None
    except Exception as error:  # a foreign network may raise anything; the list leaves its count out
        log.warning("the network of %s could not be built: %s: %s", cls.kind, type(error).__name__, error)
        return None
    return sum(parameter.numel() for parameter in network.parameters())


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return str(list(value)) if isinstance(value, tuple) else repr(value)
