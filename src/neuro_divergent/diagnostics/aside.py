"""Compute something beside a training step, and leave no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from neuro_divergent.training.state.batch_norm_stats import frozen_statistics
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step.reduction import weighted_mean


@contextmanager
def aside(state: TrainState) -> Iterator[None]:
    """Context with gradients enabled, after which random numbers, running statistics and outputs are as before."""
    random, outputs = torch.get_rng_state(), state.outputs
    try:
        with frozen_statistics([state.module]), torch.enable_grad():
            yield
    finally:
        torch.set_rng_state(random)
        state.outputs = outputs


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Context with the module in evaluation mode, after which the mode of each part and random numbers are as before.

    A part can have a mode of its own, such as a frozen batch norm in a network that trains.
    """
    modes, random = [(part, part.training) for part in module.modules()], torch.get_rng_state()
    try:
        module.eval()
        yield
    finally:
        for part, training in modes:
            part.training = training
        torch.set_rng_state(random)


def reduced_loss(task: Task, state: TrainState, batch: Any) -> Tensor:
    """The loss of a batch, reduced as in a step."""
    with state.precision.autocast():
        values, weights = task(state.module, batch)
    return task.loss.finish(weighted_mean(values, weights, state.precision.sums_in_float64))
