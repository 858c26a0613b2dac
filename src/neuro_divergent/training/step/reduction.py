"""Weighted means and sums of unreduced loss values."""

from __future__ import annotations

import torch
from torch import Tensor

from neuro_divergent.losses import Loss


def weighted_mean(values: Tensor, weights: Tensor | None, in_float64: bool = False) -> Tensor:
    """The weighted mean; 0, with zero gradients, if all weights are 0."""
    values = _wide(values, in_float64)
    if weights is None:
        return values.mean()
    count = (weights.double() if in_float64 else weights).sum()
    return _summed(values, weights) / count.clamp(min=1e-12)


def weighted_sum(values: Tensor, weights: Tensor | None, in_float64: bool = False) -> tuple[Tensor, float]:
    """The weighted sum, and the sum of the weights."""
    values = _wide(values, in_float64)
    if weights is None:
        return values.sum(), float(values.numel())
    return _summed(values, weights), float(weights.sum())


def _summed(values: Tensor, weights: Tensor) -> Tensor:
    # A masked value may be NaN or infinite: `where` keeps it out of the gradient, too, which a product would not.
    kept = torch.where(weights > 0, values, torch.zeros_like(values))
    return (kept * weights.to(kept.dtype)).sum()


def _wide(values: Tensor, in_float64: bool) -> Tensor:
    """The values in a format for sums: never half precision, which autocast may have returned."""
    if in_float64:
        return values.double()
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def finish_slope(loss: Loss, mean: float) -> tuple[float, float]:
    """`loss.finish(mean)`, and its derivative at this mean."""
    point = torch.tensor(mean, dtype=torch.float64, requires_grad=True)
    finished = loss.finish(point)
    if not finished.requires_grad:
        return float(finished.detach()), 0.0
    (slope,) = torch.autograd.grad(finished, point)
    return float(finished.detach()), float(slope)
