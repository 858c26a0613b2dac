"""Validation: score a held-out source with the weights that the run would return now."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from neuro_divergent.core import seeding
from neuro_divergent.core.batch import rows as batch_rows
from neuro_divergent.core.errors import first_line
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task
from neuro_divergent.training.step import out_of_memory


def validate(task: Task, state: TrainState, source: Source) -> dict[str, float] | None:
    """Loss and metrics over the whole source, as validation_<name>, from float64 sums; None if a signal came.

    A signal interrupts the validation, because a source may be large and the run must be saved within seconds. If
    memory runs out, the whole validation is repeated in smaller pieces. So the metrics depend on the size of the pieces
    only, and not on when memory ran out.
    """
    rows = 0

    def pieces_of(step: int) -> list[Any]:
        nonlocal rows
        batch = source.batch(0, step)
        rows = batch_rows(batch)
        return [batch] if pieces == 1 else task.split(batch, pieces)

    while True:
        pieces = out_of_memory.validation_pieces(state)
        try:
            return _figures(task, state, source.steps_per_epoch, pieces_of)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory.is_out_of_memory(error):
                raise
            reason = first_line(error)
        # Outside the except block: the error keeps its frames alive, and they keep the memory.
        out_of_memory.halve_validation(state, rows, reason)


def _figures(
    task: Task, state: TrainState, steps: int, pieces_of: Callable[[int], list[Any]]
) -> dict[str, float] | None:
    averaged = state.averager.swap() if state.averager is not None else nullcontext()
    sums: dict[str, torch.Tensor] = {}
    state.module.eval()
    # A network with random forecasts draws the same numbers in every validation.
    torch.default_generator.manual_seed(seeding.key(state.config.seed, "validation") >> 1)
    with averaged, torch.no_grad(), state.precision.autocast():
        for step in range(steps):
            if state.signalled:
                break
            for piece in pieces_of(step):
                for name, part in task.score(state.module, piece).items():
                    sums[name] = sums[name] + part if name in sums else part
    state.module.train()
    if state.signalled:
        return None
    return {f"validation_{name}": task.result(name, total) for name, total in sums.items()}
