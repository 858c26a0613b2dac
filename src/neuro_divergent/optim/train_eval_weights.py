"""Optimizers whose weights for training differ from those for evaluation.

Schedule-free optimizers take gradients at one point and are judged at another, an average. Evaluating must not change
what training goes on with, not even in the last bit, so the training weights are set aside and put back.
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
    """Whether the module holds the weights for evaluation."""
    return has_modes(optimizer) and not optimizer.param_groups[0]["train_mode"]


@torch.no_grad()
def to_eval(optimizer: torch.optim.Optimizer) -> None:
    """Give the module the weights to evaluate, save or forecast with; nothing happens for most optimizers."""
    if has_modes(optimizer) and not in_eval(optimizer):
        _set_aside[optimizer] = [parameter.detach().clone() for parameter in _parameters(optimizer)]
        optimizer.eval()  # type: ignore[attr-defined]  # schedule-free optimizers have it


@torch.no_grad()
def to_train(optimizer: torch.optim.Optimizer) -> None:
    """Give the module back exactly the weights that it trained with; nothing happens for most optimizers."""
    if in_eval(optimizer):
        optimizer.train()  # type: ignore[attr-defined]  # schedule-free optimizers have it
        for parameter, kept in zip(_parameters(optimizer), _set_aside.pop(optimizer), strict=True):
            parameter.copy_(kept)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
