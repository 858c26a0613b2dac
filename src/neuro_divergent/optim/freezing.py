"""Freezing and unfreezing parameters by name."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from neuro_divergent.optim.patterns import matching, patterns_of


def freeze(module: nn.Module, patterns: str | Iterable[str]) -> tuple[str, ...]:
    """Stop the parameters that a pattern fits from learning; returns their names.

    >>> freeze(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), "0.*")
    ('0.weight', '0.bias')
    """
    return _set_trainable(module, patterns, False)


def unfreeze(module: nn.Module, patterns: str | Iterable[str]) -> tuple[str, ...]:
    """Let the parameters that a pattern fits learn again; returns their names."""
    return _set_trainable(module, patterns, True)


def _set_trainable(module: nn.Module, patterns: str | Iterable[str], trainable: bool) -> tuple[str, ...]:
    parameters = dict(module.named_parameters())
    # Every pattern is checked before the first parameter changes, so that an error leaves the module as it was.
    chosen = dict.fromkeys(name for pattern in patterns_of(patterns) for name in matching(list(parameters), pattern))
    for name in chosen:
        parameters[name].requires_grad_(trainable)
        if not trainable:
            parameters[name].grad = None
    return tuple(chosen)
