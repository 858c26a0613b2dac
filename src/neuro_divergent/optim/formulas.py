"""Optimizer steps and gradient clipping as functions of tensors.

An eager training uses torch.optim. Two other ways to train need the formulas themselves: a step that is compiled as one
function, and a stack of many members in one tensor. Both call this module.

Shapes: a parameter is one tensor of any shape, or M members in one tensor [M, ...]. With members, a scalar is a number
for all or a tensor [M, 1, ...] with one number per member.

`in_place=True` changes the given tensors by torch's in-place kernels, which allocate less: a stack needs the speed.
`lerp_`, `addcmul_` and `add_` with a factor multiply and add in one instruction. They round once where the plain
expression rounds twice, so the last bit may differ. A compiled step needs the plain expressions, which the compiler
fuses. Where the two spellings differ, they stand side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from neuro_divergent.optim.clipping import ClipBoth, ClipByNorm, ClipByValue, Clipping
from neuro_divergent.optim.optimizers import SGD, Adam, AdamW, Optimizer

Rate = TypeVar("Rate", float, Tensor)
"""A learning rate: one number, or one per member."""

Memory = tuple[Tensor, ...]
"""The state tensors of a parameter, in the order of `memory_names`."""


class Scalars(NamedTuple, Generic[Rate]):
    """Per-group scalars of one step. SGD does not use `second_root`, Adam does not use `gradient_share`."""

    rate: Rate
    """The learning rate α."""
    step_size: Rate
    """Factor of the direction: α / (1 − β₁ᵗ), or α for SGD."""
    second_root: float | Tensor
    """sqrt(1 − β₂ᵗ), the bias correction of Adam's second moment."""
    gradient_share: float | Tensor
    """Factor of the gradient in SGD's momentum: 1 − dampening, and 1 in the first step."""


def optimizer_obstacle(settings: object) -> str | None:
    """Why an optimizer has no formula here, as a sentence; None if it has one. Subclasses have none."""
    if type(settings) not in (Adam, AdamW, SGD):
        return f"{getattr(settings, 'kind', settings)} is not Adam, AdamW or SGD"
    if isinstance(settings, Adam | AdamW) and settings.amsgrad:
        return f"{settings.kind} has amsgrad=True"
    return None


def clipping_obstacle(clipping: object) -> str | None:
    """Why a clipping has no formula here, in words; None if it has one, or if there is no clipping."""
    if clipping is None or type(clipping) in (ClipByNorm, ClipByValue, ClipBoth):
        return None
    return f"{getattr(clipping, 'kind', clipping)} is not ClipByNorm or ClipByValue"


def has_formula(settings: object) -> bool:
    """Whether `update` can compute the steps of an optimizer."""
    return optimizer_obstacle(settings) is None


def clipping_has_formula(clipping: object) -> bool:
    """Whether `clip` can compute a clipping."""
    return clipping_obstacle(clipping) is None


def memory_names(settings: Optimizer) -> tuple[str, ...]:
    """The names of the state tensors that torch.optim keeps for each parameter. All start at zero.

    >>> memory_names(SGD(momentum=0.0)), memory_names(AdamW())
    ((), ('exp_avg', 'exp_avg_sq'))
    """
    if isinstance(settings, SGD):
        return ("momentum_buffer",) if settings.momentum else ()
    return ("exp_avg", "exp_avg_sq")


def step_scalars(settings: Optimizer, rate: Rate, count: float) -> Scalars[Rate]:
    """Per-group scalars of one step: learning rate, bias-corrected step size, sqrt(1 − β₂ᵗ), share of the gradient.

    Args:
        settings: an optimizer that `has_formula`.
        rate: the learning rate of the group.
        count: the number t of the step, from 1.

    >>> step_scalars(Adam(betas=(0.5, 0.75)), 0.1, 1)
    Scalars(rate=0.1, step_size=0.2, second_root=0.5, gradient_share=1.0)
    """
    if isinstance(settings, SGD):
        return Scalars(rate, rate, 1.0, 1.0 if count == 1 else 1 - settings.dampening)
    assert isinstance(settings, Adam | AdamW)
    beta1, beta2 = settings.betas
    return Scalars(rate, rate / (1 - beta1**count), math.sqrt(1 - beta2**count), 1.0)


def update(
    settings: Optimizer,
    value: Tensor,
    memory: Memory,
    gradient: Tensor,
    scalars: Scalars[Rate],
    *,
    decay: float | Tensor | None = None,
    in_place: bool = False,
) -> tuple[Tensor, ...]:
    """The parameter and its memory after one step, as (value, *memory).

    It is the composition of `apply_decay`, `direction` and `descend`. Groups of different rates that share one tensor
    call those three by themselves.

    Args:
        settings: an optimizer that `has_formula`.
        value: the parameter.
        memory: its state tensors, see `memory_names`.
        gradient: its clipped gradient.
        scalars: the `step_scalars` of its group.
        decay: its weight decay; None for no decay.
        in_place: whether to change `value`, `memory` and (for L2 decay) `gradient` themselves.
    """
    if decay is not None:
        value, gradient = apply_decay(settings, value, gradient, scalars.rate, decay, in_place=in_place)
    towards, memory = direction(settings, memory, gradient, scalars, in_place=in_place)
    return descend(value, towards, scalars.step_size, in_place=in_place), *memory


