"""Counts the parameters of a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from neuro_divergent.optim.patterns import matching


@dataclass(frozen=True)
class ParameterCount:
    """The number of parameters of a module: those that a training changes, and those that are frozen.

    >>> ParameterCount(trainable=30, frozen=12).total
    42
    """

    trainable: int
    frozen: int

    @property
    def total(self) -> int:
        """All parameters."""
        return self.trainable + self.frozen


def count_parameters(module: nn.Module, freeze: Sequence[str] = ()) -> ParameterCount:
    """Count the parameters of a module.

    Args:
        module: any torch module; a parameter that two layers share counts once.
        freeze: patterns of names of parameters to freeze, besides those without `requires_grad`.
    """
    parameters = dict(module.named_parameters())
    fixed = {name for pattern in freeze for name in matching(list(parameters), pattern)}
    fixed |= {name for name, parameter in parameters.items() if not parameter.requires_grad}
    frozen = sum(parameters[name].numel() for name in fixed)
    return ParameterCount(sum(parameter.numel() for parameter in parameters.values()) - frozen, frozen)
