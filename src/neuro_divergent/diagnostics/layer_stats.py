"""Figures of each layer: its gradients, the size of its updates, the spectrum of its weights.

A layer is a module that owns parameters directly, under its name in the network ("network.layers.0"). All functions
only read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Layers = Mapping[str, Sequence[nn.Parameter]]
"""The parameters of each layer, by its name."""


def layers_of(module: nn.Module, *, trainable: bool = True) -> dict[str, list[nn.Parameter]]:
    """The parameters of each layer in the network's order. A shared parameter belongs to its first layer.

    Args:
        module: any torch module.
        trainable: leave out frozen parameters.
    """
    seen: set[int] = set()
    found: dict[str, list[nn.Parameter]] = {}
    for name, part in module.named_modules():
        for parameter in part.parameters(recurse=False):
            if id(parameter) in seen or not parameter.numel() or (trainable and not parameter.requires_grad):
                continue
            seen.add(id(parameter))
            found.setdefault(name, []).append(parameter)
    return found


@dataclass(frozen=True)
class GradientFigures:
    """What the gradients of every layer look like at one step; each list has one value per layer."""

    norm: list[float]
    """Euclidean norm of the layer's gradient."""
    rms: list[float]
    """Root mean square of its entries: comparable between layers of different sizes."""
    zeros: list[float]
    """Share of entries that are exactly 0."""
    finite: list[bool]
    """Whether all entries are finite."""


@torch.no_grad()
def gradient_figures(layers: Layers, gradients: Mapping[int, Tensor] | None = None) -> GradientFigures:
    """The figures of the present gradients. A parameter without a gradient counts as all zeros.

    Args:
        layers: the result of `layers_of`.
        gradients: gradients by the `id` of their parameter; None reads `.grad`.
    """
    sums, zeros, sizes = [], [], []
    for parameters in layers.values():
        grads = [
            grad for p in parameters if (grad := p.grad if gradients is None else gradients.get(id(p))) is not None
        ]
        sums.append(sum_of_squares(grads))
        size = sum(parameter.numel() for parameter in parameters)
        counted = sum((torch.count_nonzero(grad) for grad in grads), torch.zeros((), dtype=torch.int64))
        zeros.append(1.0 - counted.double() / size)
        sizes.append(size)
    squares = as_floats(sums)
    return GradientFigures(
        norm=[math.sqrt(value) for value in squares],
        rms=[math.sqrt(value / size) for value, size in zip(squares, sizes, strict=True)],
        zeros=as_floats(zeros),
        finite=[math.isfinite(value) for value in squares],
    )


@torch.no_grad()
def weight_norms(layers: Layers) -> list[float]:
    """The Euclidean norm of the weights of every layer."""
    return [
        math.sqrt(value) for value in as_floats([sum_of_squares(list(parameters)) for parameters in layers.values()])
    ]


@torch.no_grad()
def copied(layers: Layers) -> list[list[Tensor]]:
    """A copy of the weights of every layer, for `update_norms`."""
    return [[parameter.detach().clone() for parameter in parameters] for parameters in layers.values()]


@torch.no_grad()
def update_norms(layers: Layers, before: Sequence[Sequence[Tensor]]) -> list[float]:
    """The Euclidean norm of the change of every layer's weights since `copied`."""
    sums = []
    for parameters, old in zip(layers.values(), before, strict=True):
        sums.append(sum_of_squares(torch._foreach_sub([p.detach() for p in parameters], list(old))))
    return [math.sqrt(value) for value in as_floats(sums)]


def sum_of_squares(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of squares, in float64."""
    if not tensors:
        return torch.zeros((), dtype=torch.float64)
    norms = torch._foreach_norm([tensor.detach() for tensor in tensors])
    return torch.stack([norm.double() for norm in norms]).square().sum()


def as_floats(values: Sequence[Tensor]) -> list[float]:
    """The values as floats, with one transfer from the device. Infinity and NaN stay."""
    if not values:
        return []
    device = next((value.device for value in values if value.device.type != "cpu"), values[0].device)
    return [float(value) for value in torch.stack([value.to(device).double() for value in values]).tolist()]


@dataclass(frozen=True)
class Spectrum:
    """The singular values of a weight matrix, summarised."""

    rank: int
    """The largest possible rank: the smaller side of the matrix."""
    effective_rank: float
    """exp(entropy of the singular values divided by their sum), between 1 and `rank` (Roy & Vetterli 2007)."""
    condition: float
    """Largest singular value divided by the smallest one; infinite if that is 0."""
    norm: float
    """The largest singular value."""


@torch.no_grad()
def spectrum(weight: Tensor) -> Spectrum | None:
    """The spectrum of a weight with at least two dimensions, as a matrix [first dimension, all others].

    None for vectors, and for weights that are not finite.
    """
    if weight.ndim < 2 or min(matrix_of(weight).shape) == 0 or not bool(torch.isfinite(weight).all()):
        return None
    values = torch.linalg.svdvals(matrix_of(weight).double())
    # Values below the rounding error of the matrix's own precision are 0.
    tiny = torch.finfo(weight.dtype).eps * max(matrix_of(weight).shape) * values[0]
    smallest = float(values[-1]) if values[-1] > tiny else 0.0
    return Spectrum(
        rank=len(values),
        effective_rank=effective_rank(values),
        condition=float(values[0]) / smallest if smallest > 0 else math.inf,
        norm=float(values[0]),
    )


def matrix_of(weight: Tensor) -> Tensor:
    """A weight as a matrix: its first dimension, and all others as one."""
    return weight.detach().reshape(weight.shape[0], -1)


def effective_rank(values: Tensor) -> float:
    """exp(-Σ p·log p) with p = values / Σ values; 0 if all are 0.

    >>> round(effective_rank(torch.tensor([2.0, 2.0, 0.0])), 6)
    2.0
    """
    total = float(values.sum())
    if total <= 0:
        return 0.0
    shares = values.double() / total
    return math.exp(-float(torch.special.xlogy(shares, shares).sum()))


def main_weight(parameters: Sequence[Tensor]) -> Tensor:
    """The largest parameter of a layer with at least two dimensions, else its largest one."""
    matrices = [parameter for parameter in parameters if parameter.ndim >= 2]
    return max(matrices or parameters, key=lambda parameter: parameter.numel())
