"""Layers of learned functions: each pair of input and output has a separate learned curve.

Letters: B rows, I inputs, O outputs, K basis functions.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.nn.batch_norm import BatchNorm

WaveletName = Literal["mexican_hat", "morlet", "dog"]

_FAR = 20.0
"""Every wavelet is 0 in float32 at this distance. Inputs are clamped to it, so that their squares do not overflow."""


def uniform_knots(intervals: int, order: int, low: float, high: float) -> Tensor:
    """The knots of B-splines on [low, high]: equally spaced, `order` more on each side."""
    step = (high - low) / intervals
    return low + step * torch.arange(-order, intervals + order + 1, dtype=torch.float32)


def spline_bases(x: Tensor, knots: Tensor, order: int) -> Tensor:
    """B-splines of equally spaced knots at x, [...] → [..., K] (the recursion of Cox and de Boor).

    Within the range they sum to 1:

    >>> round(float(spline_bases(torch.tensor(0.3), uniform_knots(5, 3, -1.0, 1.0), 3).sum()), 5)
    1.0
    """
    x = x.unsqueeze(-1)
    bases = ((x >= knots[:-1]) & (x < knots[1:])).to(x.dtype)
    step = knots[1] - knots[0]
    for k in range(1, order + 1):
        rising = (x - knots[: -k - 1]) / (k * step)
        falling = (knots[k + 1 :] - x) / (k * step)
        bases = rising * bases[..., :-1] + falling * bases[..., 1:]
    return bases


class SplineLayer(nn.Module):
    """[B, I] → [B, O]: each curve is a weighted SiLU plus a weighted B-spline (Liu et al. 2024)."""

    knots: Tensor

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        intervals: int = 5,
        order: int = 3,
        low: float = -1.0,
        high: float = 1.0,
        noise: float = 0.1,
    ) -> None:
        super().__init__()
        self.order = order
        self.register_buffer("knots", uniform_knots(intervals, order, low, high), persistent=False)
        self.base_weight = nn.Parameter(torch.empty(outputs, inputs))
        self.spline_weight = nn.Parameter(torch.empty(outputs, inputs, intervals + order))
        self.spline_scale = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.kaiming_uniform_(self.base_weight, a=math.sqrt(5))
        nn.init.kaiming_uniform_(self.spline_scale, a=math.sqrt(5))
        nn.init.uniform_(self.spline_weight, -noise / (2 * intervals), noise / (2 * intervals))

    def forward(self, x: Tensor) -> Tensor:
        """[B, I] → [B, O]"""
        bases = spline_bases(x, self.knots, self.order)
        curves = self.spline_weight * self.spline_scale.unsqueeze(-1)
        return F.linear(F.silu(x), self.base_weight) + F.linear(bases.flatten(1), curves.flatten(1))


class TaylorLayer(nn.Module):
    """[B, I] → [B, O]: each curve is a polynomial with `order` terms."""

    def __init__(self, inputs: int, outputs: int, order: int) -> None:
        super().__init__()
        self.order = order
        self.weight = nn.Parameter(torch.randn(outputs, inputs, order) * 0.01)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """[B, I] → [B, O]"""
        powers = torch.stack([x**power for power in range(self.order)], dim=-1)
        return F.linear(powers.flatten(1), self.weight.flatten(1), self.bias)


class JacobiLayer(nn.Module):
    """[B, I] → [B, O]: each curve is a sum of Jacobi polynomials of tanh(x)."""

    def __init__(self, inputs: int, outputs: int, degree: int) -> None:
        super().__init__()
        self.degree = degree
        self.weight = nn.Parameter(torch.empty(outputs, inputs, degree + 1))
        nn.init.normal_(self.weight, std=1 / (inputs * (degree + 1)))

    def forward(self, x: Tensor) -> Tensor:
        """[B, I] → [B, O]"""
        return F.linear(jacobi(torch.tanh(x), self.degree).flatten(1), self.weight.flatten(1))


def jacobi(x: Tensor, degree: int, a: float = 1.0, b: float = 1.0) -> Tensor:
    """Jacobi polynomials of degrees 0 ... degree at x in [-1, 1], [...] → [..., degree + 1]."""
    rows = [torch.ones_like(x), ((a - b) + (a + b + 2) * x) / 2]
    for n in range(2, degree + 1):
        c = 2 * n + a + b
        slope = c * (c - 1) / (2 * n * (n + a + b))
        shift = (c - 1) * (a * a - b * b) / (2 * n * (n + a + b) * (c - 2))
        back = (n + a - 1) * (n + b - 1) * c / (n * (n + a + b) * (c - 2))
        rows.append((slope * x + shift) * rows[n - 1] - back * rows[n - 2])
    return torch.stack(rows[: degree + 1], dim=-1)


class WaveletLayer(nn.Module):
    """[B, I] → [B, O]: each curve is one shifted and scaled wavelet; the sums are normalised over the batch.

    The scale is stored as a factor of the input, so that it can pass through 0 without a division.
    """

    def __init__(self, inputs: int, outputs: int, wavelet: WaveletName) -> None:
        super().__init__()
        self.wavelet = wavelet
        self.frequency = nn.Parameter(torch.ones(outputs, inputs))
        self.translation = nn.Parameter(torch.zeros(outputs, inputs))
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.norm = BatchNorm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """[B, I] → [B, O]"""
        z = ((x.unsqueeze(1) - self.translation) * self.frequency).clamp(-_FAR, _FAR)
        normed: Tensor = self.norm((wavelet(z, self.wavelet) * self.weight).sum(dim=-1))
        return normed


def wavelet(z: Tensor, name: WaveletName) -> Tensor:
    """The mother wavelet at z."""
    envelope = torch.exp(-0.5 * z.square())
    if name == "mexican_hat":
        height: float = 2 / (math.sqrt(3) * math.pi**0.25)
        return height * (z.square() - 1) * envelope
    if name == "morlet":
        return torch.cos(5.0 * z) * envelope
    return -z * envelope
