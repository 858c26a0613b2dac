"""Freezing and unfreezing parameters by name."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from neuro_divergent.optim.patterns import matching, patterns_of


def freeze(module: nn.Module, patterns: str | Iterable[str]) -> tuple[str, ...]:
    """Freeze the parameters whose names match a pattern; return their names.

    Args:
        module: the network.
        patterns: one shell-style pattern such as "encoder.*", or several.

    >>> freeze(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), "0.*")
    ('0.weight', '0.bias')
    """
    return _set_trainable(module, patterns, False)


def unfreeze(module: nn.Module, patterns: str | Iterable[str]) -> tuple[str, ...]:
    """Make the parameters whose names match a pattern trainable again; return their names."""
    return _set_trainable(module, patterns, True)


def _set_trainable(module: nn.Module, patterns: str | Iterable[str], trainable: bool) -> tuple[str, ...]:
    parameters = dict(module.named_parameters())
    # All patterns are checked before the first parameter changes, so that an error leaves the module unchanged.
    chosen = dict.fromkeys(name for pattern in patterns_of(patterns) for name in matching(list(parameters), pattern))
    for name in chosen:
        parameters[name].requires_grad_(trainable)
        if not trainable:
            parameters[name].grad = None
    return tuple(chosen)
