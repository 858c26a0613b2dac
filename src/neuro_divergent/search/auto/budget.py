"""How many steps fit into the time of a training, from the measured time of its first steps."""

from __future__ import annotations

import time
from dataclasses import dataclass

from neuro_divergent.forecasting.fit.run import Run

LEAST_STEPS = 30
"""A training of fewer steps is not begun."""
WARM, MEASURED = 2, 10
"""The first steps are slower (memory, caches) and are not measured; at most so many are."""
MEASURE_SECONDS = 1.0
"""No further step is measured after this time."""
MARGIN = 1.1
"""A step may take this much longer than the measured ones."""
VALIDATIONS, VALIDATING = 8, 0.4
"""A shortened training is validated about so often, if that takes at most this share of its time."""


@dataclass(frozen=True)
class Pace:
    """The measured speed of a training."""

    step: float
    """Seconds of an optimizer step."""
    validation: float
    """Seconds of a validation."""
    per_epoch: int
    """Steps from one validation to the next."""

    def steps_in(self, seconds: float) -> int:
        """How many steps with their validations fit into some seconds.

        >>> Pace(step=0.01, validation=0.1, per_epoch=100).steps_in(2.2)
        181
        """
        return max(0, int(seconds / (MARGIN * (self.step + self.validation / self.per_epoch)) + 1e-9))

    def shortened(self, seconds: float) -> tuple[int, int]:
        """How many steps fit, and from one validation to the next, if the training is made to fit."""
        time = seconds / MARGIN
        often = max(1, min(VALIDATIONS, int(VALIDATING * time / max(self.validation, 1e-9) + 1e-9)))
        steps = int((time - often * self.validation) / self.step + 1e-9)
        return max(0, steps), max(1, min(self.per_epoch, steps // often))


def measure(run: Run, seconds: float) -> Pace:
    """Train the first steps of a run, and return how long they take.

    The first epoch is trained to its end if it is a small part of the time: then its validation is measured, too.
    Else a validation is taken to cost a third of the steps with as many windows.
    """
    state = run.training.state
    run.advance(WARM)
    begun, first = time.perf_counter(), state.step
    while state.step < first + MEASURED and time.perf_counter() - begun < MEASURE_SECONDS:
        before = state.step
        run.advance(before + 1)
        if state.step == before:
            break
    step = (time.perf_counter() - begun) / max(1, state.step - first)
    validation = _guessed(run, step)
    if state.position and (state.steps_per_epoch - state.position) * step + validation < 0.1 * seconds:
        begun, left = time.perf_counter(), state.steps_per_epoch - state.position
        run.advance(state.step + left)
        validation = max(0.0, time.perf_counter() - begun - left * step)
    return Pace(max(step, 1e-6), validation, state.steps_per_epoch)


def _guessed(run: Run, step: float) -> float:
    held = run.training.state.validation_source
    windows = getattr(getattr(held, "windows", None), "__len__", lambda: 0)()
    return float(windows * step / 3 / max(1, _batch(run)))


def _batch(run: Run) -> int:
    size = run.config.batch_size
    return size if isinstance(size, int) else 32
