"""Explain a loss or gradient that is not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from neuro_divergent.core import seeding
from neuro_divergent.core.batch import rows
from neuro_divergent.training.state.batch_norm_stats import frozen_statistics

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState
    from neuro_divergent.training.state.task import Task


def explanation(task: Task, state: TrainState, batch: Any) -> str:
    """Sentences about the series, rows and columns involved, and the parameters whose gradients are not finite.

    The batch is computed once more, with the same random numbers as in the step.
    """
    if rows(batch) == 0:  # another process of the run had the rows
        return ""
    torch.default_generator.manual_seed(seeding.key(state.config.seed, "network", state.step) >> 1)
    with torch.no_grad(), frozen_statistics([state.module]), state.precision.autocast():
        values, _ = task(state.module, batch)
    words = [task.blame(batch, values)]
    bad = parameters_with_bad_gradients(state.module)
    if bad and bool(torch.isfinite(values).all()):
        words.append(f"Gradients involved: {', '.join(bad[:5])}{' and others' if len(bad) > 5 else ''}.")
    return " ".join(word for word in words if word)


def parameters_with_bad_gradients(module: nn.Module) -> list[str]:
    """Names of the parameters whose gradient has a value that is not finite."""
    named = module.named_parameters()
    return [name for name, p in named if p.grad is not None and not bool(torch.isfinite(p.grad).all())]
