"""Numerical work in float64 on the CPU, outside any gradient: special functions, inversion of a cdf, draws."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Cdf = Callable[[Tensor], Tensor]

_TINY = 1e-300


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method)."""
    a, b, x = torch.broadcast_tensors(a, b, x)  # type: ignore[no-untyped-call]
    swap = x > (a + 1) / (a + b + 2)  # there the fraction of the complement converges fast
    a, b = torch.where(swap, b, a), torch.where(swap, a, b)
    x = torch.where(swap, 1 - x, x).clamp(0, 1)
    log_front = torch.lgamma(a + b) - torch.lgamma(a) - torch.lgamma(b) + torch.xlogy(a, x) + torch.xlogy(b, 1 - x)
    value = torch.exp(log_front) * _beta_fraction(a, b, x) / a
    return torch.where(swap, 1 - value, value).clamp(0, 1)


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor, limit: int = 5000) -> Tensor:
    c = torch.ones_like(x)
    d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, limit):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + numerator * d)
            c = _away_from_zero(1 + numerator / c)
            change = c * d
            fraction = fraction * change
        if bool(((change - 1).abs() < 1e-14).all()):
            break
    return fraction


def _away_from_zero(value: Tensor) -> Tensor:
    return torch.where(value.abs() < _TINY, _TINY, value)


def invert_continuous(cdf: Cdf, density: Cdf, levels: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Where a continuous cdf reaches the levels: Newton steps, halving instead whenever one leaves the bracket."""
    low, high = _widen(cdf, levels, low, high)
    near = 1e-12 * (high - low)
    x = (low + high) / 2
    for _ in range(200):
        excess = cdf(x) - levels
        low, high = torch.where(excess < 0, x, low), torch.where(excess < 0, high, x)
        newton = x - excess / density(x).clamp(min=_TINY)
        # Where the step is nothing any more, x is a bound itself and its step may fall on the wrong side of it.
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


def invert_discrete(cdf: Cdf, levels: Tensor, high: Tensor) -> Tensor:
    """The smallest whole number of at least 0 whose cdf reaches the level, by halving."""
    low = torch.full_like(high, -1.0)
    low, high = _widen(lambda x: torch.where(x < 0, 0.0, cdf(x)), levels, low, high.ceil())
    while bool((high - low > 1).any()):
        middle = torch.floor((low + high) / 2)
        reached = cdf(middle.clamp(min=0)) >= levels
        wide = high - low > 1
        low, high = torch.where(wide & ~reached, middle, low), torch.where(wide & reached, middle, high)
    return high


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
