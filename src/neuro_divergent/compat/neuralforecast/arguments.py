"""How one argument of theirs is read: it becomes a field of ours, must keep its value, or changes nothing here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from neuro_divergent.core.errors import ConfigError

Convert = Callable[[Any], Any]


def same(value: Any) -> Any:
    """The value as it is."""
    return value


@dataclass(frozen=True)
class Field:
    """An argument that is a field of our description."""

    name: str
    """Our field."""
    default: Any
    """Their default."""
    convert: Convert = same
    """From their value to ours."""


@dataclass(frozen=True)
class Only:
    """An argument of which we have only some values; others are refused."""

    default: Any
    """Their default."""
    allowed: tuple[Any, ...] = ()
    """Further values that mean the same."""
    reason: str = ""
    """What to do instead."""

    def check(self, model: str, name: str, value: Any) -> None:
        """Refuse what there is no counterpart for."""
        known = (self.default, *self.allowed)
        if not any(type(value) is type(item) and value == item for item in known):
            rule = " or ".join(repr(item) for item in known)
            raise ConfigError(f"{model} has {name}={rule} here, but got {name}={value!r}. {self.reason}".rstrip())


@dataclass(frozen=True)
class Unused:
    """An argument that decides nothing here (and often nothing there): taken, and named in the warning if changed."""

    default: Any
    """Their default."""


@dataclass(frozen=True)
class Checked:
    """An argument that decides nothing beyond what others say, but must go together with them."""

    default: Any
    """Their default."""
    check: Callable[[Mapping[str, Any]], None]
    """Refuses what does not go together."""


@dataclass(frozen=True)
class Part:
    """An argument that decides a field of ours together with others; `Entry.combined` says how."""

    default: Any
    """Their default."""


Argument = Field | Only | Unused | Checked | Part


@dataclass(frozen=True)
class Entry:
    """A model of theirs: which of ours it is, and what its arguments mean."""

    arguments: dict[str, Argument]
    """What the model has besides the shared arguments."""
    shared: dict[str, Any] = field(default_factory=dict)
    """Defaults of shared arguments that are different for this model."""
    combined: dict[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict)
    """Fields of ours that several arguments decide."""
    multivariate: bool = False
    """Whether it takes n_series."""
    recurrent: bool = False
    """Whether input_size may be left out: -1 means three horizons."""
