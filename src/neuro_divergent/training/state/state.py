"""The live state of a training. Together with the configuration it is all that a resume needs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuro_divergent.core.errors import TrainingError
from neuro_divergent.optim import Averager, PlateauState
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.early_stopping import Patience
from neuro_divergent.training.state.history import History
from neuro_divergent.training.state.precision import Precision
from neuro_divergent.training.state.task import Source, Task

if TYPE_CHECKING:
    from neuro_divergent.training.process.signals import Guard
    from neuro_divergent.training.runs.saver import Saver
    from neuro_divergent.training.step.strategy import Strategy


@dataclass
class TrainState:
    """The live state of a run, which the engine, the callbacks and the checkpoints share."""

    config: TrainingConfig
    module: nn.Module
    optimizer: torch.optim.Optimizer
    precision: Precision
    source: Source
    validation_source: Source | None
    total_steps: int
    """Largest number of optimizer steps. Schedules and curricula extend over all of them."""
    strategy: Strategy
    """The strategy that takes the steps."""
    scored: Source | None = None
    """Training rows in order, on which metrics are computed where nothing is held out."""
    history: History = field(default_factory=History)
    averager: Averager | None = None
    plateau: PlateauState | None = None
    step: int = 0
    """Finished optimizer steps."""
    epoch: int = 0
    """Finished epochs."""
    position: int = 0
    """Finished steps of the present epoch."""
    epoch_loss: float = 0.0
    """Sum of the present epoch's step losses."""
    epoch_seconds: float = 0.0
    rate_factor: float = 1.0
    """A factor of the learning rate that callbacks may change; the schedule's factor is multiplied, too."""
    patience: Patience = field(default_factory=Patience)
    best_weights: dict[str, Tensor] | None = None
    loss: float = float("nan")
    """Loss of the last step."""
    gradient_norm: float = float("nan")
    """Gradient norm of the last step, before clipping."""
    validation: dict[str, float] = field(default_factory=dict)
    """Loss and metrics of the last validation."""
    skipped: int = 0
    """Number of steps skipped because the loss or a gradient was not finite."""
    stopping: str = ""
    """Why the training should end now; empty if it goes on."""
    micro_batches: int = 1
    """Number of pieces of each micro-batch; more than 1 after the memory was too small for the whole."""
    error: BaseException | None = None
    saver: Saver | None = None
    """Writes the checkpoints; None without checkpoints."""
    guard: Guard | None = None
    """Handles signals; None if the run does not handle them."""
    on_gradients: Callable[[TrainState], None] | None = None
    """Called between backward and clipping if a callback has the hook. The engine sets it."""
    observers: Callable[[TrainState], Callable[[TrainState], None] | None] | None = None
    """Given the state, a function that shows the gradients to the callbacks that only read those of the next step, or
    None if there are none. For steps that do not expose gradients. The engine sets it."""
    working: tuple[Task, Any] | None = None
    """The task and the batch of the present step, until the next one; only if a callback has the hook on_gradients."""
    outputs: Any = None
    """The network's outputs in the last forward pass, detached; only if a callback declares "outputs"."""
    tensors: dict[str, Tensor] | None = None
    """Cache of the module's live parameters and buffers by name, or None."""
    run_directory: Path | None = None
    facts: Callable[[], Mapping[str, Any]] = dict
    """What a checkpoint says of its run besides the state: configuration, identity, versions; set by the engine."""
    context: Callable[[], Mapping[str, bytes]] = dict
    """Files that turn a checkpoint into a forecaster; nothing for a module of the user's."""
    about: Callable[[], Mapping[str, Any]] = dict
    """Facts about the table and its scores, as plain data, which are written into the run directory once."""
    requested: list[str] = field(default_factory=list)
    """Where checkpoints were asked for that are not written yet."""
    shared: dict[str, Any] = field(default_factory=dict)
    """A dictionary in which callbacks may share objects."""

    @property
    def learning_rate(self) -> float:
        """The learning rate of the first parameter group."""
        return float(self.optimizer.param_groups[0]["lr"])

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of one epoch."""
        return self.source.steps_per_epoch

    @property
    def signalled(self) -> bool:
        """Whether a signal was received; the run is saved and ends."""
        return self.guard is not None and self.guard.received is not None

    def set_learning_rate(self, rate: float) -> None:
        """Go on with this rate for the first parameter group; other groups keep their ratio to it.

        A schedule goes on from there: what it would have multiplied the rate with, it multiplies this one with.
        """
        if not (isinstance(rate, int | float) and 0 < rate < math.inf):
            raise TrainingError(f"a learning rate must be a finite number above 0, but got {rate!r}")
        if not self.learning_rate > 0:
            raise TrainingError(
                f"the schedule has brought the learning rate to {self.learning_rate:g}, from which it cannot go on at "
                f"{rate:g}. Use schedule=None, or a schedule with min_lr"
            )
        ratio = rate / self.learning_rate
        self.rate_factor *= ratio
        for group in self.optimizer.param_groups:
            group["lr"] *= ratio

    def stop(self, why: str) -> None:
        """End the training after this step. `why` is the sentence in `history.stopped`."""
        self.stopping = self.stopping or why

    def save_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint to a directory of its own, as soon as the present step (and epoch) is complete.

        A callback may call this at any moment of a training; `path` is given to `resume=`, `nd.load` or
        `load_checkpoint`. A checkpoint that is there already is replaced.
        """
        if self.history.stopped or self.error is not None:
            why = self.history.stopped or self.error
            raise TrainingError(
                f"a checkpoint is taken while a run trains, but this one has ended: {why}. "
                "Call save_checkpoint before on_fit_end, or save the forecaster"
            )
        self.requested.append(os.fspath(path))

    def log(self, **values: Any) -> None:
        """Add an event with these values and the present step to `history.events`."""
        self.history.events.append({"step": self.step, "epoch": self.epoch} | values)

    def weights(self) -> dict[str, Tensor]:
        """A copy of the module's parameters and buffers."""
        live = self.module.state_dict() if self.tensors is None else self.tensors
        return {name: tensor.detach().clone() for name, tensor in live.items()}
