"""Callbacks that log learning rate, gradient norms or time to `history.events`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from neuro_divergent.training.callbacks.base import Callback, CallbackSettings

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState


class LearningRateMonitor(CallbackSettings):
    """Logs the learning rate of every parameter group to `history.events`."""

    every: Annotated[int, Field(ge=1)] = 1
    """Log after every n-th step."""

    def build(self) -> Callback:
        """The live callback."""
        return _LearningRateMonitor(self.every)


class _LearningRateMonitor(Callback):
    looks_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, every: int) -> None:
        self.every = every

    def on_batch_end(self, state: TrainState) -> None:
        if state.step % self.every == 0:
            state.log(learning_rates=[float(group["lr"]) for group in state.optimizer.param_groups])


class GradientNormMonitor(CallbackSettings):
    """Logs the gradient norm of every parameter to `history.events`, to find vanishing or exploding gradients."""

    every: Annotated[int, Field(ge=1)] = 50
    """Log after every n-th step."""

    def build(self) -> Callback:
        """The live callback."""
        return _GradientNormMonitor(self.every)


class _GradientNormMonitor(Callback):
    looks_at: ClassVar[frozenset[str]] = frozenset({"gradients"})

    def __init__(self, every: int) -> None:
        self.every = every

    def on_batch_end(self, state: TrainState) -> None:
        if state.step % self.every == 0:
            named = state.module.named_parameters()
            state.log(gradient_norms={name: float(p.grad.norm()) for name, p in named if p.grad is not None})


class Timer(CallbackSettings):
    """Logs the seconds of the training to `history.events`, and stops it after `max_minutes`."""

    max_minutes: Annotated[float, Field(gt=0.0)] | None = None
    """Time limit: the training stops at the first step after this many minutes. None for no limit."""

    def build(self) -> Callback:
        """The live callback."""
        return _Timer(self.max_minutes)


class _Timer(Callback):
    looks_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, max_minutes: float | None) -> None:
        self.max_minutes = max_minutes
        self._begun = 0.0

    def on_fit_start(self, state: TrainState) -> None:  # noqa: ARG002
        self._begun = time.perf_counter()

    def on_batch_end(self, state: TrainState) -> None:
        if self.max_minutes is not None and time.perf_counter() - self._begun > 60.0 * self.max_minutes:
            state.stop(f"the time limit of {self.max_minutes:g} minutes was reached")

    def on_fit_end(self, state: TrainState) -> None:
        state.log(training_seconds=time.perf_counter() - self._begun)
