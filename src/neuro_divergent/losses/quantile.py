"""Quantile losses: one quantile or several, as the pinball loss or its smooth (Huber) form.

With u = y - f, the pinball loss at level q is q·u for u ≥ 0 and (q - 1)·u below; its minimiser is the q-quantile.
"""

# ruff: noqa: ARG002  (every loss has the same signature, whatever its formula needs)

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.losses.base import Loss, Point, check_shapes
from neuro_divergent.losses.point_choice import check_mean_of, mean_of_quantiles
from neuro_divergent.losses.probability_levels import Levelled, interpolate, level_tuple, refuse_outside, uncrossed
from neuro_divergent.losses.stable import huber


def pinball(under: Tensor, level: Tensor | float) -> Tensor:
    """The pinball loss of u = target - forecast at a level (or one level per element)."""
    # One product with a slope that needs no gradient costs a fifth of the maximum of two products.
    slope: Tensor = 0.5 * under.detach().sign() + (level - 0.5)
    return under * slope


def huber_pinball(under: Tensor, level: Tensor | float, delta: float) -> Tensor:
    """|q - 1{u < 0}|·huber(u) / delta (Dabney et al. 2018): the pinball loss with its corner rounded within delta."""
    side = (under.detach() < 0).to(under.dtype)
    return (level - side).abs() * huber(under, delta) / delta


class Quantile(Loss):
    """Pinball loss of one quantile."""

    q: float = Field(default=0.5, gt=0, lt=1)
    """The quantile that is forecast."""

    @property
    def shows(self) -> Point | None:
        """The "median" at level 0.5, else None."""
        return "median" if self.q == 0.5 else None

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced pinball losses."""
        check_shapes(output, target)
        return self._at(target - output[..., 0], self.q)

    def _at(self, under: Tensor, level: Tensor | float) -> Tensor:
        return pinball(under, level)


class HuberQuantile(Quantile):
    """Pinball loss of one quantile, squared within delta: smooth where the error is small."""

    delta: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Half the width of the rounded corner, in scaled units."""

    def _at(self, under: Tensor, level: Tensor | float) -> Tensor:
        return huber_pinball(under, level, self.delta)


class MQLoss(Levelled):
    """Mean pinball loss of several quantiles. The point forecast is the median, or with point="mean" the mean.

    The mean is computed from the quantiles, with exponential tails beyond them; see `mean_of_quantiles`.

    Forecast quantiles are sorted, so that they never cross. Levels between the trained quantiles are interpolated.
    Levels beyond the outermost ones are refused, because the model learned nothing there.

    >>> MQLoss(level=[80]).levels
    (0.1, 0.5, 0.9)
    """

    weights: Takes[tuple[float, ...] | None, Sequence[float] | None] = default(None)
    """Weight of each quantile; equal when None. The order is that of quantiles=, or with level= the ascending order of
    the quantiles (the median is one of them)."""

    own_point: ClassVar[Point] = "median"

    @model_validator(mode="after")
    def _quantiles_for_a_mean(self) -> Self:
        if self.shows == "mean":
            check_mean_of(self.kind, self.levels)
        return self

    @model_validator(mode="after")
    def _one_weight_per_quantile(self) -> Self:
        if self.weights is None:
            return self
        if len(self.weights) != self.outputs or min(self.weights) < 0 or sum(self.weights) <= 0:
            raise ConfigError(
                f"weights must be one number of at least 0 for each of the {self.outputs} quantiles {self.levels}, "
                f"not all 0, but got weights={self.weights}"
            )
        return self

    @property
    def outputs(self) -> int:
        """One output per quantile."""
        return len(self.levels)

    @property
    def probabilistic(self) -> bool:
        """True: the outputs are quantiles."""
        return True

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced pinball losses, averaged over the quantiles."""
        check_shapes(output, target, self.outputs)
        losses = self._at(target[..., None] - output, output.new_tensor(self.levels))
        if self.weights is None:
            return losses.mean(dim=-1)
        weights = output.new_tensor(self._ascending_weights())
        return (losses * weights).sum(dim=-1) / weights.sum()

    def _ascending_weights(self) -> list[float]:
        """The weights in the order of `levels`."""
        assert self.weights is not None
        asked = level_tuple(self.probabilities) or self.levels
        return [weight for _, weight in sorted(zip(asked, self.weights, strict=True))]

    def _at(self, under: Tensor, level: Tensor) -> Tensor:
        return pinball(under, level)

    def mean(self, output: Tensor) -> Tensor:
        """The mean of the distribution that the quantiles describe."""
        return mean_of_quantiles(output.sort(dim=-1).values, self.levels)

    def median(self, output: Tensor) -> Tensor:
        """The median; if all trained levels lie on one side of 0.5, the quantile nearest to it."""
        return interpolate(output.sort(dim=-1).values, self.levels, torch.tensor([0.5]))[..., 0]

    def quantiles(self, output: Tensor, levels: Tensor) -> Tensor:
        """The sorted outputs, interpolated between the trained levels."""
        refuse_outside(self.kind, self.levels, levels)
        return uncrossed(interpolate(output.sort(dim=-1).values, self.levels, levels), levels)

    def sample(self, output: Tensor, number: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws by inversion; nothing is drawn beyond the outermost trained quantiles."""
        return draw_between(output.sort(dim=-1).values, self.levels, number, generator)


class HuberMQLoss(MQLoss):
    """Mean pinball loss of several quantiles, squared within delta."""

    delta: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Half the width of the rounded corner, in scaled units."""

    def _at(self, under: Tensor, level: Tensor) -> Tensor:
        return huber_pinball(under, level, self.delta)


def draw_between(
    values: Tensor, known: tuple[float, ...], number: int, generator: torch.Generator | None = None
) -> Tensor:
    """Draws from sorted quantiles at known levels, by inversion of uniform draws; [..., n] → [number, ...]."""
    shape = (number, *values.shape[:-1])
    device = values.device if generator is None else generator.device
    uniform = torch.rand(shape, generator=generator, device=device, dtype=values.dtype).to(values.device)
    at = values.new_tensor(known)
    right = torch.searchsorted(at, uniform).clamp(1 if len(known) > 1 else 0, len(known) - 1)
    left = (right - 1).clamp(min=0)
    share = ((uniform - at[left]) / (at[right] - at[left]).clamp(min=1e-12)).clamp(0, 1)
    wide = values.expand(number, *values.shape)
    low, high = (torch.gather(wide, -1, index[..., None])[..., 0] for index in (left, right))
    return torch.lerp(low, high, share)
