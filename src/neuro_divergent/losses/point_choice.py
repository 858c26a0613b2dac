"""Which point of a forecast distribution is the point forecast: its mean or its median.

On a skewed target the two differ: the median of most counts of daily sales lies below their mean, so the sum of medians
is too low. Sums of forecasts need the mean; the smallest absolute error needs the median.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import ConfigDict, Field, model_validator
from torch import Tensor

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses.base import Loss, Point


class PointChoice(Loss):
    """Base of losses that forecast a distribution or its quantiles. The argument `point` chooses the point forecast."""

    model_config = ConfigDict(populate_by_name=True)

    family = "loss"  # repeated, so that this base class is not registered

    own_point: ClassVar[Point]
    """The point that follows directly from the outputs. Recursive networks feed it back, whatever `point` is."""

    # Users and files call this field `point`; on the object that name is the method.
    point_shown: Literal["auto", "mean", "median"] = Field(default="auto", alias="point")
    """Passed as point=...: the point forecast is the "mean" or the "median"; "auto" uses the default of the loss."""

    file_names: ClassVar[Mapping[str, str]] = {"point_shown": "point", "probabilities": "quantiles"}

    @model_validator(mode="before")
    @classmethod
    def _take_point(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping) or "point" not in fields:
            return fields
        if fields["point"] not in ("auto", "mean", "median"):
            raise ConfigError(f'point must be "mean" or "median" (or "auto"), but got point={fields["point"]!r}')
        given = {name: value for name, value in fields.items() if name != "point"}
        return given | {"point_shown": fields["point"]}

    @property
    def shows(self) -> Point:
        """What the point forecast is: "mean" or "median"."""
        return self.own_point if self.point_shown == "auto" else self.point_shown

    def showing(self, point: Point) -> Self:
        """A copy with another point forecast. Network outputs and weights keep their meaning."""
        return self.replace(point=point)

    def point(self, output: Tensor) -> Tensor:
        """The mean or the median, [..., Q] → [...]."""
        return self.mean(output) if self.shows == "mean" else self.median(output)

    def centre(self, output: Tensor) -> Tensor:
        """The default point of the loss, whatever `point` is."""
        return self.mean(output) if self.own_point == "mean" else self.median(output)

    @abstractmethod
    def mean(self, output: Tensor) -> Tensor:
        """The expected value, [..., Q] → [...]."""

    @abstractmethod
    def median(self, output: Tensor) -> Tensor:
        """The value at level one half, [..., Q] → [...]."""


def check_mean_of(kind: str, levels: tuple[float, ...]) -> None:
    """Raise if the levels have too little information about the tails or the middle to compute a mean."""
    if levels[0] > 0.1 or levels[-1] < 0.9 or not any(0.25 <= level <= 0.75 for level in levels):
        raise ConfigError(
            f'point="mean" of {kind} is computed from its quantiles, which must reach from 0.1 or less to 0.9 or more '
            f"with one near the middle, but got {list(levels)}. Add level=[80], or train with DistributionLoss"
        )


def mean_of_quantiles(values: Tensor, levels: tuple[float, ...]) -> Tensor:
    """The mean of a distribution from ascending quantiles, [..., n] → [...].

    Above the median the quantile function is assumed to be linear in -log(1 - a), below it linear in log(a). Both
    continue beyond the outermost level, which gives exponential tails. This is exact for an asymmetric Laplace
    distribution. For others it is an approximation, which underestimates heavier tails.
    """
    return values @ values.new_tensor(_mean_weights(levels))


@lru_cache(maxsize=64)
def _mean_weights(levels: tuple[float, ...]) -> tuple[float, ...]:
    """The weight of each quantile in the mean; the integral is linear in the values."""
    if len(levels) == 1:
        return (1.0,)
    place = torch.tensor(levels, dtype=torch.float64)
    known = torch.eye(len(levels), dtype=torch.float64)
    middle = int(torch.searchsorted(place, 0.5 - 1e-9))
    if middle == len(levels) or abs(levels[middle] - 0.5) > 1e-6:
        right = min(max(middle, 1), len(levels) - 1)
        share = (0.5 - levels[right - 1]) / (levels[right] - levels[right - 1])
        between = torch.lerp(known[right - 1], known[right], min(max(share, 0.0), 1.0))
        place, known = (
            torch.cat([place[:middle], torch.tensor([0.5], dtype=torch.float64), place[middle:]]),
            torch.cat([known[:middle], between[None], known[middle:]]),
        )
    upper = _half_weights([1 - level for level in place[middle:].tolist()], known[middle:])
    lower = _half_weights(place[: middle + 1].flip(0).tolist(), known[: middle + 1].flip(0))
    return tuple((upper + lower).tolist())


def _half_weights(outside: list[float], known: Tensor) -> Tensor:
    """Σ over the pieces from the median outwards, and the tail; `outside` is the probability beyond each level."""
    total, slope = torch.zeros(known.shape[1], dtype=torch.float64), torch.zeros(known.shape[1], dtype=torch.float64)
    for inner in range(len(outside) - 1):
        run = math.log(outside[inner] / outside[inner + 1])
        slope = (known[inner + 1] - known[inner]) / run
        total = total + (outside[inner] - outside[inner + 1]) * known[inner]
        total = total + slope * outside[inner] * (1 - math.exp(-run) * (1 + run))
    return total + outside[-1] * (known[-1] + slope)
