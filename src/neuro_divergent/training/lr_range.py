"""The learning-rate range test: train with a rising rate, record the loss, suggest a rate.

After Smith (2017), Cyclical learning rates for training neural networks: the rate rises exponentially over a short run.
The loss is first constant, then falls, then diverges. A good rate is where the loss falls most steeply.
"""

from __future__ import annotations

import copy
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from neuro_divergent.core.errors import ConfigError, TrainingError
from neuro_divergent.optim import CustomSchedule, ScheduleFreeAdamW
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.config.training_config import TrainingConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuro_divergent.training.state.history import History
    from neuro_divergent.training.state.state import TrainState

DIVERGED = 4.0
"""The test ends when the smoothed loss is this many times the best one."""

SMOOTHING = 0.9
"""Decay of the moving average of the loss."""


@dataclass(frozen=True)
class RangeTest:
    """The result of a learning-rate range test."""

    rates: list[float]
    """The learning rate of each step."""
    losses: list[float]
    """The loss of each step."""
    smoothed: list[float]
    """Moving average of the losses, with bias correction."""
    suggestion: float
    """The rate at which the smoothed loss falls most steeply over the logarithm of the rate."""

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """A figure of the loss over the rate, with the suggestion; saved to `path` if given."""
        from neuro_divergent.plotting import curves, save

        return save(curves.range_figure(self.rates, self.losses, self.smoothed, self.suggestion), path)

    def __repr__(self) -> str:
        return f"RangeTest(suggestion={self.suggestion:.2e}, {len(self.rates)} rates up to {self.rates[-1]:.2e})"


def find_learning_rate(
    trained: Any,
    data: Any,
    config: TrainingConfig | None = None,
    *,
    lowest: float = 1e-6,
    highest: float = 1.0,
    steps: int = 100,
    **columns: Any,
) -> RangeTest:
    """Try rising learning rates in one short training; return the curve and a suggestion.

    The given module is not changed. The weights of a model are initialised as in `fit`.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 256, dtype=np.float32)[:, None]
    >>> found = find_learning_rate(nn.Linear(1, 1), (x, 3 * x), steps=50)
    >>> 1e-6 < found.suggestion < 1.0
    True

    Args:
        trained: a torch module, or a model such as `nd.NHITS(...)`.
        data: (x, y) for a module; a table for a model.
        config: the training options. The test ignores schedule, early stopping, checkpoints and validation.
        lowest: the first rate.
        highest: the last rate, if the loss does not diverge before.
        steps: number of optimizer steps from the first to the last rate.
        columns: arguments of `from_frame` when `data` is a plain frame.
    """
    if not 0 < lowest < highest or not math.isfinite(highest):
        raise ConfigError(f"rates must rise from lowest to highest, but got lowest={lowest}, highest={highest}")
    if steps < 10:
        raise ConfigError(f"steps must be at least 10 to see a curve, but got steps={steps}")
    sweep = _Sweep()
    history = _run(trained, data, _test_config(trained, config, lowest, highest, steps, sweep), columns)
    rates = [lowest * (highest / lowest) ** (step / (steps - 1)) for step in range(len(history.step_loss))]
    return summary(rates, history.step_loss)


def summary(rates: list[float], losses: list[float]) -> RangeTest:
    """The smoothed curve and the suggestion for given rates and losses."""
    if len(losses) < 3:
        raise TrainingError(
            f"the loss must stay finite for a few steps, but it diverged after {len(losses)}. Lower `lowest`, or scale "
            "the data"
        )
    smoothed, average = [], 0.0
    for number, loss in enumerate(losses):
        average = SMOOTHING * average + (1 - SMOOTHING) * loss
        smoothed.append(average / (1 - SMOOTHING ** (number + 1)))
    return RangeTest(rates, losses, smoothed, _steepest(rates, smoothed))


def _steepest(rates: list[float], smoothed: list[float]) -> float:
    """The rate where the curve falls most steeply before its minimum; if it never falls, a tenth of the minimum's."""
    count = len(smoothed)
    lowest = min(range(count), key=smoothed.__getitem__)
    # The first few averages are mostly noise, and so is the difference of two neighbours.
    reach, first = max(1, count // 30), max(1, count // 10)
    last = min(lowest + 1, count - reach)
    inner = range(max(first, reach), max(last, first + 1, reach + 1))
    slopes = {i: smoothed[min(i + reach, count - 1)] - smoothed[i - reach] for i in inner}
    best = min(slopes, key=slopes.__getitem__)
    return rates[best] if slopes[best] < 0 else rates[lowest] / 10


class _Sweep(Callback):
    """Ends the test when the loss diverges."""

    looks_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self.average, self.best, self.seen = 0.0, math.inf, 0

    def on_batch_end(self, state: TrainState) -> None:
        if not math.isfinite(state.loss):
            state.stop("the loss is not finite")
            return
        self.seen += 1
        self.average = SMOOTHING * self.average + (1 - SMOOTHING) * state.loss
        smoothed = self.average / (1 - SMOOTHING**self.seen)
        self.best = min(self.best, smoothed)
        if self.seen > 10 and smoothed > DIVERGED * self.best:
            state.stop("the loss diverges")


def _test_config(
    trained: Any, config: TrainingConfig | None, lowest: float, highest: float, steps: int, sweep: Callback
) -> TrainingConfig:
    config = config or TrainingConfig()
    optimizer: Any = config.optimizer
    if optimizer == "auto":
        recipe = None if isinstance(trained, nn.Module) else trained.recipe(steps * 32)
        optimizer = config.resolved(recipe).optimizer
    if isinstance(optimizer, ScheduleFreeAdamW):
        raise ConfigError(
            "a range test raises the rate at every step, but ScheduleFreeAdamW takes no schedule. Test AdamW and use "
            "about three times the suggested rate"
        )

    def rising(step: int) -> float:
        return float((highest / lowest) ** (step / (steps - 1)))

    off = ("early_stopping", "checkpoints", "validation_split", "averaging", "curriculum")
    return config.replace(
        **dict.fromkeys(off),
        optimizer=optimizer.at_rate(lowest),
        schedule=CustomSchedule(function=rising),
        max_epochs=None,
        max_steps=steps,
        callbacks=(sweep,),
        metrics=(),
        refit=None,
        progress=False,
        nonfinite="skip",
    )


def _run(trained: Any, data: Any, config: TrainingConfig, columns: dict[str, Any]) -> History:
    if not isinstance(trained, nn.Module):
        history: History = trained.fit(data, config, **columns).history
        return history
    from neuro_divergent.training.module_trainer import Trainer

    if columns:
        raise ConfigError(f"a module takes (x, y) and no other arguments, but got {', '.join(columns)}")
    module = copy.deepcopy(trained)
    return Trainer(config).fit(module, data)
