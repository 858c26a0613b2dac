"""Who computes gradients and how they are put together: one process here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import Loss
from neuro_divergent.optim import gradient_norm
from neuro_divergent.training.state.batch_norm_stats import RunningStatistics
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step import gradients

if TYPE_CHECKING:
    from neuro_divergent.training.compiled.full_step import WholeStep


class Strategy(Protocol):
    """Backward, reduction over the effective batch, and who saves."""

    rank: int
    world: int

    def whole_step(self, state: TrainState, batch: Any) -> tuple[float, float] | None:
        """Loss and gradient norm if it took the step as one; None when the step is still to be done in its parts."""
        ...

    def gradients(self, task: Task, state: TrainState, batch: Any) -> float:
        """Leave the gradient of the reduced loss in the parameters; give the loss."""
        ...

    def condition_gradients(self, state: TrainState) -> float:
        """Penalties, noise and clipping; give the total norm before clipping."""
        ...


class SingleProcess:
    """Everything in this process.

    Args:
        whole: the compiled step of the run, if it has one.
    """

    rank = 0
    world = 1

    def __init__(self, whole: WholeStep | None = None) -> None:
        self._whole = whole
        self._running: RunningStatistics | None = None
        self._parameters: list[Tensor] | None = None
        self._loss = 0.0

    def whole_step(self, state: TrainState, batch: Any) -> tuple[float, float] | None:
        """Loss and gradient norm of a compiled step; None when there is none for this batch."""
        return None if self._whole is None else self._whole(state, batch)

    def gradients(self, task: Task, state: TrainState, batch: Any) -> float:
        """One backward pass, or several whose sum is that of the large batch."""
        if self._running is None:
            self._running = RunningStatistics(state.module)
        self._running.remember()
        try:
            self._loss = self._gradients(task, state, batch)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise ConfigError(
                "a batch norm needs at least two rows to compare, but the last micro-batch of the epoch has one. Set "
                "drop_last=True or another batch_size"
            ) from None
        return self._loss

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
        """Sums first, one division by the whole weight last: exactly the mean over the effective batch."""
        total, count, size = 0.0, 0.0, 0.0
        sums = gradients.Float64Sums(state.module) if state.precision.sums_in_float64 else None
        for part in task.split(batch, state.config.accumulate_gradients):
            with state.precision.autocast():
                values, weights = task(state.module, part)
            summed, weight = weighted_sum(values, weights, state.precision.sums_in_float64)
            # One fixed divisor, so that half-precision gradients keep their magnitude until the true one is known.
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
        """Penalties, noise and clipping; give the total norm before clipping."""
        norm = self._condition(state)
        if self._running is not None and not (math.isfinite(norm) and math.isfinite(self._loss)):
            self._running.restore()
        return norm

    def _condition(self, state: TrainState) -> float:
        config = state.config
        if config.regularization is not None:
            gradients.add_penalties(state.module, config.regularization.l1, config.regularization.l2)
        if self._parameters is None:
            # Collected once: an optimizer's groups do not change inside a run.
            self._parameters = [p for group in state.optimizer.param_groups for p in group["params"]]
        parameters = self._parameters
        if config.gradient_noise is not None:
            config.gradient_noise.apply(parameters, state.step, config.seed)
        clipping = config.gradient_clipping
        if clipping is None or clipping == "auto":
            return float(gradient_norm(parameters))
        return float(clipping.apply(parameters))


def weighted_mean(values: Tensor, weights: Tensor | None, in_float64: bool = False) -> Tensor:
    """The mean over everything that counts; 0, with zero gradients, when nothing does."""
    values = _wide(values, in_float64)
    if weights is None:
        return values.mean()
    count = (weights.double() if in_float64 else weights).sum()
    return _summed(values, weights) / count.clamp(min=1e-12)


def weighted_sum(values: Tensor, weights: Tensor | None, in_float64: bool = False) -> tuple[Tensor, float]:
    """The sum of what counts, and how much that is."""
    values = _wide(values, in_float64)
    if weights is None:
        return values.sum(), float(values.numel())
    return _summed(values, weights), float(weights.sum())


def _summed(values: Tensor, weights: Tensor) -> Tensor:
    # A masked value may be anything: `where` keeps it out of the gradient too, which a product would not.
    kept = torch.where(weights > 0, values, torch.zeros_like(values))
    return (kept * weights.to(kept.dtype)).sum()


def _wide(values: Tensor, in_float64: bool) -> Tensor:
    """Sums are never taken in half precision, whatever a loss gave under autocast."""
    if in_float64:
        return values.double()
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def finish_slope(loss: Loss, mean: float) -> tuple[float, float]:
    """The finished loss of a mean, and its derivative there."""
    point = torch.tensor(mean, dtype=torch.float64, requires_grad=True)
    finished = loss.finish(point)
    if not finished.requires_grad:
        return float(finished.detach()), 0.0
    (slope,) = torch.autograd.grad(finished, point)
    return float(finished.detach()), float(slope)


def _scale_gradients(module: nn.Module, factor: float) -> None:
    found = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    if found:
        torch._foreach_mul_(found, factor)
