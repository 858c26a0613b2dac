"""Schedules that combine other schedules, or call a function of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from neuro_divergent.core.config import Function
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, Takes
from neuro_divergent.optim.plateau import ReduceOnPlateau
from neuro_divergent.optim.schedules import Schedule, ScheduleContext, total_steps, usable_factor


class CustomSchedule(Schedule):
    """A schedule from a Python function: factor(t) = function(t), or function(t, context).

    >>> CustomSchedule(function=lambda step: 1 / (1 + step)).factor_at(3, ScheduleContext())
    0.25
    """

    function: Function
    """Takes the step (from 0) and returns the multiplier of the learning rate."""
    with_context: bool = False
    """Whether the function also takes the `ScheduleContext`."""

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """The number that the function returns; raises if it is not finite or below 0."""
        said = self.function(step, context) if self.with_context else self.function(step)
        return usable_factor(said, step, "a schedule's function")


def as_schedule(value: Any) -> Any:
    """Read a function of the step as `CustomSchedule`; anything else is left as it is."""
    described = isinstance(value, Schedule) or (isinstance(value, type) and issubclass(value, Schedule))
    return CustomSchedule(function=value) if callable(value) and not described else value


AnySchedule = Annotated[Schedule, BeforeValidator(as_schedule)]
"""A field that takes a schedule, its class, name or JSON object, or a function of the step."""

GivenSchedule = Schedule | type[Schedule] | str | Callable[[int], float] | Mapping[str, Any]
"""What such a field may be given."""


class Joined(Schedule):
    """Several schedules one after the other: the i-th one is used from at[i - 1] to at[i].

    Each schedule sees its part of the run as a complete run: its steps count from the start of the part, and its total
    is the length of the part. Same as torch's SequentialLR.

    >>> from neuro_divergent.optim.schedules import Constant, LinearDecay
    >>> schedule = Joined(schedules=(Constant(), LinearDecay()), at=(0.5,))
    >>> [schedule.factor_at(t, ScheduleContext(total_steps=8)) for t in range(8)]
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]
    """

    schedules: Annotated[Takes[tuple[AnySchedule, ...], Sequence[GivenSchedule]], Field(min_length=1)]
    """The schedules in order."""
    at: Several[int | float]
    """Start of each schedule but the first, ascending: shares of the run (below 1) or whole numbers of steps."""

    @model_validator(mode="after")
    def _fits(self) -> Joined:
        if len(self.at) != len(self.schedules) - 1:
            raise ConfigError(
                f"at must have one entry fewer than schedules, but got {len(self.at)} and {len(self.schedules)}"
            )
        if any(place <= 0 or (place >= 1 and place != int(place)) for place in self.at):
            raise ConfigError(f"at must have shares in (0, 1) or whole numbers of steps, but got at={self.at}")
        if any(isinstance(part, ReduceOnPlateau) for part in self.schedules):
            raise ConfigError(
                "ReduceOnPlateau follows a metric and not the step, so it cannot be one of the joined schedules. "
                "Use it alone."
            )
        return self

    @property
    def bounded(self) -> bool:
        """Whether `at` has shares, or the last schedule needs the total number of steps."""
        return self.schedules[-1].bounded or any(self._is_share(place) for place in self.at)

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """The factor of the schedule that is active at this step."""
        starts = [0, *(self._step_of(place, context) for place in self.at)]
        if any(later <= earlier for earlier, later in pairwise(starts)):
            raise ConfigError(f"at must be ascending, but got at={self.at}, which are the steps {starts[1:]}")
        part = max(number for number, start in enumerate(starts) if start <= step)
        end = starts[part + 1] if part + 1 < len(starts) else context.total_steps
        length = None if end is None else end - starts[part]
        return self.schedules[part].factor_at(step - starts[part], replace(context, total_steps=length))

    def _step_of(self, place: float, context: ScheduleContext) -> int:
        return round(place * total_steps(self, context)) if self._is_share(place) else int(place)

    @staticmethod
    def _is_share(place: float) -> bool:
        return isinstance(place, float) and place < 1
