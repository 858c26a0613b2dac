"""The dimensions of a search space: ranges of numbers, and choices.

A value of a dimension in a study is a JSON primitive. An option of a choice that is none (a description, a list) is
stored by its label, and `Choice.option` gives the option of a label.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from neuro_divergent.core.config import Description, code, encode
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.core.space.options import Label, Option, labels_of, read_option

Number = Annotated[float, Field(allow_inf_nan=False)]


class Dimension(Description):
    """Base class of the dimensions of a search space."""

    family: ClassVar[str] = "dimension"

    @abstractmethod
    def suggest(self, trial: Any, name: str) -> Label:
        """The value that an Optuna trial suggests under this name."""

    @abstractmethod
    def grid(self, points: int) -> list[Label]:
        """The values of a grid. A continuous range has `points` of them, everything else has all its values."""

    @abstractmethod
    def size(self, points: int) -> int:
        """The number of values of `grid(points)`."""

    @abstractmethod
    def find(self, value: Any) -> list[Label]:
        """The stored form of a value, as a list of one; an empty list if the value is not in here."""

    @abstractmethod
    def including(self, value: Any) -> Self:
        """The dimension, made wide enough for this value."""

    @abstractmethod
    def text(self) -> str:
        """The dimension as Python code."""

    def __repr__(self) -> str:
        kind, _, fields = super().__repr__().partition("(")
        return f"{kind.lower()}({fields}"  # the public function with the same arguments

    def option(self, label: Label) -> Any:
        """The value of a stored form."""
        return label

    def label(self, value: Any) -> Label:
        """The stored form of a value. A value that is not in here is refused."""
        found = self.find(value)
        if not found:
            raise ConfigError(f"the value must lie in {self.text()}, but got {value!r}")
        return found[0]


def _check_range(name: str, low: float, high: float, log: bool) -> None:
    if low > high:
        raise ConfigError(f"{name} goes from low to high, but got low={low} > high={high}")
    if low == high:
        raise ConfigError(
            f"{name} needs two different ends, but got low=high={low}. Set a fixed value in the model or its config"
        )
    if log and low <= 0:
        raise ConfigError(f"a logarithmic range needs low > 0, but got low={low}. Use a small number such as 1e-6")


class _Real(Dimension):
    """A range of real numbers."""

    log: ClassVar[bool] = False

    low: Number = default(..., kw_only=False)
    """Smallest value."""
    high: Number = default(..., kw_only=False)
    """Largest value."""

    @property
    def _step(self) -> float | None:
        return None

    @model_validator(mode="after")
    def _ends(self) -> Self:
        _check_range(self.kind, self.low, self.high, self.log)
        return self

    def suggest(self, trial: Any, name: str) -> Label:
        """The value that the trial suggests."""
        return float(trial.suggest_float(name, self.low, self.high, step=self._step, log=self.log))

    def size(self, points: int) -> int:
        """The number of values of the grid."""
        return points if self._step is None else round((self.high - self.low) / self._step) + 1

    def grid(self, points: int) -> list[Label]:
        """Values at equal distances (equal ratios for a logarithmic range), both ends included."""
        count = self.size(points)
        if count == 1:
            return [math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2]
        shares = [place / (count - 1) for place in range(count)]
        return [self.low, *(self._at(share) for share in shares[1:-1]), self.high]

    def _at(self, share: float) -> float:
        if self.log:
            return float(self.low * (self.high / self.low) ** share)
        return round(self.low + share * (self.high - self.low), 12)

    def find(self, value: Any) -> list[Label]:
        """The number, if it lies in the range."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return []
        steps = 0.0 if self._step is None else (value - self.low) / self._step
        return [float(value)] if abs(steps - round(steps)) < 1e-9 else []

    def including(self, value: Any) -> Self:
        """The range, made wide enough for this number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or (self.log and value <= 0):
            return self
        return self.replace(low=min(self.low, value), high=max(self.high, value))


class Uniform(_Real):
    """Real numbers from low to high, every one equally likely."""

    kind: ClassVar[str] = "uniform"

    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = default(None, kw_only=False)
    """Distance between values; None for all numbers of the range."""

    @model_validator(mode="after")
    def _whole_steps(self) -> Self:
        if self.step is not None and abs((self.high - self.low) / self.step % 1 - 0.5) < 0.5 - 1e-9:
            raise ConfigError(
                f"high - low must be a multiple of step, but got low={self.low}, high={self.high}, step={self.step}"
            )
        return self

    @property
    def _step(self) -> float | None:
        return self.step

    def including(self, value: Any) -> Self:
        """The range, made wide enough for this number. A range with a step stays as it is."""
        return self if self.step is not None else super().including(value)

    def text(self) -> str:
        """The dimension as Python code."""
        return f"nd.uniform({self.low:g}, {self.high:g}{'' if self.step is None else f', step={self.step:g}'})"


class LogUniform(_Real):
    """Real numbers from low to high, every ratio equally likely."""

    kind: ClassVar[str] = "loguniform"
    log: ClassVar[bool] = True

    def text(self) -> str:
        """The dimension as Python code."""
        return f"nd.loguniform({self.low:g}, {self.high:g})"


class Integers(Dimension):
    """Whole numbers from low to high, both included."""

    kind: ClassVar[str] = "integers"

    low: int = default(..., kw_only=False)
    """Smallest value."""
    high: int = default(..., kw_only=False)
    """Largest value."""
    step: Annotated[int, Field(ge=1)] = default(1, kw_only=False)
    """Distance between values."""
    log: bool = False
    """Whether small numbers are tried as often as large ones: every ratio is equally likely."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        _check_range(self.kind, self.low, self.high, self.log)
        if (self.high - self.low) % self.step:
            raise ConfigError(
                f"high - low must be a multiple of step, but got low={self.low}, high={self.high}, step={self.step}"
            )
        if self.log and self.step > 1:
            raise ConfigError(f"a logarithmic range has no steps, but got step={self.step}. Leave one of them out")
        return self

    def suggest(self, trial: Any, name: str) -> Label:
        """The value that the trial suggests."""
        return int(trial.suggest_int(name, self.low, self.high, step=self.step, log=self.log))

    def grid(self, points: int) -> list[Label]:
        """All values; of a logarithmic range at most `points`, at equal ratios."""
        if not self.log or points < 2:
            return list(range(self.low, self.high + 1, self.step)) if not self.log else [self.low]
        ratio = self.high / self.low
        return list(dict.fromkeys(round(self.low * ratio ** (place / (points - 1))) for place in range(points)))

    def size(self, points: int) -> int:
        """The number of values of the grid."""
        return len(self.grid(points)) if self.log else (self.high - self.low) // self.step + 1

    def find(self, value: Any) -> list[Label]:
        """The number, if it is one of the values."""
        number = not isinstance(value, bool) and isinstance(value, int | float)
        inside = number and self.low <= value <= self.high and (value - self.low) % self.step == 0
        return [int(value)] if inside else []

    def including(self, value: Any) -> Self:
        """The range, made wide enough for this number. A range with a step stays as it is."""
        if isinstance(value, bool) or not isinstance(value, int) or self.step > 1 or (self.log and value < 1):
            return self
        return self.replace(low=min(self.low, value), high=max(self.high, value))

    def text(self) -> str:
        """The dimension as Python code."""
        more = f", step={self.step}" if self.step > 1 else ", log=True" if self.log else ""
        return f"nd.integers({self.low}, {self.high}{more})"


