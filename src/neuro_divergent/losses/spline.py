"""Incremental spline quantile function (Park et al. 2022): the quantile function itself is the forecast.

Between fixed levels a₁ < … < a_K the quantile function is a chain of straight pieces, rising by positive increments;
below a₁ and above a_K it has exponential tails, q(a) = y₁ + β·log(a/a₁) and q(a) = y_K - β·log((1 - a)/(1 - a_K)).
Quantiles cannot cross. The cdf, the mean and the continuous ranked probability score (CRPS) have closed forms. The loss
is the CRPS.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from neuro_divergent.losses.families import Family, scale_of
from neuro_divergent.losses.numeric import uniform_draws
from neuro_divergent.losses.stable import rescale_softplus


class _Curve(NamedTuple):
    x: Tensor  # [..., N] levels of the joints, ascending
    y: Tensor  # [..., N] values at the joints
    left: Tensor  # [...] β of the lower tail
    right: Tensor  # [...] β of the upper tail


class SplineQuantile(Family):
    """Raw parameters: the first value; K - 1 rises and 2 tails (softplus); shares of x and y per interval (softmax)."""

    def __init__(self, knots: tuple[float, ...], pieces: int) -> None:
        self.knots, self.pieces = knots, pieces
        self.intervals = len(knots) - 1
        self.outputs = 1 + self.intervals + 2 + 2 * self.intervals * pieces

    def values(self, raw: Tensor, target: Tensor) -> Tensor:
        """The CRPS, 2·(∫ over a > cdf(target) of q̂ - ∫ a·q̂), with q̂ = q - target."""
        curve = self._curve(raw)
        # The score's derivative by the cdf is q(cdf) - target = 0, so the cdf needs no gradient.
        level = self._cdf(curve, target).detach()
        shifted = curve._replace(y=curve.y - target[..., None])
        return 2 * (_integral_above(shifted, level) - _first_moment(shifted))

    def log_prob(self, raw: Tensor, value: Tensor) -> Tensor:
        """Logarithm of the density, which is one over the quantile function's slope."""
        curve = self._curve(raw)
        level = self._cdf(curve, value)
        joint = self._piece(curve.x, level)
        rise, run = (_at(part, joint + 1) - _at(part, joint) for part in (curve.y, curve.x))
        slope = rise / run
        slope = torch.where(level < curve.x[..., 0], curve.left / level, slope)
        return -torch.log(torch.where(level > curve.x[..., -1], curve.right / (1 - level), slope))

    def unscale(self, raw: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """The first value scaled and shifted, rises and tails scaled, shares unchanged."""
        first, positive, shares = torch.split(raw, [1, self.intervals + 2, self.outputs - self.intervals - 3], dim=-1)
        return torch.cat([first * scale + location, rescale_softplus(positive, scale), shares], dim=-1)

    def mean(self, raw: Tensor) -> Tensor:
        """The integral of the quantile function."""
        return _integral_above(self._curve(raw), torch.zeros_like(raw[..., 0]))

    def draw(self, raw: Tensor, generator: torch.Generator | None) -> Tensor:
        """The quantile function at a uniform draw."""
        return self.sample(raw, 1, generator)[0]

    def sample(self, raw: Tensor, number: int, generator: torch.Generator | None) -> Tensor:
        """The quantile function, built once, at uniform draws."""
        uniform = uniform_draws(raw[..., :1].expand(*raw.shape[:-1], number), generator).clamp(1e-12, 1 - 1e-12)
        return self._values_at(self._curve(raw), uniform).movedim(-1, 0)

    def cdf(self, raw: Tensor, value: Tensor) -> Tensor:
        """The level at which the quantile function has this value."""
        return self._cdf(self._curve(raw), value)

    def quantile(self, raw: Tensor, levels: Tensor) -> Tensor:
        """The quantile function itself."""
        return self._values_at(self._curve(raw), levels.expand(*raw.shape[:-1], levels.shape[-1]))

    def _curve(self, raw: Tensor) -> _Curve:
        sizes = [1, self.intervals, 2, self.intervals * self.pieces, self.intervals * self.pieces]
        first, rises, tails, x_shares, y_shares = torch.split(raw, sizes, dim=-1)
        knots = raw.new_tensor(self.knots)
        widths = self._shared(knots.diff(), x_shares)
        heights = self._shared(F.softplus(rises), y_shares)
        start, end = (knots[i].expand(*widths.shape[:-1], 1) for i in (0, -1))  # constants: the tails begin there
        x = torch.cat([start, knots[0] + widths[..., :-1].cumsum(dim=-1), end], dim=-1)
        y = torch.cat([first, first + heights.cumsum(dim=-1)], dim=-1)
        left, right = torch.exp(scale_of(tails)).unbind(dim=-1)
        return _Curve(x, y, left, right)

    def _shared(self, wholes: Tensor, shares: Tensor) -> Tensor:
        parts = torch.softmax(shares.reshape(*shares.shape[:-1], self.intervals, self.pieces), dim=-1)
        parts = 1e-3 / self.pieces + (1 - 1e-3) * parts  # a piece without width would have no slope
        return (wholes[..., None] * parts).flatten(-2)

    def _cdf(self, curve: _Curve, value: Tensor) -> Tensor:
        joint = self._piece(curve.y, value)
        low, high = _at(curve.y, joint), _at(curve.y, joint + 1)
        share = ((value - low) / (high - low).clamp(min=1e-30)).clamp(0, 1)
        middle = torch.lerp(_at(curve.x, joint), _at(curve.x, joint + 1), share)
        first, last = curve.y[..., 0], curve.y[..., -1]
        lower = curve.x[..., 0] * torch.exp(((value - first) / curve.left).clamp(-80.0, 0.0))
        upper = 1 - (1 - curve.x[..., -1]) * torch.exp(((last - value) / curve.right).clamp(-80.0, 0.0))
        return torch.where(value < first, lower, torch.where(value > last, upper, middle))

    def _piece(self, joints: Tensor, value: Tensor) -> Tensor:
        """Index of the piece that contains a value, [...]; values in the tails get the outermost pieces."""
        return ((joints <= value[..., None]).sum(dim=-1) - 1).clamp(0, joints.shape[-1] - 2)

    def _values_at(self, curve: _Curve, levels: Tensor) -> Tensor:
        joint = torch.searchsorted(curve.x.contiguous(), levels.contiguous()).sub(1).clamp(0, curve.x.shape[-1] - 2)
        x0, x1, y0, y1 = (torch.gather(part, -1, joint + up) for part in (curve.x, curve.y) for up in (0, 1))
        middle = torch.lerp(y0, y1, ((levels - x0) / (x1 - x0)).clamp(0, 1))
        low, high = curve.x[..., :1], curve.x[..., -1:]
        below = curve.y[..., :1] + curve.left[..., None] * torch.log((levels / low).clamp(max=1))
        above = curve.y[..., -1:] - curve.right[..., None] * torch.log(((1 - levels) / (1 - high)).clamp(max=1))
        return torch.where(levels < low, below, torch.where(levels > high, above, middle))


def _at(values: Tensor, index: Tensor) -> Tensor:
    return torch.gather(values, -1, index[..., None])[..., 0]


def _integral_above(curve: _Curve, level: Tensor) -> Tensor:
    """∫ q(a) da over a from `level` to 1."""
    x0, x1, y0, y1 = curve.x[..., :-1], curve.x[..., 1:], curve.y[..., :-1], curve.y[..., 1:]
    start = level[..., None].clamp(min=x0).clamp(max=x1)
    at_start = torch.lerp(y0, y1, (start - x0) / (x1 - x0))
    pieces = ((x1 - start) * (at_start + y1) / 2).sum(dim=-1)
    low, top, first, last = curve.x[..., 0].detach(), 1 - curve.x[..., -1].detach(), curve.y[..., 0], curve.y[..., -1]
    c = torch.minimum(level, low)
    left = first * (low - c) + curve.left * (c - low - torch.xlogy(c, c / low))
    u = torch.minimum(1 - level, top)
    right = last * u - curve.right * (torch.xlogy(u, u / top) - u)
    return left + pieces + right


def _first_moment(curve: _Curve) -> Tensor:
    """∫ a·q(a) da over all levels."""
    x0, x1, y0, y1 = curve.x[..., :-1], curve.x[..., 1:], curve.y[..., :-1], curve.y[..., 1:]
    pieces = ((x1 - x0) / 6 * (2 * x0 * y0 + x0 * y1 + x1 * y0 + 2 * x1 * y1)).sum(dim=-1)
    low, top = curve.x[..., 0], 1 - curve.x[..., -1]
    left = curve.y[..., 0] * low.square() / 2 - curve.left * low.square() / 4
    right = curve.y[..., -1] * (top - top.square() / 2) + curve.right * (top - top.square() / 4)
    return left + pieces + right
