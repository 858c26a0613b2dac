"""What the configuration asks to be put around a network and a run for the time of the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import nn

from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.callbacks.engine import EpochLog, TeacherForcingRatio
from neuro_divergent.training.compiled.choose import Decided
from neuro_divergent.training.compiled.full_step import WholeStep
from neuro_divergent.training.compiled.network import compiled, stop_compiled
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step.activation_checkpointing import checkpointed
from neuro_divergent.training.step.strategy import SingleProcess


@contextmanager
def network_ready(task: Task, state: TrainState, decided: Decided) -> Iterator[SingleProcess]:
    """Who computes the steps: eagerly, or compiled as decided, with activations kept or recomputed as configured.

    Afterwards the network is as it was.
    """
    module, config = state.module, state.config
    with ExitStack() as stack:
        if config.activation_checkpointing is not None:
            stack.enter_context(checkpointed(module, config.activation_checkpointing.every))
        whole = WholeStep(task, state) if decided.whole else None
        if whole is None:
            stack.enter_context(compiled(module, decided.compile))
        stack.callback(stop_compiled, module)  # a step that cannot be compiled may have left it to the network
        yield SingleProcess(whole)


def engine_callbacks(module: nn.Module, config: TrainingConfig) -> list[Callback]:
    """The engine's own callbacks for this configuration."""
    own: list[Callback] = [EpochLog(config.log_every)]
    if config.teacher_forcing is not None:
        own.append(TeacherForcingRatio(config.teacher_forcing, module))
    return own
