"""The strategy: the interface between the training loop and the ways to compute an optimizer step.

The loop calls `step` exactly once per optimizer step. Eager, compiled and stacked steps are the engine's own
strategies. Another package adds its own with a `StrategySettings` in `TrainingConfig.strategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task


class Step(NamedTuple):
    """The result of one optimizer step."""

    loss: float
    """The reduced loss of the effective batch."""
    norm: float
    """The gradient norm before clipping."""
    taken: bool
    """Whether the weights changed: False if loss or norm was not finite."""


class Strategy(Protocol):
    """A way to take optimizer steps.

    `neuro_divergent.training.step.eager.Eager` implements all methods for one process. A new strategy may subclass it
    and override some of them.
    """

    main: bool
    """Whether this process locks the run, writes its files and shows progress. A run has one main process."""

    def refuses(self, config: TrainingConfig, module: nn.Module) -> str | None:
        """Why this strategy cannot train this module with this configuration, as a sentence; None if it can."""
        ...

    def prepare(
        self, module: nn.Module, build_optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The module and the optimizer to train with; called once, before the first step.

        Register hooks or shard parameters here. Change the module of a forecasting model in place: its task calls
        methods other than `forward`, so a wrapper around the module is refused.
        """
        ...

    def source(self, source: Source, config: TrainingConfig) -> Source:
        """The source of the rows that this process computes; the given one if it computes all of them."""
        ...

    def begin(self, state: TrainState, identity: Callable[[], Mapping[str, Any]]) -> None:
        """Called once, when a checkpoint has been restored and before the first step.

        `identity` returns what the run trains on, such as the data's fingerprint, for processes that compare it.
        """
        ...

    def step(self, task: Task, state: TrainState, batch: Any) -> Step:
        """Take one optimizer step on the effective batch: gradients, reduction, clipping, update."""
        ...

    def validate(self, task: Task, state: TrainState, source: Source) -> dict[str, float] | None:
        """Loss and metrics over a source, as validation_<name>; None if a signal interrupted it."""
        ...

    def agree(self, flag: bool) -> bool:
        """Whether the flag is set in any process of the run. The engine calls it for stops, signals, out-of-memory
        errors and steps that are not finite."""
        ...

    def saves(self, state: TrainState, due: bool) -> bool:
        """Whether this process writes a checkpoint now. All processes call it after each step: they may have to tell
        the main process what it does not have."""
        ...

    def optimizer_tensors(self, state: TrainState) -> dict[str, Tensor]:
        """The whole state of the optimizer by parameter name, for a checkpoint."""
        ...

    def load_optimizer(self, state: TrainState, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `optimizer_tensors` returned, in any number of processes."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint, such as the state of a privacy accountant; {} for nothing."""
        ...

    def load_state_dict(self, data: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        ...
