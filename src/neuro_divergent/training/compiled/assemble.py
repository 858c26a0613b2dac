"""What the configuration asks to be put around a network and a run for the time of the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import nn

from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.callbacks.engine import EpochLog, TeacherForcingRatio
from neuro_divergent.training.compiled.choose import Decided
from neuro_divergent.training.compiled.full_step import Compiled
from neuro_divergent.training.compiled.network import compiled, stop_compiled
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step.activation_checkpointing import checkpointed
from neuro_divergent.training.step.strategy import Strategy


@contextmanager
def network_ready(task: Task, state: TrainState, decided: Decided, strategy: Strategy) -> Iterator[Strategy]:
    """The strategy that takes the steps: the given one, or compiled steps if that was decided.

    While the context is open, activations are kept or recomputed as configured and the network runs compiled if that
    was decided. Afterwards the network is as it was.
    """
    module, config = state.module, state.config
    with ExitStack() as stack:
        if config.activation_checkpointing is not None:
            stack.enter_context(checkpointed(module, config.activation_checkpointing.every))
        if not decided.whole:
            stack.enter_context(compiled(module, decided.compile))
        stack.callback(stop_compiled, module)  # a step that cannot be compiled may have left it to the network
        yield Compiled(task, state) if decided.whole else strategy


def engine_callbacks(module: nn.Module, config: TrainingConfig) -> list[Callback]:
    """The engine's own callbacks for this configuration."""
    own: list[Callback] = [EpochLog(config.log_every)]
    if config.teacher_forcing is not None:
        own.append(TeacherForcingRatio(config.teacher_forcing, module))
    return own
