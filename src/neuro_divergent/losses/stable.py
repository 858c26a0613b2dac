"""Numerically stable formulas: finite, with finite derivatives, where the textbook form is not."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

# Below this, softplus(x) and exp(x) are equal in double precision, so log softplus(x) is x.
_EXPONENTIAL = -37.0
_EXPONENTIAL_FLOAT32 = -15.0


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient, or 0 with derivative 0 where the denominator is 0 (or so small that the quotient overflows)."""
    usable = denominator.abs() > math.sqrt(torch.finfo(denominator.dtype).tiny)
    return torch.where(usable, numerator / torch.where(usable, denominator, 1.0), 0.0)


def root(value: Tensor) -> Tensor:
    """The square root, with derivative 0 at 0 instead of infinity."""
    positive = value > 0
    return torch.where(positive, torch.sqrt(torch.where(positive, value, 1.0)), 0.0)


def log_softplus(raw: Tensor) -> Tensor:
    """log(log(1 + exp(raw))), finite for every finite input."""
    # Here both forms agree to about the last bit, and the derivative of the exact form would divide by an underflow.
    small = raw < (_EXPONENTIAL if raw.dtype == torch.float64 else _EXPONENTIAL_FLOAT32)
    # log1p(exp(.)) and not F.softplus, which is less precise for very negative inputs.
    inner = torch.where(small, 0.0, raw)
    soft = inner.clamp(min=0) + torch.log1p(torch.exp(-inner.abs()))
    return torch.where(small, raw, torch.log(soft))


def inverse_log_softplus(log_value: Tensor) -> Tensor:
    """The raw number whose softplus has this logarithm; the inverse of `log_softplus`."""
    small = log_value < _EXPONENTIAL
    value = torch.exp(torch.where(small, 0.0, log_value))
    return torch.where(small, log_value, value + torch.log(-torch.expm1(-value)))


def rescale_softplus(raw: Tensor, factor: Tensor) -> Tensor:
    """The raw number whose softplus is `factor` times the softplus of this one."""
    return inverse_log_softplus(log_softplus(raw) + torch.log(factor))


def inverse_softplus(value: Tensor) -> Tensor:
    """The raw number whose softplus is this positive value."""
    return inverse_log_softplus(torch.log(value))


def huber(error: Tensor, delta: float) -> Tensor:
    """½e² within delta, delta·(|e| - ½delta) beyond."""
    return F.huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)
