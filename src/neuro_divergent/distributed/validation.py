"""Validation by several processes: the same sums, added in the same order, whoever computed them."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext

import torch
from torch import Tensor

from neuro_divergent.core import seeding
from neuro_divergent.distributed.group import Group
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task


def validate(group: Group, task: Task, state: TrainState, source: Source) -> dict[str, float] | None:
    """Loss and metrics over a source, as validation_<name>; None if any process got a signal.

    Process r scores the batches r, r + world, ... The table of all sums is completed by adding zeros, which is exact,
    and then added batch by batch.
    """
    averaged = state.averager.swap() if state.averager is not None else nullcontext()
    own: dict[int, dict[str, Tensor]] = {}
    state.module.eval()
    with averaged, torch.no_grad(), state.precision.autocast():
        for step in range(group.rank, source.steps_per_epoch, group.world):
            if state.signalled:
                break
            torch.default_generator.manual_seed(seeding.key(state.config.seed, "validation", step) >> 1)
            own[step] = task.score(state.module, source.batch(0, step))
    state.module.train()
    if group.any(state.signalled):
        return None
    layout, table = _table(group, own, source.steps_per_epoch)
    sums: dict[str, Tensor] = {}
    for name, (first, shape) in layout.items():
        columns = table[:, first : first + math.prod(shape)]
        total = columns[0].clone()
        for row in columns[1:]:
            total += row
        sums[name] = total.reshape(shape)
    return {f"validation_{name}": task.result(name, total) for name, total in sums.items()}


Layout = dict[str, tuple[int, tuple[int, ...]]]
"""First column and shape of each sum."""


def _table(group: Group, own: dict[int, dict[str, Tensor]], steps: int) -> tuple[Layout, Tensor]:
    """The columns of each sum, and [steps, columns] the sums of all processes."""
    # A process without batches learns the names and shapes from process 0, which always has one.
    layout = _layout(group, next(iter(own.values()), {}))
    width = max((first + math.prod(shape) for first, shape in layout.values()), default=0)
    table = torch.zeros(steps, width, dtype=torch.float64)
    for step, sums in own.items():
        for name, (first, shape) in layout.items():
            table[step, first : first + math.prod(shape)] = sums[name].reshape(-1).double().cpu()
    return layout, group.sum(table)


def _layout(group: Group, some: dict[str, Tensor]) -> Layout:
    found: dict[str, tuple[int, list[int]]] = {}
    first = 0
    for name, sums in some.items():
        found[name] = (first, list(sums.shape))
        first += sums.numel()
    text = group.share(json.dumps(found))
    return {name: (int(column), tuple(map(int, shape))) for name, (column, shape) in json.loads(text).items()}
