"""Clipping and optimizer steps as formulas of tensors, for a step that is compiled as one function.

What torch's own optimizers keep (their state tensors, keyed by parameter) is read and written in place, so that an
eager step, a checkpoint and a resume find what they expect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from neuro_divergent.optim import SGD, Adam, AdamW, ClipBoth, ClipByNorm, ClipByValue, Clipping, Optimizer

MEMORY: dict[type[Optimizer], tuple[str, ...]] = {
    Adam: ("exp_avg", "exp_avg_sq"),
    AdamW: ("exp_avg", "exp_avg_sq"),
    SGD: ("momentum_buffer",),
}
"""The optimizers that have a formula here, and what they remember of a parameter."""


class Weight(NamedTuple):
    """One parameter, what the optimizer remembers of it, and where its numbers stand."""

    value: Tensor
    memory: tuple[Tensor, ...]
    group: int
    decay: float


def has_formula(settings: object) -> bool:
    """Whether the step of an optimizer can be a part of the compiled function; a subclass may do anything."""
    if type(settings) is SGD:
        # Without momentum nothing tells, after a resume, which parameters have no gradient and must not be decayed.
        return settings.momentum > 0 or not (settings.weight_decay or any(g.weight_decay for g in settings.groups))
    return type(settings) in MEMORY and not getattr(settings, "amsgrad", False)


def clipping_has_formula(clipping: object) -> bool:
    """Whether a clipping can be a part of the compiled function."""
    return clipping is None or type(clipping) in (ClipByNorm, ClipByValue, ClipBoth)


def clipped(clipping: Clipping | None, gradients: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
    """The gradients after clipping, and their total norm from before."""
    total = total_norm(gradients, clipping.norm if isinstance(clipping, ClipByNorm) else 2.0)
    if isinstance(clipping, ClipByNorm):
        scale = stored((clipping.max_norm / (total + 1e-6)).clamp(max=1.0))
        return [gradient * scale for gradient in gradients], total
    if isinstance(clipping, ClipByValue):
        low, high = clipping.range
        return [gradient.clamp(low, high) for gradient in gradients], total
    if isinstance(clipping, ClipBoth):
        by_value, _ = clipped(clipping.value, gradients)
        return clipped(clipping.norm, by_value)[0], total
    return list(gradients), total


def total_norm(gradients: Sequence[Tensor], norm: float) -> Tensor:
    """Norm of all gradients as one vector."""
    total: Tensor = torch.linalg.vector_norm(
        torch.stack([torch.linalg.vector_norm(gradient, norm) for gradient in gradients]), norm
    )
    return total


def stored(number: Tensor) -> Tensor:
    """The same 0-d number, from memory: else the compiler computes it anew for every eight weights."""
    return torch.stack([number, number])[0]


def factors(settings: Optimizer, rate: float, count: float) -> list[float]:
    """The numbers of a step that are the same for all weights of a group: rate, length of the step, divisor's divisor.

    Args:
        settings: an optimizer that `has_formula`.
        rate: the learning rate of the group.
        count: steps with this one.
    """
    if isinstance(settings, SGD):
        return [rate, rate, 1.0]
    assert isinstance(settings, Adam | AdamW)
    fast, slow = settings.betas
    return [rate, rate / (1 - fast**count), math.sqrt(1 - slow**count)]


def moved(settings: Optimizer, weight: Weight, gradient: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
    """The parameter and its memory after a step, in the order (value, *memory).

    Args:
        settings: an optimizer that `has_formula`.
        weight: where the parameter stands.
        gradient: its clipped gradient.
        numbers: [3] float64, the `factors` of its group.
    """
    value = weight.value
    rate, length, root = numbers.unbind()
    if isinstance(settings, SGD):
        return _sgd(settings, weight, gradient + weight.decay * value if weight.decay else gradient, rate)
    assert isinstance(settings, Adam | AdamW)
    if weight.decay and isinstance(settings, AdamW):
        value = value * (1 - rate * weight.decay)
    elif weight.decay:
        gradient = gradient + weight.decay * value
    (fast, slow), (first, second) = settings.betas, weight.memory
    first = first + (gradient - first) * (1 - fast)
    second = second * slow + gradient * gradient * (1 - slow)
    return value - length * (first / (second.sqrt() / root + settings.eps)), first, second


def _sgd(settings: SGD, weight: Weight, gradient: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
    if not weight.memory:
        return (weight.value - rate * gradient,)
    momentum = settings.momentum * weight.memory[0] + (1 - settings.dampening) * gradient
    direction = gradient + settings.momentum * momentum if settings.nesterov else momentum
    return weight.value - rate * direction, momentum


def collect(settings: Optimizer, optimizer: torch.optim.Optimizer) -> tuple[list[str], list[Weight], Tensor] | None:
    """Names, weights and the common count of steps; None until every parameter has had a gradient.

    The counts become parts of one tensor, so that one addition counts for all.
    """
    names, weights, counts = [], [], []
    wanted = MEMORY[type(settings)] if not isinstance(settings, SGD) or settings.momentum else ()
    for number, group in enumerate(optimizer.param_groups):
        for name, parameter in zip(group["names"], group["params"], strict=True):
            kept: dict[str, Any] = optimizer.state[parameter] if wanted else {}
            memory = tuple(kept.get(entry) for entry in wanted)
            if any(entry is None for entry in memory):
                return None
            names.append(name)
            weights.append(Weight(parameter.detach(), memory, number, float(group["weight_decay"])))  # type: ignore[arg-type]
            if "step" in kept:
                counts.append((kept, kept["step"]))
    return names, weights, _joined(counts)


def _joined(counts: list[tuple[dict[str, Any], Tensor]]) -> Tensor:
    if not counts:
        return torch.zeros(1)
    joined = torch.stack([count for _, count in counts])
    for number, (kept, _) in enumerate(counts):
        kept["step"] = joined[number]
    return joined
