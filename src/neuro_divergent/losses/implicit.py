"""Implicit quantiles (Dabney et al. 2018; Gouttes et al. 2021): the level is an input, so any one can be asked for."""

# ruff: noqa: ARG002  (every loss has the same signature, whatever its formula needs)

from __future__ import annotations

import math
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses.base import Point, check_shapes
from neuro_divergent.losses.point_choice import PointChoice, mean_of_quantiles
from neuro_divergent.losses.probability_levels import uncrossed
from neuro_divergent.losses.quantile import draw_between, huber_pinball, pinball

MEAN_LEVELS = (0.01, 0.025, *(step / 20 for step in range(1, 20)), 0.975, 0.99)
"""Levels from which the mean is computed."""


class ImplicitQuantileHead(nn.Module):
    """value(raw, a) = linear(raw ∘ (1 + φ(a))), with φ(a) = relu(linear(cos(π·i·a), i = 0 … n - 1))."""

    multiples: Tensor

    def __init__(self, width: int, frequencies: int) -> None:
        super().__init__()
        self.register_buffer("multiples", math.pi * torch.arange(frequencies), persistent=False)
        self.embed = nn.Linear(frequencies, width)
        self.project = nn.Linear(width, 1)

    def forward(self, raw: Tensor, levels: Tensor | None = None) -> Tensor:
        """[..., Q] → [..., 2n]: n values, rising with their levels, then the n levels themselves.

        Without levels there is one per window: drawn from torch's global generator in training, the median otherwise.
        """
        if levels is None:
            shape = (raw.shape[0], *[1] * (raw.ndim - 1))
            level = torch.rand(shape, dtype=raw.dtype, device=raw.device) if self.training else raw.new_full(shape, 0.5)
            value = self._value(raw, level)
            return torch.stack([value, level[..., 0].expand_as(value)], dim=-1)
        asked = levels.to(raw)
        values = self._value(raw[..., None, :], asked[:, None])
        middle = torch.nonzero(asked == 0.5).flatten()[:1]
        if len(middle):  # quantiles that cross it give way: the median is the same whatever is asked beside it
            median = values[..., middle]
            values = torch.where(asked > 0.5, values.maximum(median), values.minimum(median))
            values[..., asked == 0.5] = median
        values = values.sort(dim=-1).values
        return torch.cat([values[..., torch.argsort(torch.argsort(asked))], asked.expand_as(values)], dim=-1)

    def _value(self, raw: Tensor, level: Tensor) -> Tensor:
        waves = torch.cos(level * self.multiples.to(raw.dtype))
        value: Tensor = self.project(raw * (1 + F.relu(self.embed(waves))))
        return value[..., 0]


class ImplicitQuantile(PointChoice):
    """Pinball loss at a random level per window, which the head receives; any quantile can be forecast afterwards.

    The network gives `width` features per step; the head turns them into values at levels, and its output, values first
    and levels after them, is what every method here takes. The point forecast is the median; with point="mean" it is
    the mean, from the quantiles at `MEAN_LEVELS`. Figures of a validation are those of the median.
    """

    own_point: ClassVar[Point] = "median"

    width: int = Field(default=32, ge=1)
    """Features per step that the network hands to the head."""

    frequencies: int = Field(default=64, ge=1)
    """Cosines in which the head sees the level."""

    @property
    def outputs(self) -> int:
        """The head's width."""
        return self.width

    @property
    def probabilistic(self) -> bool:
        """Every quantile can be asked for."""
        return True

    @property
    def levels(self) -> tuple[float, ...]:
        """The bounds of the central 80 % and 90 % intervals, and the median."""
        return (0.05, 0.1, 0.5, 0.9, 0.95)

    def head(self) -> nn.Module:
        """The module between the network and the loss."""
        return ImplicitQuantileHead(self.width, self.frequencies)

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced pinball losses, each at its own level."""
        check_shapes(output, target, 2)
        return self._at(target - output[..., 0], output[..., 1].detach())

    def _at(self, under: Tensor, level: Tensor) -> Tensor:
        return pinball(under, level)

    def unscale(self, output: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Values in original units; levels have none."""
        values, levels = output.chunk(2, dim=-1)
        return torch.cat([values * scale + location, levels], dim=-1)

    @property
    def point_levels(self) -> tuple[float, ...]:
        """The levels that the head is asked for, so that `point` can answer."""
        return (0.5,) if self.shows == "median" else MEAN_LEVELS

    def mean(self, output: Tensor) -> Tensor:
        """The mean of the distribution of the head's values at their levels; of one level that value."""
        values, levels = output.chunk(2, dim=-1)
        known, order = levels.reshape(-1, levels.shape[-1])[0].sort()
        return mean_of_quantiles(values[..., order], tuple(round(level, 6) for level in known.tolist()))

    def median(self, output: Tensor) -> Tensor:
        """The value at the level nearest to one half."""
        values, levels = output.chunk(2, dim=-1)
        nearest = (levels - 0.5).abs().argmin(dim=-1, keepdim=True)
        return torch.gather(values, -1, nearest)[..., 0]

    def quantiles(self, output: Tensor, levels: Tensor) -> Tensor:
        """The head's values, which must have been asked for at these levels."""
        values, at = output.chunk(2, dim=-1)
        if values.shape[-1] != len(levels) or not torch.allclose(at, levels.to(at).expand_as(at), rtol=0, atol=1e-6):
            raise ConfigError(
                f"{self.kind} knows the levels that its head was asked for, but got others: "
                f"{[round(float(level), 6) for level in levels]}. Call the head with them first"
            )
        return uncrossed(values, levels)

    def sample(self, output: Tensor, number: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws by inversion between the head's levels; ask it for those of `grid` before."""
        values, at = output.chunk(2, dim=-1)
        known = at.reshape(-1, at.shape[-1])[0].sort().values
        return draw_between(values.sort(dim=-1).values, tuple(known.tolist()), number, generator)

    def grid(self, number: int = 100) -> Tensor:
        """Evenly spaced levels, (i + ½) / number, at which the head is asked before sampling."""
        return (torch.arange(number, dtype=torch.float64) + 0.5) / number


class HuberImplicitQuantile(ImplicitQuantile):
    """Implicit quantiles with the corner of the pinball loss rounded within delta."""

    delta: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Half the width of the rounded corner, in scaled units."""

    def _at(self, under: Tensor, level: Tensor) -> Tensor:
        return huber_pinball(under, level, self.delta)
