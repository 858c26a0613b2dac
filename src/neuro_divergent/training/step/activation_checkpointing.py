"""Activation checkpointing for any module that keeps its blocks in a Sequential or a ModuleList."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.training.state.batch_norm_stats import frozen_statistics


@contextmanager
def checkpointed(module: nn.Module, every: int = 1) -> Iterator[int]:
    """Context in which the backward pass recomputes activations; yields the number of recomputed blocks.

    A Sequential is cut after each layer with weights, so that cheap layers (activation, norm, dropout) are recomputed
    without an expensive one. `every` such blocks share one stored activation. In a ModuleList every n-th member
    recomputes its inside. The results are bit-identical to a training without recomputation.
    """
    with ExitStack() as stack:
        stretches = 0
        for owner in _owners(module):
            if isinstance(owner, nn.Sequential):
                parts = _stretches(list(owner), every)
                stack.enter_context(_replaced_forward(owner, _run_in_stretches(owner, parts)))
                stretches += len(parts)
            else:
                members = list(owner.children())[::every]
                for block in members:
                    stack.enter_context(_replaced_forward(block, _recomputed(block)))
                stretches += len(members)
        if stretches == 0:
            raise ConfigError(
                "activation_checkpointing needs blocks in a Sequential or a ModuleList, but the network has none. Set "
                "activation_checkpointing=None"
            )
        yield stretches


def _owners(module: nn.Module) -> Iterator[nn.Module]:
    """The outermost Sequentials and ModuleLists that can be cut. Nothing inside them is cut again."""
    if _can_be_cut(module):
        yield module
    else:
        for child in module.children():
            yield from _owners(child)


def _can_be_cut(module: nn.Module) -> bool:
    if isinstance(module, nn.Sequential):
        return sum(map(_has_matrix, module)) > 1
    return isinstance(module, nn.ModuleList) and len(module) > 0


def _has_matrix(module: nn.Module) -> bool:
    return any(parameter.ndim > 1 for parameter in module.parameters())


def _stretches(members: list[nn.Module], every: int) -> list[list[nn.Module]]:
    blocks: list[list[nn.Module]] = [[]]
    for member in members:
        blocks[-1].append(member)
        if _has_matrix(member):
            blocks.append([])
    blocks = [block for block in blocks if block]
    return [list(chain(*blocks[first : first + every])) for first in range(0, len(blocks), every)]


def _run_in_stretches(owner: nn.Sequential, parts: list[list[nn.Module]]) -> Callable[[Tensor], Tensor]:
    def of(part: list[nn.Module]) -> Callable[[Tensor], Tensor]:
        def apply(x: Tensor) -> Tensor:
            for member in part:
                x = member(x)
            return x

        return apply

    functions = [(of(part), part) for part in parts]

    def forward(x: Tensor) -> Tensor:
        keep = not (owner.training and torch.is_grad_enabled())
        for function, part in functions:
            x = function(x) if keep else _checkpoint(function, part, x)
        return x

    return forward


def _recomputed(block: nn.Module) -> Callable[..., Any]:
    original = block.forward

    def forward(*inputs: Any, **named: Any) -> Any:
        if not (block.training and torch.is_grad_enabled()):
            return original(*inputs, **named)
        return _checkpoint(original, [block], *inputs, **named)

    return forward


def _checkpoint(function: Callable[..., Any], part: list[nn.Module], *inputs: Any, **named: Any) -> Any:
    def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        # A batch norm must count a batch once, although the recomputation sees it a second time.
        return nullcontext(), frozen_statistics(part)

    draws = any(_may_draw(child) for member in part for child in member.modules())
    return checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=draws, context_fn=contexts, **named)


_ACTIVATIONS = {nn.ReLU, nn.GELU, nn.Tanh, nn.Sigmoid, nn.SiLU, nn.ELU, nn.Softplus, nn.LeakyReLU}
_NO_DRAWS = _ACTIVATIONS | {nn.Linear, nn.Conv1d, nn.LayerNorm, nn.BatchNorm1d, nn.Sequential, nn.Identity, nn.Flatten}


def _may_draw(module: nn.Module) -> bool:
    """Whether a module may draw random numbers. Only then the generator's state is saved, which costs time."""
    return type(module) not in _NO_DRAWS


@contextmanager
def _replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Context with another `forward`. It is removed afterwards: a copy of the module must not call the original."""
    before = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before
