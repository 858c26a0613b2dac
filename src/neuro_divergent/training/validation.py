"""Scoring a held-back source with the weights that the run would give back now."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from neuro_divergent.core import seeding
from neuro_divergent.training.state import TrainState
from neuro_divergent.training.task import Source, Task


def validate(task: Task, state: TrainState, source: Source) -> dict[str, float] | None:
    """The loss and the metrics over the whole source, as validation_<name>; sums are taken in float64.

    None when a signal came: a source may be large, and the run is to be saved within seconds.
    """
    averaged = state.averager.swap() if state.averager is not None else nullcontext()
    sums: dict[str, torch.Tensor] = {}
    state.module.eval()
    # A network that draws while forecasting draws the same in every validation.
    torch.default_generator.manual_seed(seeding.key(state.config.seed, "validation") >> 1)
    with averaged, torch.no_grad(), state.precision.autocast():
        for step in range(source.steps_per_epoch):
            if state.signalled:
                break
            for name, part in task.score(state.module, source.batch(0, step)).items():
                sums[name] = sums[name] + part if name in sums else part
    state.module.train()
    if state.signalled:
        return None
    return {f"validation_{name}": task.result(name, total) for name, total in sums.items()}
