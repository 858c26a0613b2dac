"""Steps that each process takes by itself; every few steps the weights are averaged."""

from __future__ import annotations

import math
from typing import Any

import torch

from neuro_divergent.core.batch import rows
from neuro_divergent.distributed.ranks import Ranks
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task
from neuro_divergent.training.step.eager import Eager
from neuro_divergent.training.step.strategy import Step


class Local(Ranks):
    """Own steps on own rows, and an average of all weights every `local_steps` steps and before each validation."""

    _stepping = False

    def step(self, task: Task, state: TrainState, batch: Any) -> Step:
        """Take one step without the other processes; average if it is due."""
        self.seed(state, self.group.rank)
        self.given(state)
        self._stepping = True
        try:  # a process may have no row at the end of an epoch: then it keeps its weights
            own = Eager.step(self, task, state, batch) if rows(batch) else Step(0.0, 0.0, taken=True)
        finally:
            self._stepping = False
        told = torch.tensor([own.loss * rows(batch), rows(batch), float(not own.taken), float(bool(state.stopping))])
        told = self.group.sum(told.double())
        self._told = bool(told[3] > 0)
        last = state.position + 1 >= state.steps_per_epoch or state.step + 1 >= state.total_steps
        if last or (state.step + 1) % self.settings.local_steps == 0:
            self._average(state)
        loss = float(told[0] / told[1].clamp(min=1.0))
        taken = not told[2] > 0
        return Step(loss if taken or math.isfinite(loss) else own.loss, own.norm, bool(taken))

    def gradients(self, task: Task, state: TrainState, batch: Any) -> float:
        """The gradients of this process's rows."""
        return Eager.gradients(self, task, state, batch)

    def agree(self, flag: bool) -> bool:
        """Inside a step each process decides by itself; otherwise any process may set the flag."""
        return flag if self._stepping else super().agree(flag)

    @torch.no_grad()
    def _average(self, state: TrainState) -> None:
        kept = [] if state.averager is None else list(state.averager.tensors.values())
        for tensor in (*self._trained, *kept):
            self.group.sum(tensor.detach()).div_(self.group.world)
        if self._running is not None:
            for tensor in self._running.tensors:
                if tensor.is_floating_point():
                    self.group.sum(tensor).div_(self.group.world)

    def validate(self, task: Task, state: TrainState, source: Source) -> dict[str, float] | None:
        """Loss and metrics with the averaged weights."""
        self._average(state)
        return super().validate(task, state, source)
