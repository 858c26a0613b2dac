"""Gradient noise: random numbers of decreasing size, added to the gradients before the step."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from pydantic import Field
from torch import Tensor

from neuro_divergent.core.config import Description
from neuro_divergent.core.seeding import torch_generator


class GradientNoise(Description):
    """Annealed Gaussian noise (Neelakantan et al. 2015): g ← g + N(0, σ²) with σ² = eta / (1 + t)^gamma at step t.

    The random numbers depend on (seed, step) only, so a resumed run adds the same noise.

    >>> GradientNoise(eta=1.0, gamma=0.5).variance(3)
    0.5
    """

    eta: float = Field(default=0.01, gt=0, allow_inf_nan=False)
    """Variance at the first step."""
    gamma: float = Field(default=0.55, ge=0, allow_inf_nan=False)
    """How fast the variance decreases; 0 keeps it constant."""

    def variance(self, step: int) -> float:
        """σ² at a step, counted from 0."""
        return float(self.eta / (1 + step) ** self.gamma)

    @torch.no_grad()
    def apply(self, parameters: Iterable[Tensor], step: int, seed: int) -> None:
        """Add the noise of a step to the gradients, in place."""
        generator = torch_generator(seed, "gradient_noise", step)
        deviation = self.variance(step) ** 0.5
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is not None:
                # Drawn on the CPU, so that a seed gives the same noise on every device.
                noise = torch.randn(gradient.shape, generator=generator, dtype=torch.float32)
                gradient.add_(noise.to(gradient.device, gradient.dtype), alpha=deviation)
