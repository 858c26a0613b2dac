"""Prepare the network and the engine's callbacks for a training, from its configuration."""

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
    """Context that yields the strategy: the given one, or compiled steps if that was decided.

    Inside it, activations are stored or recomputed as configured, and the network runs compiled if that was decided.
    Afterwards the network is unchanged.
    """
    module, config = state.module, state.config
    with ExitStack() as stack:
        if config.activation_checkpointing is not None:
            stack.enter_context(checkpointed(module, config.activation_checkpointing.every))
        if not decided.whole:
            stack.enter_context(compiled(module, decided.compile))
        stack.callback(stop_compiled, module)  # if the step could not be compiled, the network may be
        yield Compiled(task, state) if decided.whole else strategy


def engine_callbacks(module: nn.Module, config: TrainingConfig) -> list[Callback]:
    """The engine's own callbacks for this configuration."""
    own: list[Callback] = [EpochLog(config.log_every)]
    if config.teacher_forcing is not None:
        own.append(TeacherForcingRatio(config.teacher_forcing, module))
    return own
