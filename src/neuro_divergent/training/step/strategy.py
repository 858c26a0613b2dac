"""How one optimizer step is taken: the contract between the loop and every way to compute a step.

The loop calls `step` exactly once per optimizer step. Eager, compiled and stacked steps are the engine's own
strategies; another room or package brings its own by a `StrategySettings` in `TrainingConfig.strategy`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task


class Step(NamedTuple):
    """What one optimizer step gave."""

    loss: float
    """The reduced loss of the effective batch."""
    norm: float
    """The gradient norm before clipping."""
    taken: bool
    """Whether the weights moved: False when loss or norm was not finite."""


class Strategy(Protocol):
    """A way to take optimizer steps.

    `neuro_divergent.training.step.eager.Eager` implements all of it for one process: a new strategy may subclass it and
    override what it does differently.
    """

    main: bool
    """Whether this process locks the run, writes its files and shows progress. One process of a run is the main one."""

    def refuses(self, config: TrainingConfig, module: nn.Module) -> str | None:
        """Why this strategy cannot train this module with this configuration, in words; None when it can."""
        ...

    def prepare(
        self, module: nn.Module, build_optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The module and the optimizer to train with; called once, before the first step.

        Register hooks or shard parameters here. The module of a forecasting model is changed in place: its task calls
        other methods than `forward`, so that a wrapper around it is refused.
        """
        ...

    def step(self, task: Task, state: TrainState, batch: Any) -> Step:
        """Take one optimizer step on the effective batch: gradients, reduction, clipping, update."""
        ...

    def validate(self, task: Task, state: TrainState, source: Source) -> dict[str, float] | None:
        """The loss and metrics over a source, as validation_<name>; None when a signal ended it."""
        ...

    def agree(self, flag: bool) -> bool:
        """Whether the flag is set in any process of the run. Stop, signal, out of memory and non-finite ask this."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Plain data to keep in a checkpoint, such as a privacy accountant's; {} for nothing."""
        ...

    def load_state_dict(self, data: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        ...
