"""Schedules: pure functions from the step to the multiplier of the learning rate.

A schedule takes the optimizer step, counted from 0, and a `ScheduleContext`. Lengths in epochs become steps with
`context.steps_per_epoch`. Symbols in the formulas: t step, T total steps, E steps per epoch, e = ⌊t / E⌋ epoch,
m = lowest factor.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import OneOrSeveral

Factor = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite multiplier, zero or above."""

Unit = Literal["epoch", "step"]
"""The unit of a length."""


@dataclass(frozen=True, kw_only=True)
class PlateauState:
    """The state of a `ReduceOnPlateau` between validations."""

    best: float | None = None
    """Best value so far; None before the first."""
    waited: int = 0
    """Validations since the best one."""
    cooling: int = 0
    """Validations left in the cooldown."""
    factor: float = 1.0
    """The current multiplier."""


@dataclass(frozen=True, kw_only=True)
class ScheduleContext:
    """The facts about a run that a schedule may use."""

    total_steps: int | None = None
    """T: optimizer steps of the whole run; None when it is open-ended."""
    steps_per_epoch: int = 1
    """E: optimizer steps of one epoch."""
    base_rate: float = 1.0
    """The optimizer's learning rate before any factor; it turns `min_lr` into a factor."""
    plateau: PlateauState | None = None
    """The present state of a `ReduceOnPlateau`."""


class Schedule(Description):
    """Base class of all schedules. A subclass adds its fields and `factor_at`."""

    family: ClassVar[str] = "schedule"

    @property
    def bounded(self) -> bool:
        """Whether the schedule needs the total number of steps."""
        return False

    @abstractmethod
    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """The multiplier of the learning rate at a step, counted from 0."""

    def curve(self, context: ScheduleContext) -> np.ndarray:
        """The multipliers of all steps of a run, for plots and checks."""
        total = total_steps(self, context)
        return np.array([self.factor_at(step, context) for step in range(total)], dtype=np.float64)


def checked_factor(schedule: Schedule, step: int, context: ScheduleContext) -> float:
    """`factor_at` of a schedule that somebody else may have written."""
    return usable_factor(schedule.factor_at(step, context), step, f"factor_at(step, context) of {schedule.kind}")


def usable_factor(given: Any, step: int, who: str) -> float:
    """The factor that `who` gave for a step as a float, if it is one."""
    try:
        factor = math.nan if isinstance(given, str) else float(given)
    except (TypeError, ValueError, RuntimeError):  # nothing, an array of several numbers, ...
        factor = math.nan
    if not 0 <= factor < math.inf:
        raise ConfigError(
            f"{who} must return a finite number of at least 0, by which the rate is multiplied, but got {given!r} "
            f"at step {step}"
        )
    return factor


def total_steps(schedule: Schedule, context: ScheduleContext) -> int:
    """T; raises if the run has no fixed number of steps."""
    if context.total_steps is None:
        raise ConfigError(
            f"{schedule.kind} needs the total number of steps, but the run is open-ended. "
            "Set max_epochs or max_steps, or use a schedule without an end such as ReduceOnPlateau."
        )
    return context.total_steps


def in_steps(length: float, unit: Unit, context: ScheduleContext) -> float:
    """A length of epochs or steps, in optimizer steps."""
    return length * context.steps_per_epoch if unit == "epoch" else length


class Constant(Schedule):
    """A constant learning rate: factor(t) = factor.

    >>> Constant().factor_at(1000, ScheduleContext())
    1.0
    """

    factor: Factor = 1.0
    """The multiplier."""

    def factor_at(self, step: int, context: ScheduleContext) -> float:  # noqa: ARG002
        """factor(t) = factor."""
        return self.factor


