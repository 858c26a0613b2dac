"""The eager step of one process: backward, clipping and update, operation by operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import rows
from neuro_divergent.core.errors import Advice, ConfigError
from neuro_divergent.optim import forget_gradients, gradient_norm, load_state, state_tensors
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.batch_norm_stats import RunningStatistics
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task
from neuro_divergent.training.step import gradients, out_of_memory
from neuro_divergent.training.step.reduction import finish_slope, weighted_mean, weighted_sum
from neuro_divergent.training.step.strategy import Step
from neuro_divergent.training.step.validation import validate


class Eager:
    """Eager steps in one process. Strategies that compute or reduce gradients differently may subclass it."""

    main = True

    def __init__(self) -> None:
        self._running: RunningStatistics | None = None
        self._parameters: list[Tensor] | None = None

    def refuses(self, config: TrainingConfig, module: nn.Module) -> str | None:  # noqa: ARG002
        """None: it can train every module."""
        return None

    def prepare(
        self, module: nn.Module, build_optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The unchanged module and its optimizer."""
        return module, build_optimizer(module)

    def source(self, source: Source, config: TrainingConfig) -> Source:  # noqa: ARG002
        """The unchanged source: this process computes all rows."""
        return source

    def begin(self, state: TrainState, identity: Callable[[], Mapping[str, Any]]) -> None:
        """Does nothing: there is nobody to compare with."""

    def step(self, task: Task, state: TrainState, batch: Any) -> Step:
        """Take one step on the effective batch. If loss or gradients are not finite, no weight changes."""
        optimizer = state.optimizer
        forget_gradients(optimizer)
        loss = out_of_memory.gradients(self, task, state, batch)
        state.precision.unscale(optimizer)
        if state.on_gradients is not None:
            state.loss, state.working = loss, (task, batch)
            state.on_gradients(state)
        norm = self.condition_gradients(state)
        taken = not self.agree(not (math.isfinite(loss) and math.isfinite(norm)))
        if not taken and self._running is not None:
            self._running.restore()
        state.precision.step(optimizer, taken)
        return Step(loss, norm, taken)

    def validate(self, task: Task, state: TrainState, source: Source) -> dict[str, float] | None:
        """Loss and metrics over a source; None if a signal interrupted it."""
        return validate(task, state, source)

    def agree(self, flag: bool) -> bool:
        """The flag itself, because there is one process."""
        return flag

    def saves(self, state: TrainState, due: bool) -> bool:  # noqa: ARG002
        """Whether a checkpoint is due: this process has everything."""
        return due

    def optimizer_tensors(self, state: TrainState) -> dict[str, Tensor]:
        """The state of the optimizer by parameter name."""
        return state_tensors(state.optimizer)

    def load_optimizer(self, state: TrainState, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state of the optimizer."""
        load_state(state.optimizer, tensors)

    def state_dict(self) -> dict[str, Any]:
        """{}: there is no state between steps."""
        return {}

    def load_state_dict(self, data: dict[str, Any]) -> None:
        """Does nothing: there is no state between steps."""

    def gradients(self, task: Task, state: TrainState, batch: Any) -> float:
        """Return the reduced loss; its gradient is in the parameters.

        There is one backward pass, or one per micro-batch; their sum is the gradient of the effective batch.
        """
        if self._running is None:
            self._running = RunningStatistics(state.module)
        self._running.remember()
        try:
            return self._gradients(task, state, batch)
        except ValueError as error:
            if not _normalizes_one_row(task, state, batch):
                raise
            raise ConfigError(
                "a batch norm needs at least two rows, but the last micro-batch of the epoch has one. Set "
                "drop_last=True or another batch_size",
                advice=[Advice("training.drop_last", True)],
            ) from error

    def _gradients(self, task: Task, state: TrainState, batch: Any) -> float:
        config = state.config
        if config.gradient_method != "autograd":
            return gradients.numerical(task, state, batch, config.gradient_method)
        if config.accumulate_gradients == 1:
            with state.precision.autocast():
                values, weights = task(state.module, batch)
            loss = task.loss.finish(weighted_mean(values, weights, state.precision.sums_in_float64))
            state.precision.scale(loss).backward()  # type: ignore[no-untyped-call]
            return loss.item()
        return self._accumulated(task, state, batch)

    def _accumulated(self, task: Task, state: TrainState, batch: Any) -> float:
        """Add the sums of all micro-batches, then divide once by the total weight: the exact mean."""
        total, count, size = 0.0, 0.0, 0.0
        sums = gradients.Float64Sums(state.module) if state.precision.sums_in_float64 else None
        for part in task.split(batch, state.config.accumulate_gradients):
            with state.precision.autocast():
                values, weights = task(state.module, part)
            summed, weight = weighted_sum(values, weights, state.precision.sums_in_float64)
            # One fixed divisor keeps half-precision gradients in range until the true divisor is known.
            size = size or max(1.0, float(values.numel()))
            state.precision.scale(summed / size).backward()  # type: ignore[no-untyped-call]
            if sums is not None:
                sums.add()
            total, count = total + summed.item(), count + weight
        if sums is not None:
            sums.give_back()
        count = max(count, 1e-12)
        finished, slope = finish_slope(task.loss, total / count)
        _scale_gradients(state.module, slope * size / count)
        return finished

    def condition_gradients(self, state: TrainState) -> float:
        """Add penalties and noise, then clip; return the total norm before clipping."""
        config = state.config
        if config.regularization is not None:
            gradients.add_penalties(state.module, config.regularization.l1, config.regularization.l2)
        if self._parameters is None:
            # Collected once: the groups of an optimizer do not change during a run.
            self._parameters = [p for group in state.optimizer.param_groups for p in group["params"]]
        parameters = self._parameters
        if config.gradient_noise is not None:
            config.gradient_noise.apply(parameters, state.step, config.seed)
        clipping = config.gradient_clipping
        if clipping is None or clipping == "auto":
            return float(gradient_norm(parameters))
        return float(clipping.apply(parameters))


def _normalizes_one_row(task: Task, state: TrainState, batch: Any) -> bool:
    """Whether a batch norm in training mode gets a single row, which has no variance."""
    parts = task.split(batch, state.config.accumulate_gradients)
    return min(map(rows, parts)) == 1 and any(
        isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training for module in state.module.modules()
    )


def _scale_gradients(module: nn.Module, factor: float) -> None:
    found = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    if found:
        torch._foreach_mul_(found, factor)
