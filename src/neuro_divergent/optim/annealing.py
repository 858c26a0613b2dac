"""Cosine schedules, with warm-up or restarts, and the one-cycle policy.

Symbols as in schedules.py; w = number of warm-up steps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import cos, floor, log, pi
from typing import TYPE_CHECKING, Annotated, Any, Literal, Never

from pydantic import Field, model_validator

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.optim.schedules import (
    Schedule,
    ScheduleContext,
    Unit,
    _Falling,
    in_steps,
    progress,
    total_steps,
)


def cosine(high: float, low: float, share: float) -> float:
    """Half a cosine from high (share 0) to low (share 1)."""
    return low + (high - low) * (1 + cos(pi * share)) / 2


class CosineAnnealing(_Falling):
    """Half a cosine over the run (Loshchilov and Hutter 2017): factor(t) = m + (1 - m)(1 + cos(π t / T)) / 2.

    Same as torch's CosineAnnealingLR with T_max = T up to step T. After T it stays at m, but torch's rises again; use
    `CosineWarmRestarts` for that.

    >>> CosineAnnealing().factor_at(50, ScheduleContext(total_steps=100))
    0.5
    >>> CosineAnnealing(t_max=10).factor_at(50, ScheduleContext(steps_per_epoch=10))
    0.5
    """

    t_max: int | None = Field(default=None, ge=1)
    """T, the length of the half cosine in `unit`; None is the whole run."""
    unit: Unit = "epoch"
    """Whether `t_max` counts epochs or optimizer steps."""

    @property
    def bounded(self) -> bool:
        """Without `t_max` the end of the run must be known."""
        return self.t_max is None

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """m + (1 - m)(1 + cos(π t / T)) / 2."""
        end = total_steps(self, context) if self.t_max is None else in_steps(self.t_max, self.unit, context)
        return cosine(1.0, self.lowest(context), progress(step, 0, end))


class CosineWarmRestarts(_Falling):
    """Half a cosine with restarts (SGDR, Loshchilov and Hutter 2017); each period is `growth` times the one before.

    With s the steps since the last restart and p the length of the current period in steps:
    factor(t) = m + (1 - m)(1 + cos(π s / p)) / 2, same as torch's CosineAnnealingWarmRestarts stepped every batch.

    >>> schedule = CosineWarmRestarts(period=4, unit="step")
    >>> [round(schedule.factor_at(t, ScheduleContext()), 3) for t in range(5)]
    [1.0, 0.854, 0.5, 0.146, 1.0]
    """

    period: int = Field(default=10, ge=1)
    """Length of the first period, in `unit`."""
    growth: int = Field(default=1, ge=1)
    """Ratio of the length of a period to the length of the one before."""
    unit: Unit = "epoch"
    """Whether `period` counts epochs or optimizer steps."""

    @property
    def bounded(self) -> bool:
        """False: the schedule restarts until the run ends."""
        return False

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """m + (1 - m)(1 + cos(π s / p)) / 2."""
        first = int(in_steps(self.period, self.unit, context))
        since, length = self._position(step, first)
        return cosine(1.0, self.lowest(context), since / length)

    def _position(self, step: int, first: int) -> tuple[int, int]:
        if self.growth == 1:
            return step % first, first
        finished = floor(log(step / first * (self.growth - 1) + 1, self.growth))
        # At a restart the rounded logarithm may be wrong by one; integer arithmetic corrects it.
        while first * (self.growth ** (finished + 1) - 1) // (self.growth - 1) <= step:
            finished += 1
        while first * (self.growth**finished - 1) // (self.growth - 1) > step:
            finished -= 1
        return step - first * (self.growth**finished - 1) // (self.growth - 1), first * self.growth**finished


class _Warmed(_Falling):
    """Base of schedules with a linear warm-up, factor(t) = (t + 1) / (w + 1), and then a decay."""

    if TYPE_CHECKING:  # another word for `warmup`, which holds it
        warmup_steps: Takes[Never, int] = default(0)

    warmup: int | float = 0.1
    """Warm-up as a share of the run (below 1) or in optimizer steps (a whole number; also `warmup_steps=4000`)."""

    @model_validator(mode="before")
    @classmethod
    def _by_other_names(cls, fields: Any) -> Any:
        """`warmup_steps=4000` is another word for `warmup=4000`."""
        if not isinstance(fields, Mapping) or "warmup_steps" not in fields:
            return fields
        steps = fields["warmup_steps"]
        if "warmup" in fields:
            raise ConfigError(f"warmup_steps is another word for warmup, but got both, {steps} and {fields['warmup']}")
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
            raise ConfigError(f"warmup_steps must be a whole number of steps of at least 0, but got {steps!r}")
        return {name: value for name, value in fields.items() if name != "warmup_steps"} | {"warmup": steps}

    @model_validator(mode="after")
    def _share_or_steps(self) -> _Warmed:
        if not self.warmup >= 0 or (self.warmup >= 1 and self.warmup != int(self.warmup)):
            raise ConfigError(
                f"warmup must be a share of the run in [0, 1) or a whole number of steps, but got warmup={self.warmup}"
            )
        return self

    def rise(self, context: ScheduleContext) -> int:
        """w, the number of warm-up steps."""
        if isinstance(self.warmup, int) or self.warmup >= 1:
            return int(self.warmup)
        return round(self.warmup * total_steps(self, context))

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """(t + 1) / (w + 1) while t < w, then the decay with share (t - w) / (T - w)."""
        warmup = self.rise(context)
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return self._fall(progress(step, warmup, total_steps(self, context)), self.lowest(context))

    @abstractmethod
    def _fall(self, share: float, low: float) -> float:
        """The factor after the warm-up, from 1 at share 0 to low at share 1."""


class WarmupLinear(_Warmed):
    """Linear warm-up, then linear decay: factor(t) = m + (1 - m)(1 - (t - w) / (T - w)) after the warm-up.

    >>> schedule = WarmupLinear(warmup=1)
    >>> [schedule.factor_at(t, ScheduleContext(total_steps=5)) for t in range(5)]
    [0.5, 1.0, 0.75, 0.5, 0.25]
    """

    def _fall(self, share: float, low: float) -> float:
        return low + (1 - low) * (1 - share)


class WarmupCosine(_Warmed):
    """Linear warm-up, then half a cosine: m + (1 - m)(1 + cos(π (t - w) / (T - w))) / 2 after the warm-up.

    >>> schedule = WarmupCosine(warmup=0.2)
    >>> [round(schedule.factor_at(t, ScheduleContext(total_steps=5)), 3) for t in range(5)]
    [0.5, 1.0, 0.854, 0.5, 0.146]
    """

    def _fall(self, share: float, low: float) -> float:
        return cosine(1.0, low, share)


class OneCycle(Schedule):
    """The one-cycle policy (Smith and Topin 2018): the rate rises to its peak, then falls far below its first value.

    The optimizer's learning rate is the peak. With a = share_rising · T - 1 and b = T - 1:
    t ≤ a: from 1 / start_divisor to 1;  a < t ≤ b: from 1 to 1 / (start_divisor · end_divisor), along a cosine or a
    line. Same as torch's OneCycleLR without its momentum cycle.

    >>> schedule = OneCycle(share_rising=0.5, start_divisor=2.0, end_divisor=5.0, shape="linear")
    >>> [round(schedule.factor_at(t, ScheduleContext(total_steps=6)), 3) for t in range(6)]
    [0.5, 0.75, 1.0, 0.7, 0.4, 0.1]
    """

    share_rising: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of the run in which the rate rises."""
    start_divisor: float = Field(default=25.0, ge=1)
    """The first rate is the peak divided by this."""
    end_divisor: float = Field(default=1e4, ge=1)
    """The last rate is the first divided by this."""
    shape: Literal["cosine", "linear"] = "cosine"
    """Shape of the curve between first rate, peak and last rate."""

    @property
    def bounded(self) -> bool:
        """True: the cycle needs the total number of steps."""
        return True

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        """The multiplier: it rises to 1, then falls."""
        total = total_steps(self, context)
        start, peak = 1 / self.start_divisor, self.share_rising * total - 1
        if step <= peak:
            return self._between(start, 1.0, progress(step, 0, peak))
        return self._between(1.0, start / self.end_divisor, progress(step, peak, total - 1))

    def _between(self, first: float, last: float, share: float) -> float:
        return cosine(first, last, share) if self.shape == "cosine" else first + (last - first) * share
