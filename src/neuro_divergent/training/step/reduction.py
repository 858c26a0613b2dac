"""From unreduced loss values and their weights to one number: means and sums over everything that counts."""

from __future__ import annotations

import torch
from torch import Tensor

from neuro_divergent.losses import Loss


def weighted_mean(values: Tensor, weights: Tensor | None, in_float64: bool = False) -> Tensor:
    """The mean over everything that counts; 0, with zero gradients, when nothing does."""
    values = _wide(values, in_float64)
    if weights is None:
        return values.mean()
    count = (weights.double() if in_float64 else weights).sum()
    return _summed(values, weights) / count.clamp(min=1e-12)


def weighted_sum(values: Tensor, weights: Tensor | None, in_float64: bool = False) -> tuple[Tensor, float]:
    """The sum of what counts, and how much that is."""
    values = _wide(values, in_float64)
    if weights is None:
        return values.sum(), float(values.numel())
    return _summed(values, weights), float(weights.sum())


def _summed(values: Tensor, weights: Tensor) -> Tensor:
    # A masked value may be anything: `where` keeps it out of the gradient too, which a product would not.
    kept = torch.where(weights > 0, values, torch.zeros_like(values))
    return (kept * weights.to(kept.dtype)).sum()


def _wide(values: Tensor, in_float64: bool) -> Tensor:
    """Sums are never taken in half precision, whatever a loss gave under autocast."""
    if in_float64:
        return values.double()
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def finish_slope(loss: Loss, mean: float) -> tuple[float, float]:
    """The finished loss of a mean, and its derivative there."""
    point = torch.tensor(mean, dtype=torch.float64, requires_grad=True)
    finished = loss.finish(point)
    if not finished.requires_grad:
        return float(finished.detach()), 0.0
    (slope,) = torch.autograd.grad(finished, point)
    return float(finished.detach()), float(slope)