def _read_options(values: Any) -> Any:
    if isinstance(values, str | Mapping) or not hasattr(values, "__iter__"):
        raise ConfigError(f"a choice needs a list of values, but got {values!r}")
    return tuple(read_option(value, as_dimension) for value in values)


class Choice(Dimension):
    """One of several values, which have no order."""

    kind: ClassVar[str] = "choice"

    values: Takes[Annotated[tuple[Any, ...], BeforeValidator(_read_options)], Any]
    """The values: numbers, texts, None, lists, descriptions, or the kind of a description with dimensions of its own,
    such as {"kind": "SGD", "momentum": nd.uniform(0.5, 0.99)}."""

    @model_validator(mode="after")
    def _several(self) -> Self:
        if len(self.values) < 2:
            raise ConfigError(
                f"a choice needs two values or more, but got {len(self.values)}. Set a fixed value in the model or its "
                "config"
            )
        seen: list[Label] = []
        for label in self.labels:
            if label in seen:
                raise ConfigError(f"the values of a choice must differ, but got {label!r} twice")
            seen.append(label)
        return self

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """The stored form of each value."""
        return labels_of(self.values)

    def __repr__(self) -> str:
        return f"choice({', '.join(code(value) for value in self.values)})"

    def suggest(self, trial: Any, name: str) -> Label:
        """The label that the trial suggests."""
        chosen: Label = trial.suggest_categorical(name, self.labels)
        return chosen

    def grid(self, points: int) -> list[Label]:  # noqa: ARG002
        """All labels."""
        return list(self.labels)

    def size(self, points: int) -> int:  # noqa: ARG002
        """The number of values."""
        return len(self.values)

    def option(self, label: Label) -> Any:
        """The value of a label."""
        for known, value in zip(self.labels, self.values, strict=True):
            if known == label and isinstance(known, bool) == isinstance(label, bool):
                return value
        known_labels = ", ".join(repr(known) for known in self.labels)
        raise ConfigError(f"the value must be one of {known_labels}, but got {label!r}")

    def find(self, value: Any) -> list[Label]:
        """The label of a value: of an equal one, or of an option with the same kind."""
        plain = json.dumps(encode(value))
        for known, own in zip(self.labels, self.values, strict=True):
            same = own.same(value) if isinstance(own, Option) else json.dumps(encode(own)) == plain
            if same or (isinstance(known, str) and known == value):
                return [known]
        return []

    def including(self, value: Any) -> Self:
        """The choice with this value as well, sorted if all values are numbers."""
        if self.find(value):
            return self
        values = (*self.values, value)
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
        return type(self)(values=sorted(values) if numbers else values)

    def text(self) -> str:
        """The dimension as Python code."""
        return f"nd.choice({', '.join(_option_text(value) for value in self.values)})"


