"""Optimizers whose weights for training differ from those for evaluation.

A schedule-free optimizer computes gradients at one point and evaluates the model at another, an average. An evaluation
must not change the training weights, not even in the last bit, so they are copied before and restored after it.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor

_set_aside: WeakKeyDictionary[torch.optim.Optimizer, list[Tensor]] = WeakKeyDictionary()


def has_modes(optimizer: torch.optim.Optimizer) -> bool:
    """Whether `to_eval` changes the weights."""
    return all("train_mode" in group for group in optimizer.param_groups)


def in_eval(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the module has the weights for evaluation."""
    return has_modes(optimizer) and not optimizer.param_groups[0]["train_mode"]


@torch.no_grad()
def to_eval(optimizer: torch.optim.Optimizer) -> None:
    """Switch the module to the weights for evaluation, saving and forecasts. Does nothing for most optimizers."""
    if has_modes(optimizer) and not in_eval(optimizer):
        _set_aside[optimizer] = [parameter.detach().clone() for parameter in _parameters(optimizer)]
        optimizer.eval()  # type: ignore[attr-defined]  # schedule-free optimizers have it


@torch.no_grad()
def to_train(optimizer: torch.optim.Optimizer) -> None:
    """Switch the module back to exactly its training weights. Does nothing for most optimizers."""
    if in_eval(optimizer):
        optimizer.train()  # type: ignore[attr-defined]  # schedule-free optimizers have it
        for parameter, kept in zip(_parameters(optimizer), _set_aside.pop(optimizer), strict=True):
            parameter.copy_(kept)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
