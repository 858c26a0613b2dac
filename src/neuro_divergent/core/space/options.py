"""The options of a choice, and the labels under which a study stores them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from neuro_divergent.core import registry
from neuro_divergent.core.config import Description, encode
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.kinds import KINDS

Label = str | int | float | bool | None
"""A value in a study."""


class Option(Description):
    """A kind of description as an option of a choice: some of its fields are fixed, others are dimensions."""

    of: str
    """The kind, such as "SGD"."""
    fields: dict[str, Any]
    """Fields with a fixed value or a dimension."""

    def to_dict(self) -> dict[str, Any]:
        """The plain-data form: {"kind": "SGD", "momentum": {"kind": "uniform", ...}}."""
        return {"kind": self.of} | {name: encode(value) for name, value in self.fields.items()}

    def same(self, value: Any) -> bool:
        """Whether a description, or the name of a kind, is of this kind."""
        kind = value.kind if isinstance(value, Description) else value
        return isinstance(kind, str) and registry.normalise(kind) == registry.normalise(self.of)


def read_option(value: Any, as_dimension: Callable[[Any], Any]) -> Any:
    """An option as it was given: plain data, a description, a class (its kind), or a mapping with a kind."""
    if isinstance(value, type) and issubclass(value, Description):
        return value.kind
    if isinstance(value, tuple | list):
        return [read_option(item, as_dimension) for item in value]
    if isinstance(value, Description) or value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return _read_mapping(value, as_dimension)
    if hasattr(value, "item"):  # a number of numpy
        return value.item()
    raise ConfigError(
        f"a choice takes numbers, texts, lists, descriptions and kinds with dimensions, but got {type(value).__name__}"
    )


def _read_mapping(value: Mapping[str, Any], as_dimension: Callable[[Any], Any]) -> Any:
    kind = value.get("kind")
    if not isinstance(kind, str):
        raise ConfigError(f'an option with fields needs its kind, such as {{"kind": "SGD"}}, but got {dict(value)!r}')
    fields = {
        name: as_dimension(item) if isinstance(item, Mapping) else item
        for name, item in value.items()
        if name != "kind"
    }
    cls = class_of(kind)
    if cls is not None and fields.keys() >= cls.model_fields.keys():  # a description that was written to a file
        return cls.from_dict(value)
    return Option(of=kind, fields=fields)


def class_of(kind: str) -> type[Description] | None:
    """The class of a kind, in whichever family it is; None if there is none."""
    key = registry.normalise(kind)
    for family, kinds in KINDS.items():
        if key in {registry.normalise(known) for known in kinds}:
            return registry.find(family, kind)
    return registry.find("model", kind)


def labels_of(values: Sequence[Any]) -> tuple[Label, ...]:
    """The stored form of each option: a primitive itself, a description by its kind, or by its fields if kinds repeat.

    >>> labels_of([64, "auto", [2, 1]])
    (64, 'auto', '[2, 1]')
    """
    names = [_name(value) for value in values]
    return tuple(
        _full_name(value) if isinstance(value, Description) and names.count(name) > 1 else name
        for value, name in zip(values, names, strict=True)
    )


def _name(value: Any) -> Label:
    if isinstance(value, Option):
        return value.of
    if isinstance(value, Description):
        return str(getattr(value, "alias", None) or value.kind)
    return value if value is None or isinstance(value, str | int | float) else json.dumps(encode(value))


def _full_name(value: Description) -> str:
    if isinstance(value, Option):
        shown = {name: item for name, item in value.fields.items() if not isinstance(item, Description)}
        return f"{value.of}({', '.join(f'{name}={encode(item)}' for name, item in shown.items())})"
    given = sorted(value.model_fields_set)
    return f"{value.kind}({', '.join(f'{name}={json.dumps(encode(getattr(value, name)))}' for name in given)})"
