"""The conformance suite of schedules."""

from __future__ import annotations

from math import isfinite

from neuro_divergent.conformance.descriptions import is_documented, round_trips
from neuro_divergent.conformance.examples import schedule_examples
from neuro_divergent.conformance.suite import Suite, expecting, require
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.optim import Schedule, ScheduleContext

SCHEDULES: Suite[Schedule] = Suite("schedule", schedule_examples)
"""The checks of schedules; `check_schedule` runs one of them."""

RUNS = ((1, 1), (2, 1), (10, 3), (100, 7), (1000, 1000))
"""Total steps and steps per epoch of the runs on which a schedule is checked."""


@SCHEDULES.check
def description_round_trips(schedule: Schedule) -> None:
    """JSON and YAML restore the description."""
    round_trips(schedule)


@SCHEDULES.check
def description_is_documented(schedule: Schedule) -> None:
    """The class and every field are described."""
    is_documented(schedule)


@SCHEDULES.check
def factors_are_finite_and_not_negative(schedule: Schedule) -> None:
    """Every step of every run, and steps after its end, have a finite factor of at least zero."""
    for context in _contexts(schedule):
        total = context.total_steps or 0
        for step in (*range(total), total, total + 1, 10 * total):
            with expecting(f"step {step} of {context}"):
                factor = schedule.factor_at(step, context)
                require(isinstance(factor, float), f"factor_at must return a float, but got {factor!r}")
                require(isfinite(factor) and factor >= 0, f"a factor must be finite and at least 0, but got {factor}")


@SCHEDULES.check
def some_step_learns(schedule: Schedule) -> None:
    """The factor at the first step is not zero."""
    for context in _contexts(schedule):
        require(schedule.factor_at(0, context) > 0, f"the first step of {context} must learn, but its factor is 0")


@SCHEDULES.check
def factors_depend_on_the_step_alone(schedule: Schedule) -> None:
    """Called backwards, or for an equal description, the factors are the same: a resumed run needs no other state."""
    for context in _contexts(schedule):
        steps = range(context.total_steps or 0)
        forward = [schedule.factor_at(step, context) for step in steps]
        backward = [schedule.factor_at(step, context) for step in reversed(steps)][::-1]
        require(forward == backward, f"factor_at must be a pure function of the step, but order matters in {context}")
        fresh = [schedule.replace().factor_at(step, context) for step in steps]
        require(forward == fresh, f"an equal schedule must give equal factors, but does not in {context}")


@SCHEDULES.check
def curve_is_the_factors(schedule: Schedule) -> None:
    """`curve` lists the factors of a run."""
    for context in _contexts(schedule):
        wanted = [schedule.factor_at(step, context) for step in range(context.total_steps or 0)]
        require(schedule.curve(context).tolist() == wanted, f"curve must list the factors of {context}, but does not")


@SCHEDULES.check
def an_open_end_works_or_is_refused(schedule: Schedule) -> None:
    """Without a total, a schedule that needs none has a factor; one that needs it refuses."""
    context = ScheduleContext(steps_per_epoch=5)
    try:
        factor = schedule.factor_at(3, context)
    except ConfigError:
        require(schedule.bounded, "a schedule that refuses an open-ended run must have bounded=True, but has not")
        return
    require(isfinite(factor) and factor >= 0, f"a factor must be finite and at least 0, but got {factor}")


def _contexts(schedule: Schedule) -> list[ScheduleContext]:
    """The runs that a schedule accepts; runs that it refuses as too short are left out."""
    found = []
    for total, epoch in RUNS:
        context = ScheduleContext(total_steps=total, steps_per_epoch=epoch, base_rate=1e-3)
        try:
            schedule.factor_at(0, context)
        except ConfigError:
            continue
        found.append(context)
    require(
        bool(found), f"a schedule must accept one of the runs {RUNS} (total steps, steps per epoch), but refuses all"
    )
    return found