def apply_decay(
    settings: Optimizer,
    value: Tensor,
    gradient: Tensor,
    rate: float | Tensor,
    decay: float | Tensor,
    *,
    in_place: bool = False,
) -> tuple[Tensor, Tensor]:
    """(value, gradient) with weight decay λ. AdamW: value · (1 − α λ). Adam and SGD: gradient + λ · value."""
    if isinstance(settings, AdamW):
        kept = 1 - rate * decay
        return value.mul_(kept) if in_place else value * kept, gradient
    return value, gradient.addcmul_(value, _tensor(decay, value)) if in_place else gradient + decay * value


def direction(
    settings: Optimizer, memory: Memory, gradient: Tensor, scalars: Scalars[Rate], *, in_place: bool = False
) -> tuple[Tensor, Memory]:
    """The direction of a step, which `descend` multiplies by the step size, and the memory after it."""
    if isinstance(settings, SGD):
        return _momentum(settings, memory, gradient, scalars, in_place)
    assert isinstance(settings, Adam | AdamW)
    (beta1, beta2), (first, second) = settings.betas, memory
    if in_place:
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    else:
        first = first + (gradient - first) * (1 - beta1)
        second = second * beta2 + gradient * gradient * (1 - beta2)
    # The root is a new tensor: changing it in place is safe in both forms, and rounds as the plain expression does.
    divisor = second.sqrt().div_(scalars.second_root).add_(settings.eps)
    return torch.div(first, divisor, out=divisor), (first, second)


def _momentum(
    settings: SGD, memory: Memory, gradient: Tensor, scalars: Scalars[Rate], in_place: bool
) -> tuple[Tensor, Memory]:
    if not memory:
        return gradient, ()
    momentum, share = memory[0], scalars.gradient_share
    if in_place:
        momentum.mul_(settings.momentum).add_(gradient, alpha=float(share))
        ahead = gradient.add(momentum, alpha=settings.momentum) if settings.nesterov else momentum
    else:
        momentum = settings.momentum * momentum + share * gradient
        ahead = gradient + settings.momentum * momentum if settings.nesterov else momentum
    return ahead, (momentum,)


def descend(value: Tensor, towards: Tensor, step_size: float | Tensor, *, in_place: bool = False) -> Tensor:
    """Value − step size · direction."""
    return value.addcmul_(towards, _tensor(step_size, value), value=-1) if in_place else value - step_size * towards


def _tensor(number: float | Tensor, like: Tensor) -> Tensor:
    return number if isinstance(number, Tensor) else like.new_tensor(number)


def clip(
    clipping: Clipping | None, gradients: Sequence[Tensor], *, members: bool = False, in_place: bool = False
) -> tuple[list[Tensor], Tensor]:
    """The gradients of a network after clipping, and their total norm before clipping.

    Args:
        clipping: one that `clipping_has_formula`.
        gradients: one tensor per parameter.
        members: whether the tensors are [M, ...]. Then each member is clipped by its own norm, and the norms are [M].
        in_place: whether to change the gradients themselves.
    """
    total = total_norm(gradients, clipping.norm if isinstance(clipping, ClipByNorm) else 2.0, members=members)
    clipped = list(gradients)
    for part in (clipping.value, clipping.norm) if isinstance(clipping, ClipBoth) else (clipping,):
        if isinstance(part, ClipByValue):
            clipped = [_bounded(gradient, part, in_place) for gradient in clipped]
        elif isinstance(part, ClipByNorm):
            norm = total if part is clipping else total_norm(clipped, part.norm, members=members)
            clipped = _scaled(clipped, (part.max_norm / (norm + 1e-6)).clamp(max=1.0), members, in_place)
    return clipped, total


def _bounded(gradient: Tensor, clipping: ClipByValue, in_place: bool) -> Tensor:
    low, high = clipping.range
    return gradient.clamp_(low, high) if in_place else gradient.clamp(low, high)


def _scaled(gradients: list[Tensor], factor: Tensor, members: bool, in_place: bool) -> list[Tensor]:
    if not members:
        once = stored(factor)
        return [gradient.mul_(once) if in_place else gradient * once for gradient in gradients]
    own = [factor.view(-1, *[1] * (gradient.ndim - 1)) for gradient in gradients]
    pairs = zip(gradients, own, strict=True)
    return [gradient.mul_(factor) if in_place else gradient * factor for gradient, factor in pairs]


def total_norm(gradients: Sequence[Tensor], order: float, *, members: bool = False) -> Tensor:
    """Norm of all gradients as one vector; with a leading member axis, [M] norms, one per member."""
    vectors = [gradient.reshape(len(gradient), -1) if members else gradient for gradient in gradients]
    norms: list[Tensor] = [torch.linalg.vector_norm(vector, order, dim=1 if members else None) for vector in vectors]
    if members and len(norms) == 1:  # the norm of one norm would cost time and round again
        return norms[0]
    total: Tensor = torch.linalg.vector_norm(torch.stack(norms), order, dim=0)
    return total


def stored(number: Tensor) -> Tensor:
    """The same 0-d number, read from memory. Otherwise a compiled step computes it again for every eight weights."""
    return torch.stack([number, number])[0]
