"""Implicit quantiles (Dabney et al. 2018; Gouttes et al. 2021): the level is an input, so any one can be asked for."""

# ruff: noqa: ARG002  (every loss has the same signature, whatever its formula needs)

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses.base import Loss, check_shapes
from neuro_divergent.losses.levels import uncrossed
from neuro_divergent.losses.quantile import draw_between, huber_pinball, pinball


class ImplicitQuantileHead(nn.Module):
    """value(raw, a) = linear(raw ∘ (1 + φ(a))), with φ(a) = relu(linear(cos(π·i·a), i = 0 … n - 1))."""

    multiples: Tensor

    def __init__(self, width: int, frequencies: int) -> None:
        super().__init__()
        self.register_buffer("multiples", math.pi * torch.arange(frequencies), persistent=False)
        self.embed = nn.Linear(frequencies, width)
        self.project = nn.Linear(width, 1)

    def forward(self, raw: Tensor, levels: Tensor | None = None) -> Tensor:
        """Training: [..., (value, level)] at one random level per window. With levels [n]: [..., n], sorted."""
        if levels is None:
            shape = (raw.shape[0], *[1] * (raw.ndim - 1))
            level = torch.rand(shape, device=raw.device, dtype=raw.dtype)
            value = self._value(raw, level)
            return torch.stack([value, level[..., 0].expand_as(value)], dim=-1)
        values = self._value(raw[..., None, :], levels.to(raw)[:, None])
        ranks = torch.argsort(torch.argsort(levels)).to(raw.device)
        return values.sort(dim=-1).values[..., ranks]

    def _value(self, raw: Tensor, level: Tensor) -> Tensor:
        waves = torch.cos(level * self.multiples.to(raw.dtype))
        value: Tensor = self.project(raw * (1 + F.relu(self.embed(waves))))
        return value[..., 0]


class ImplicitQuantile(Loss):
    """Pinball loss at a random level per window, which the head receives; any quantile can be forecast afterwards.

    The network gives `width` features per step, and the head turns them into values. What `values` takes is the head's
    training form [..., (value, level)]; everything else takes its forecasting form, [..., n] values at n levels.
    """

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

    def quantiles(self, output: Tensor, levels: Tensor) -> Tensor:
        """The head's values at these levels, as they are."""
        if output.shape[-1] != len(levels):
            raise ConfigError(
                f"{self.kind} needs the head's values at each of the {len(levels)} levels, but got {output.shape[-1]}. "
                "Call the head with the levels first"
            )
        return uncrossed(output, levels)

    def sample(self, output: Tensor, number: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws by inversion, from the head's values at the evenly spaced levels of `grid`."""
        known = tuple(self.grid(output.shape[-1]).tolist())
        return draw_between(output.sort(dim=-1).values, known, number, generator)

    def grid(self, number: int = 100) -> Tensor:
        """Evenly spaced levels, (i + ½) / number, at which the head is asked for before sampling."""
        return (torch.arange(number, dtype=torch.float64) + 0.5) / number


class HuberImplicitQuantile(ImplicitQuantile):
    """Implicit quantiles with the corner of the pinball loss rounded within delta."""

    delta: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Half the width of the rounded corner, in scaled units."""

    def _at(self, under: Tensor, level: Tensor) -> Tensor:
        return huber_pinball(under, level, self.delta)
