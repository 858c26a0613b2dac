"""Activation checkpointing for any module that keeps its blocks in a Sequential or a ModuleList."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from neuro_divergent.core.errors import ConfigError


def checkpoint_activations(module: nn.Module, every: int = 1) -> int:
    """Keep only the inputs of every n-th block and recompute the rest in the backward pass; give the number of blocks.

    A Sequential is cut into runs of `every` members; the members of a ModuleList are wrapped one by one, each n-th of
    them left as it is when `every` is greater than 1.
    """
    wrapped = 0
    outermost: list[nn.Module] = []
    for child in module.modules():
        if any(child is not owner and child in set(owner.modules()) for owner in outermost):
            continue
        if isinstance(child, nn.Sequential) and len(child) > 1:
            _wrap_sequential(child, every)
            wrapped += len(child)
            outermost.append(child)
        elif isinstance(child, nn.ModuleList) and len(child) > 0:
            for index, block in enumerate(child):
                if every == 1 or index % every != every - 1:
                    _wrap(block)
                    wrapped += 1
            outermost.append(child)
    if wrapped == 0:
        raise ConfigError(
            "activation_checkpointing needs blocks in a Sequential or a ModuleList, but the network has none"
        )
    return wrapped


def _wrap(block: nn.Module) -> None:
    original = block.forward

    def forward(*inputs: Any, **named: Any) -> Any:
        if not (block.training and torch.is_grad_enabled()):
            return original(*inputs, **named)
        return checkpoint(original, *inputs, use_reentrant=False, **named)

    block.forward = forward


def _wrap_sequential(blocks: nn.Sequential, every: int) -> None:
    members = list(blocks)
    runs = [members[first : first + every] for first in range(0, len(members), every)]

    def run_of(part: list[nn.Module]) -> Callable[[Tensor], Tensor]:
        def apply(x: Tensor) -> Tensor:
            for member in part:
                x = member(x)
            return x

        return apply

    functions = [run_of(part) for part in runs]

    def forward(x: Tensor) -> Tensor:
        for function in functions:
            if blocks.training and torch.is_grad_enabled():
                x = checkpoint(function, x, use_reentrant=False)
            else:
                x = function(x)
        return x

    blocks.forward = forward  # type: ignore[method-assign]
