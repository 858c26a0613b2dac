"""Probability levels: the arguments level= and quantiles=, and interpolation between levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Numbers, default, listed
from neuro_divergent.losses.point_choice import PointChoice

_NEAR = 1e-6

Levels = Sequence[float] | float | None
"""The arguments level= and quantiles= of forecasts: several numbers, one number, or none."""


def level_tuple(values: Levels) -> tuple[float, ...]:
    """The numbers of an argument level= or quantiles= as a tuple; empty for None.

    >>> level_tuple(80), level_tuple([80, 95]), level_tuple(None)
    ((80,), (80, 95), ())
    """
    return () if values is None else tuple(listed(values))


class Levelled(PointChoice):
    """Base of losses that take central intervals, level=[80, 90], or quantiles=[0.1, 0.5, 0.9]."""

    family = "loss"  # repeated, so that this base class is not registered

    level: Numbers = default((80.0, 90.0))
    """Central intervals in percent, one or several; the median is always added."""

    # Users and files call this field `quantiles`; on the object that name is the method.
    probabilities: Numbers = Field(default=None, alias="quantiles", validate_default=True)
    """Passed as quantiles=[...]: the probabilities themselves, instead of level."""

    @model_validator(mode="before")
    @classmethod
    def _take_quantiles(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping) or "quantiles" not in fields:
            return fields
        given = {name: value for name, value in fields.items() if name != "quantiles"}
        asked = fields["quantiles"]
        return given if asked is None else {"level": None} | given | {"probabilities": asked}

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        resolve_levels(self.level, self.probabilities)
        return self

    @property
    def levels(self) -> tuple[float, ...]:
        """The probabilities, ascending."""
        return resolve_levels(self.level, self.probabilities)


@lru_cache(maxsize=256)
def resolve_levels(level: tuple[float, ...] | None, quantiles: tuple[float, ...] | None) -> tuple[float, ...]:
    """Ascending probabilities: the bounds of the central intervals and the median, or the given quantiles.

    >>> resolve_levels((80.0, 90.0), None)
    (0.05, 0.1, 0.5, 0.9, 0.95)
    """
    if (level is None) == (quantiles is None):
        raise ConfigError(f"give either level or quantiles, but got {level=} and {quantiles=}")
    if quantiles is not None:
        return _checked(quantiles)
    check_percentages(level or ())
    bounds = [side for percent in level or () for side in (50 - percent / 2, 50 + percent / 2)]
    return _checked([round(bound / 100, 12) for bound in {*bounds, 50.0}])


def check_percentages(level: Sequence[float | str]) -> None:
    """Raise if a level is not a percentage; a share such as 0.8 is refused, too."""
    for percent in level:
        if isinstance(percent, str):  # from a command line or a form
            raise ConfigError(f"level is a number in percent, such as 80, but got the text {percent!r}. Write level=80")
        if not 0 < percent < 100:
            raise ConfigError(f"level is in percent, between 0 and 100, both excluded, but got level={percent!r}")
        if percent < 1:
            raise ConfigError(
                f"level is in percent, such as 80, but got level={percent!r}. Did you mean {100 * percent:g}?"
            )


def _checked(quantiles: Sequence[float]) -> tuple[float, ...]:
    if not quantiles:
        raise ConfigError("quantiles must have at least one entry, but got none")
    for quantile in quantiles:
        if not 0 < quantile < 1:
            raise ConfigError(f"quantiles must lie between 0 and 1, both excluded, but got {quantile}")
    if len(set(quantiles)) < len(quantiles):
        raise ConfigError(f"quantiles must differ from each other, but got {list(quantiles)}")
    return tuple(sorted(quantiles))


def interpolate(values: Tensor, known: Sequence[float], levels: Tensor) -> Tensor:
    """Values at other levels, linear between ascending known ones; [..., len(known)] → [..., len(levels)]."""
    at = torch.tensor(known, dtype=torch.float64)
    asked = levels.detach().to("cpu", torch.float64)
    right = torch.searchsorted(at, asked - _NEAR).clamp(max=len(known) - 1)
    left = torch.where(at[right] <= asked + _NEAR, right, (right - 1).clamp(min=0))
    gap = (at[right] - at[left]).clamp(min=_NEAR)
    share = ((asked - at[left]) / gap).clamp(0, 1).to(values.device, values.dtype)
    return torch.lerp(values[..., left.to(values.device)], values[..., right.to(values.device)], share)


def refuse_outside(kind: str, known: Sequence[float], levels: Tensor) -> None:
    """Raise if a level lies outside the trained quantiles: the model learned nothing there."""
    low, high = float(levels.min()), float(levels.max())
    if low < known[0] - _NEAR or high > known[-1] + _NEAR:
        raise ConfigError(
            f"{kind} was trained on quantiles from {known[0]:g} to {known[-1]:g}, but got the levels "
            f"{[round(float(level), 6) for level in levels]}. Train with a level that covers them"
        )


def uncrossed(values: Tensor, levels: Tensor) -> Tensor:
    """Values made non-decreasing in the level. Correct values change by rounding errors at most."""
    order = torch.argsort(levels).to(values.device)
    rising = torch.cummax(values[..., order], dim=-1).values
    return rising[..., torch.argsort(order)]