class StepDecay(Schedule):
    """The rate drops at regular intervals: factor(t) = factor^⌊t / (every · E)⌋, same as torch's StepLR per epoch.

    >>> StepDecay(every=30, factor=0.1).factor_at(60, ScheduleContext(steps_per_epoch=2))
    0.1
    """

    every: int = Field(default=30, ge=1)
    """Length of an interval, in `unit`."""
    factor: Factor = 0.1
    """Multiplier of the learning rate at each drop."""
    unit: Unit = "epoch"
    """Whether `every` counts epochs or optimizer steps."""

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """factor^(intervals completed)."""
        return float(self.factor ** (step // int(in_steps(self.every, self.unit, context))))


class MultiStepDecay(Schedule):
    """The rate drops at given epochs or steps: factor(t) = factor^(number of milestones ≤ t); torch's MultiStepLR.

    >>> [MultiStepDecay(milestones=(1, 3), factor=0.5).factor_at(t, ScheduleContext()) for t in range(4)]
    [1.0, 0.5, 0.5, 0.25]
    """

    milestones: Annotated[OneOrSeveral[Annotated[int, Field(ge=1)]], Field(min_length=1)]
    """When the rate drops, in `unit`; ascending."""
    factor: Factor = 0.1
    """Multiplier of the learning rate at each drop."""
    unit: Unit = "epoch"
    """Whether `milestones` count epochs or optimizer steps."""

    @model_validator(mode="after")
    def _rising(self) -> MultiStepDecay:
        if any(later <= earlier for earlier, later in pairwise(self.milestones)):
            raise ConfigError(f"milestones must be ascending, but got milestones={self.milestones}")
        return self

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """factor^(milestones passed)."""
        passed = sum(step >= in_steps(milestone, self.unit, context) for milestone in self.milestones)
        return float(self.factor**passed)


class ExponentialDecay(Schedule):
    """Exponential decay: factor(t) = max(m, factor^⌊e / every⌋).

    With every=1 it is torch's ExponentialLR. With `unit="step"` steps are counted instead of epochs. With `smooth=True`
    the exponent is not rounded, so that the rate changes at every step.

    >>> ExponentialDecay(factor=0.5).factor_at(7, ScheduleContext(steps_per_epoch=3))
    0.25
    >>> ExponentialDecay(factor=0.5, every=2).factor_at(7, ScheduleContext(steps_per_epoch=3))
    0.5
    """

    factor: Factor = 0.95
    """Multiplier of the learning rate after every `every` epochs or steps."""
    every: int = Field(default=1, ge=1)
    """Number of epochs or steps between two reductions of the rate."""
    unit: Unit = "epoch"
    """Whether `every` counts epochs or optimizer steps."""
    smooth: bool = False
    """Whether the rate changes at every step instead of only after `every` epochs or steps."""
    min_lr: Factor = 0.0
    """Lowest learning rate."""

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """max(m, factor^exponent)."""
        exponent = step / in_steps(self.every, self.unit, context)
        lowest = min(1.0, self.min_lr / context.base_rate)
        return max(lowest, float(self.factor ** (exponent if self.smooth else int(exponent))))


class _Falling(Schedule):
    """Base of schedules that decay from the full to the lowest rate over the run."""

    min_lr: Factor = 0.0
    """Lowest learning rate."""
    min_factor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Lowest multiplier of the learning rate; instead of `min_lr`."""

    @model_validator(mode="after")
    def _one_minimum(self) -> _Falling:
        if self.min_lr and self.min_factor:
            raise ConfigError(
                f"a schedule takes either min_lr or min_factor, but got min_lr={self.min_lr} and "
                f"min_factor={self.min_factor}. Leave one out."
            )
        return self

    @property
    def bounded(self) -> bool:
        """True: the decay ends with the run."""
        return True

    def lowest(self, context: ScheduleContext) -> float:
        """m, the lowest multiplier; at most 1, so that a schedule never rises towards its minimum."""
        return min(1.0, self.min_lr / context.base_rate) if self.min_lr else self.min_factor


class LinearDecay(_Falling):
    """Linear decay to the lowest rate: factor(t) = m + (1 - m)(1 - t / T), same as torch's LinearLR from 1 to m.

    >>> LinearDecay().factor_at(25, ScheduleContext(total_steps=100))
    0.75
    """

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """m + (1 - m)(1 - t / T)."""
        low = self.lowest(context)
        return low + (1 - low) * (1 - progress(step, 0, total_steps(self, context)))


class PolynomialDecay(_Falling):
    """Polynomial decay: factor(t) = m + (1 - m)(1 - t / T)^power, same as torch's PolynomialLR when m = 0.

    >>> PolynomialDecay(power=2.0).factor_at(50, ScheduleContext(total_steps=100))
    0.25
    """

    power: float = Field(default=2.0, gt=0, allow_inf_nan=False)
    """Exponent; 1 is `LinearDecay`."""

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """m + (1 - m)(1 - t / T)^power."""
        low = self.lowest(context)
        return float(low + (1 - low) * (1 - progress(step, 0, total_steps(self, context))) ** self.power)


def progress(step: int, start: float, end: float) -> float:
    """Share of the way from start to end, in [0, 1]."""
    return min(1.0, max(0.0, (step - start) / (end - start))) if end > start else 1.0
