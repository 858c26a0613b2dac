"""Numerical functions in float64 on the CPU, without gradients: special functions, inversion of a cdf, draws."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Cdf = Callable[[Tensor], Tensor]

_TINY = 1e-300


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The regularised incomplete beta function I_x(a, b), by a continued fraction (Didonato & Morris 1992, BFRAC)."""
    a, b, x = torch.broadcast_tensors(a, b, x)  # type: ignore[no-untyped-call]
    off = (a + b) * x - a
    front = torch.exp(_log_beta_front(a, b, off))
    swap = x > (a + 1) / (a + b + 2)  # there the continued fraction of 1 - x converges fast
    a, b = torch.where(swap, b, a), torch.where(swap, a, b)
    x, off = torch.where(swap, 1 - x, x).clamp(0, 1), torch.where(swap, -off, off)
    value = front / _beta_fraction(a, b, x, off)
    return torch.where(swap, 1 - value, value).clamp(0, 1)


def _log_beta_front(a: Tensor, b: Tensor, off: Tensor) -> Tensor:
    """log(x^a·(1 - x)^b / B(a, b)) by Loader's form (2000), because logarithms of large factorials would cancel.

    With n = a + b and off = n·x - a it is a·log(1 + off/a) + b·log(1 - off/b) + ½·log(ab / 2πn), and the remainders of
    Stirling's formula.
    """
    spread = a * torch.log1p((off / a).clamp(min=-1)) + b * torch.log1p((-off / b).clamp(min=-1))
    rest = _stirling_rest(a + b) - _stirling_rest(a) - _stirling_rest(b)
    return spread + 0.5 * torch.log(a * b / (2 * math.pi * (a + b))) + rest


def _stirling_rest(z: Tensor) -> Tensor:
    """log Γ(z) minus Stirling's formula (z - ½)·log z - z + ½·log 2π."""
    large = z >= 10
    safe = torch.where(large, z, 10.0)
    inverse = safe.square().reciprocal()
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))) / safe
    direct = torch.lgamma(z) - ((z - 0.5) * torch.log(z) - z + 0.5 * math.log(2 * math.pi))
    return torch.where(large, series, direct)


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor, off: Tensor, limit: int = 1000) -> Tensor:
    """The denominator of the continued fraction by Lentz's method; `off` = (a + b)·x - a avoids cancellation."""
    fraction = _away_from_zero(a * (1 - off) / (a + 1))
    c, d = fraction, torch.zeros_like(x)
    for m in range(1, limit):
        near = a + 2 * m - 1
        step = m * (b - m) * x / near
        numerator = (a + m - 1) * (a + b + m - 1) * x / near * step
        denominator = m + step + (a + m) * (1 - off + m * (2 - x)) / (near + 2)
        d = 1 / _away_from_zero(denominator + numerator * d)
        c = _away_from_zero(denominator + numerator / c)
        change = c * d
        fraction = fraction * change
        if m % 4 == 0 and bool(((change - 1).abs() < 1e-13).all()):
            break
    return fraction


def _away_from_zero(value: Tensor) -> Tensor:
    return torch.where(value.abs() < _TINY, _TINY, value)


def invert_continuous(cdf: Cdf, density: Cdf, levels: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The values where a continuous cdf reaches the levels, by Newton steps; bisection if a step leaves the bracket."""
    low, high = _widen(cdf, levels, low, high)
    near = 1e-12 * (high - low)
    x = (low + high) / 2
    for _ in range(200):
        excess = cdf(x) - levels
        low, high = torch.where(excess < 0, x, low), torch.where(excess < 0, high, x)
        newton = x - excess / density(x).clamp(min=_TINY)
        # When the step is almost 0, x is a bound of the bracket and rounding may put the step outside it.
        settled = (newton - x).abs() <= near + 1e-11 * x.abs()
        inside = settled | ((newton > low) & (newton < high))
        x = torch.where(inside, newton, (low + high) / 2)
        if bool(settled.all()):
            break
    return x


def _widen(cdf: Cdf, levels: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    low, high = low.expand(*low.shape[:-1], levels.shape[-1]), high.expand(*high.shape[:-1], levels.shape[-1])
    for _ in range(200):
        below, above = cdf(low) > levels, cdf(high) < levels
        if not bool((below | above).any()):
            break
        width = high - low
        low, high = torch.where(below, low - width, low), torch.where(above, high + width, high)
    return low, high


def invert_discrete(cdf: Cdf, mass: Cdf, levels: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The smallest whole number of at least 0 whose cdf reaches the level.

    It takes Newton steps within a bracket; the slope is the probability mass of a number. About twelve evaluations of
    the cdf are enough, even for large numbers. If steps leave the bracket or shrink it slowly, it is bisected.
    """

    def reached(x: Tensor) -> Tensor:
        return torch.where(x < 0, 0.0, cdf(x.clamp(min=0)))

    low, high = _widen(reached, levels, low.floor(), high.ceil())
    low, width = low.clamp(min=-1), high - low
    x, before = ((low + high) / 2).floor(), 2 * width
    for turn in range(200):
        below = reached(x)
        low, high = torch.where(below < levels, x, low), torch.where(below < levels, high, x)
        width, last = high - low, width
        # Beyond 2^53 whole numbers lie more than 1 apart.
        if bool((width <= torch.clamp(4e-16 * high, min=1.0)).all()):
            break
        slow = width > before / 2
        # A little more than the Newton step (twice as much if it was too short), so that both bounds move.
        step = _newton_step(below, mass(x.clamp(min=0)), levels, x) * torch.where(slow, 2.0, 1.001)
        target = torch.where(step > 0, (x + step).ceil(), (x + step).floor())
        taken = (target > low) & (target < high) & ~(slow & (turn % 4 == 3))
        apart = high > 16 * (low + 2)  # different orders of magnitude: bisect the logarithms
        middle = torch.where(apart, torch.sqrt((low + 2) * high), (low + high) / 2).floor()
        x = torch.where(taken, target, middle)
        x, before = torch.where(width <= 1, high, x), last
    return high


def _newton_step(below: Tensor, slope: Tensor, levels: Tensor, x: Tensor) -> Tensor:
    """The Newton step towards cdf = `levels`; for the lower half on log scale, where the cdf is like a power of x."""
    slope = slope.clamp(min=_TINY)
    growth = torch.log(levels / below) * below / (slope * (x + 1))
    return torch.where(levels <= 0.5, (x + 1) * torch.expm1(growth.clamp(-50, 50)), (levels - below) / slope)


def gamma_draws(shape: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draws from Gamma(shape, 1); 0 where the shape is 0."""
    draws: Tensor = torch._standard_gamma(shape.clamp(min=1e-30), generator=generator)
    return torch.where(shape > 0, draws, 0.0)


def normal_draws(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Standard normal draws of a tensor's shape."""
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


def uniform_draws(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Uniform draws of a tensor's shape."""
    return torch.rand(like.shape, generator=generator, dtype=like.dtype, device=like.device)
