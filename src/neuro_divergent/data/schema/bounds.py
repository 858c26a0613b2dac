"""The range of a target: values that its forecasts never leave, and whether they are whole numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import ConfigError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The range of forecasts. At least one of the fields is set.

    >>> Bounds(lower=0.0, integer=True).keep(np.array([[-0.4, -1.2, 2.3]]), (None, 0.1, 0.9)).tolist()
    [[0.0, 0.0, 3.0]]
    """

    lower: float | None = None
    """The smallest value; None for no limit."""
    upper: float | None = None
    """The largest value; None for no limit."""
    integer: bool = False
    """Whether forecasts are rounded to whole numbers."""

    @classmethod
    def of(cls, lower: float | None, upper: float | None, integer: bool) -> Bounds | None:
        """The bounds of these values; None if there is nothing to keep. Contradictions are refused."""
        for name, value in (("lower", lower), ("upper", upper)):
            if value is not None and not math.isfinite(value):
                raise ConfigError(f"{name} must be a finite number or None, but got {name}={value!r}")
            if value is not None and integer and value != round(value):
                raise ConfigError(f"integer=True needs whole numbers as bounds, but got {name}={value!r}")
        if lower is not None and upper is not None and lower >= upper:
            raise ConfigError(f"lower must be less than upper, but got lower={lower!r} and upper={upper!r}")
        return None if lower is None and upper is None and not integer else cls(
            lower=lower, upper=upper, integer=integer
        )  # fmt: skip

    def keep(self, values: Floats, levels: Sequence[float | None]) -> Floats:
        """Forecasts [..., K] inside of the range. `levels` are the probability levels of the columns, None for a point.

        Whole numbers: a level below one half is rounded down, one above is rounded up, so that no interval loses a
        value by rounding. The point and the median are rounded to the nearest whole number.
        """
        kept = self.clipped(values)
        if not self.integer:
            return kept
        # Numbers of float32 are exact to about 7 digits: 2.9999998 is 3, which is not rounded down to 2.
        slack = 1e-6 * np.maximum(1.0, np.abs(kept))
        parts = []
        for place, level in enumerate(levels):
            column, near = kept[..., place], slack[..., place]
            if level is None or abs(level - 0.5) < 1e-9:
                parts.append(np.rint(column))
            else:
                parts.append(np.floor(column + near) if level < 0.5 else np.ceil(column - near))
        return np.stack(parts, axis=-1) + 0.0  # no negative zeros

    def draws(self, values: Floats) -> Floats:
        """Draws inside of the range, as whole numbers if the target has whole numbers."""
        kept = self.clipped(values)
        return np.rint(kept) + 0.0 if self.integer else kept

    def clipped(self, values: Floats) -> Floats:
        """Values inside of the range, not rounded."""
        if self.lower is None and self.upper is None:
            return values
        return np.asarray(np.clip(values, self.lower, self.upper))

    def sentence(self) -> str:
        """The rule as text.

        >>> Bounds(lower=0.0, integer=True).sentence()
        'whole numbers of at least 0'
        """
        what = "whole numbers" if self.integer else "numbers"
        limits = [f"at least {self.lower:g}"] if self.lower is not None else []
        limits += [f"at most {self.upper:g}"] if self.upper is not None else []
        return f"{what} of {' and '.join(limits)}" if limits else what

    def to_dict(self) -> dict[str, Any]:
        """The bounds as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bounds | None:
        """The bounds of plain data from a file."""
        numbers = {name: data[name] for name in ("lower", "upper")}
        for name, value in numbers.items():
            if value is not None and type(value) not in (int, float):
                raise ConfigError(f"{name} must be a number or null, but the file has {str(value)[:80]!r}")
        if type(data["integer"]) is not bool:
            raise ConfigError(f"integer must be true or false, but the file has {str(data['integer'])[:80]!r}")
        return cls.of(numbers["lower"], numbers["upper"], data["integer"])
