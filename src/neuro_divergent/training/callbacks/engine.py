"""The engine's own callbacks: the log line of every n-th epoch, and the teacher-forcing ratio."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar

from torch import nn

from neuro_divergent.core.errors import Advice, ConfigError
from neuro_divergent.training.callbacks.base import Callback

if TYPE_CHECKING:
    from neuro_divergent.training.config.curriculum import TeacherForcing
    from neuro_divergent.training.state.state import TrainState

log = logging.getLogger("neuro_divergent.training")


class EpochLog(Callback):
    """Writes one line to Python's log after every n-th epoch and at the end; `record.figures` has the numbers."""

    engine: ClassVar[bool] = True

    def __init__(self, every: int) -> None:
        self.every = every

    def on_epoch_end(self, state: TrainState) -> None:
        """Log epoch=10 train_loss=0.1 …"""
        record = state.history.epochs[-1]
        if (state.epoch + 1) % self.every == 0 and log.isEnabledFor(logging.INFO):
            words = " ".join(f"{name}={value:.6g}" for name, value in record.items())
            log.info("%s", words, extra={"figures": dict(record)})

    def on_fit_end(self, state: TrainState) -> None:
        """Log the number of steps, and why the training ended."""
        log.info("trained for %d steps: %s", state.step, state.history.stopped)


class TeacherForcingRatio(Callback):
    """Sets the attribute `teacher_forcing` of decoders to the probability of the present step."""

    engine: ClassVar[bool] = True

    def __init__(self, schedule: TeacherForcing, module: nn.Module) -> None:
        self.schedule = schedule
        self.decoders = [part for part in module.modules() if hasattr(part, "teacher_forcing")]
        if not self.decoders:
            raise ConfigError(
                "teacher_forcing needs a network that feeds its own forecasts back (a module with the attribute "
                "teacher_forcing), but this network has none. Set teacher_forcing=None",
                advice=[Advice("training.teacher_forcing", None)],
            )

    def on_batch_start(self, state: TrainState) -> None:
        """Set the ratio, a function of the step number only."""
        ratio = self.schedule.ratio(state.step, state.total_steps)
        for decoder in self.decoders:
            setattr(decoder, "teacher_forcing", ratio)  # noqa: B010  # torch types every attribute as a tensor
