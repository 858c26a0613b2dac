"""Reduce the learning rate when a monitored value stops improving."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import Annotated, Literal

from pydantic import Field

from neuro_divergent.optim.schedules import Factor, PlateauState, Schedule, ScheduleContext


class ReduceOnPlateau(Schedule):
    """Multiplies the rate by `factor` when `monitor` has not improved for more than `patience` validations.

    An improvement is a value below best - min_delta, or above best + min_delta for mode="max". After `patience` + 1
    validations in a row without improvement the rate is reduced, same as torch's ReduceLROnPlateau with
    threshold_mode="abs". The schedule itself has no state: `initial()` is the first state, `update(state, value)`
    returns the next one, and `factor_at` reads the state from `context.plateau`.

    >>> schedule = ReduceOnPlateau(patience=1, factor=0.5)
    >>> state = schedule.initial()
    >>> for value in (1.0, 0.9, 0.9, 0.9):
    ...     state = schedule.update(state, value)
    >>> schedule.factor_at(0, ScheduleContext(plateau=state))
    0.5
    """

    monitor: str = "validation_loss"
    """Name of the monitored value. Without held-out rows it is the training loss, with mode "min"."""
    mode: Literal["auto", "min", "max"] = "auto"
    """Whether lower or higher is better; "auto" asks the metric that is watched, and is lower outside of a training."""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Multiplier of the learning rate at each reduction."""
    patience: int = Field(default=5, ge=0)
    """Number of validations without improvement before a reduction."""
    min_delta: Factor = 1e-4
    """Smallest change that counts as an improvement."""
    cooldown: int = Field(default=0, ge=0)
    """Number of validations after a reduction that do not count towards `patience`."""
    min_lr: Factor = 0.0
    """Lowest learning rate."""

    def initial(self) -> PlateauState:
        """The state before the first validation."""
        return PlateauState()

    def update(self, state: PlateauState, value: float) -> PlateauState:
        """The state after one more validation; NaN is no improvement."""
        if self._improves(value, state.best):
            return replace(state, best=value, waited=0, cooling=max(0, state.cooling - 1))
        if state.cooling > 0:
            return replace(state, waited=0, cooling=state.cooling - 1)
        if state.waited < self.patience:
            return replace(state, waited=state.waited + 1)
        return replace(state, waited=0, cooling=self.cooldown, factor=state.factor * self.factor)

    def _improves(self, value: float, best: float | None) -> bool:
        if best is None or isnan(value):
            return not isnan(value)
        return value > best + self.min_delta if self.mode == "max" else value < best - self.min_delta

    def factor_at(self, step: int, context: ScheduleContext) -> float:  # noqa: ARG002
        """The factor of the state, limited by `min_lr`."""
        state = context.plateau or self.initial()
        return max(state.factor, min(1.0, self.min_lr / context.base_rate))
