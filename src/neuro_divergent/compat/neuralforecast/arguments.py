"""How one argument of neuralforecast is handled: it becomes a field, must keep its value, or has no effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from neuro_divergent.core.errors import ConfigError

Convert = Callable[[Any], Any]


def same(value: Any) -> Any:
    """The value, unchanged."""
    return value


@dataclass(frozen=True)
class Field:
    """An argument that is a field of our description."""

    name: str
    """Our field."""
    default: Any
    """Their default."""
    convert: Convert = same
    """Converts their value to ours."""


@dataclass(frozen=True)
class Only:
    """An argument of which only some values exist here; others are refused."""

    default: Any
    """Their default."""
    allowed: tuple[Any, ...] = ()
    """Further values with the same meaning."""
    reason: str = ""
    """What to do instead."""

    def check(self, model: str, name: str, value: Any) -> None:
        """Refuse a value without a counterpart."""
        known = (self.default, *self.allowed)
        if not any(type(value) is type(item) and value == item for item in known):
            rule = " or ".join(repr(item) for item in known)
            raise ConfigError(f"{model} must have {name}={rule} here, but got {name}={value!r}. {self.reason}".rstrip())


@dataclass(frozen=True)
class Unused:
    """An argument without effect here (and often there): accepted, and named in the warning if it was changed."""

    default: Any
    """Their default."""


@dataclass(frozen=True)
class Checked:
    """An argument that follows from others, but must agree with them."""

    default: Any
    """Their default."""
    check: Callable[[Mapping[str, Any]], None]
    """Refuses values that do not agree."""


@dataclass(frozen=True)
class Part:
    """An argument that decides a field together with others; `Entry.combined` says how."""

    default: Any
    """Their default."""


Argument = Field | Only | Unused | Checked | Part


@dataclass(frozen=True)
class Entry:
    """A model of neuralforecast: our counterpart, and what its arguments mean."""

    arguments: dict[str, Argument]
    """The arguments of the model besides the shared ones."""
    shared: dict[str, Any] = field(default_factory=dict)
    """Defaults of shared arguments that are different for this model."""
    combined: dict[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict)
    """Fields that depend on several arguments."""
    multivariate: bool = False
    """Whether it takes n_series."""
    recurrent: bool = False
    """Whether input_size may be left out: -1 means three horizons."""
