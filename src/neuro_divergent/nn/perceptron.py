"""The multilayer perceptron that several models share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from torch import nn

from neuro_divergent.nn.batch_norm import BatchNorm

ActivationName = Literal[
    "relu", "gelu", "tanh", "sigmoid", "silu", "swish", "selu", "elu", "leaky_relu", "softplus", "prelu"
]

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "selu": nn.SELU,
    "elu": nn.ELU,
    "leaky_relu": nn.LeakyReLU,
    "softplus": nn.Softplus,
    "prelu": nn.PReLU,
}


def activation(name: ActivationName) -> nn.Module:
    """The activation of that name."""
    return _ACTIVATIONS[name]()


def perceptron(
    sizes: Sequence[int],
    *,
    act: ActivationName = "relu",
    dropout: float = 0.0,
    final_activation: bool = False,
    batch_norm: bool = False,
) -> nn.Sequential:
    """Linear layers from sizes[0] to sizes[-1] with an activation (after a batch norm, before dropout) between them.

    >>> [type(layer).__name__ for layer in perceptron([4, 8, 2])]
    ['Linear', 'ReLU', 'Linear']
    """
    layers: list[nn.Module] = []
    for position, (inner, outer) in enumerate(pairwise(sizes)):
        layers.append(nn.Linear(inner, outer))
        if position < len(sizes) - 2 or final_activation:
            if batch_norm:
                layers.append(BatchNorm(outer))
            layers.append(activation(act))
            if dropout > 0:
                layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers)