def _option_text(value: Any) -> str:
    if isinstance(value, Option):
        inner = [f'"kind": "{value.of}"', *(f'"{name}": {_option_text(one)}' for name, one in value.fields.items())]
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, Dimension):
        return value.text()
    if not isinstance(value, Description):
        return repr(value)
    given = [name for name in type(value).model_fields if name in value.model_fields_set]
    return f"nd.{value.kind}({', '.join(f'{name}={_option_text(getattr(value, name))}' for name in given)})"


def as_dimension(value: Any) -> Any:
    """A list becomes a choice, an object with the kind of a dimension becomes that; anything else is unchanged."""
    if isinstance(value, list | tuple | set | frozenset):
        return Choice(values=sorted(value, key=repr) if isinstance(value, set | frozenset) else value)
    if isinstance(value, Mapping) and value.get("kind") in _KINDS:
        return Dimension.model_validate(value)
    return value


_KINDS = ("uniform", "loguniform", "integers", "choice")


def uniform(low: float, high: float, step: float | None = None) -> Uniform:
    """Real numbers from `low` to `high`, in multiples of `step` if given.

    >>> uniform(0, 0.5, step=0.25).grid(10)
    [0.0, 0.25, 0.5]
    """
    return Uniform(low=low, high=high, step=step)


def loguniform(low: float, high: float) -> LogUniform:
    """Real numbers from `low` to `high` on a logarithmic scale, such as learning rates.

    >>> loguniform(0.001, 0.1).grid(3)
    [0.001, 0.01, 0.1]
    """
    return LogUniform(low=low, high=high)


def integers(low: int, high: int, step: int = 1, log: bool = False) -> Integers:
    """Whole numbers from `low` to `high`, both included.

    >>> integers(2, 8, step=2).grid(10)
    [2, 4, 6, 8]
    """
    return Integers(low=low, high=high, step=step, log=log)


def choice(*values: Any) -> Choice:
    """One of the given values: numbers, texts, None, lists, descriptions, or kinds with dimensions of their own.

    >>> choice("AdamW", {"kind": "SGD", "momentum": uniform(0.5, 0.99)}).labels
    ('AdamW', 'SGD')
    """
    return Choice(values=values)
