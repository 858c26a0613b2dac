"""What the configuration asks to be put around a network and a run for the time of the training."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import nn

from neuro_divergent.training.activations import checkpointed
from neuro_divergent.training.callbacks.base import Callback, CallbackList
from neuro_divergent.training.callbacks.engine import EpochLog, TeacherForcingRatio
from neuro_divergent.training.compile import compiled, stop_compiled
from neuro_divergent.training.config import TrainingConfig
from neuro_divergent.training.decisions import Decided
from neuro_divergent.training.state import TrainState
from neuro_divergent.training.strategy import SingleProcess
from neuro_divergent.training.task import Task
from neuro_divergent.training.whole_step import WholeStep, obstacle

log = logging.getLogger(__name__)


@contextmanager
def network_ready(task: Task, state: TrainState, decided: Decided, callbacks: CallbackList) -> Iterator[SingleProcess]:
    """Who computes the steps: eagerly, or compiled as decided, with activations kept or recomputed as configured.

    Afterwards the network is as it was.
    """
    module, config = state.module, state.config
    with ExitStack() as stack:
        if config.activation_checkpointing is not None:
            stack.enter_context(checkpointed(module, config.activation_checkpointing.every))
        whole = _whole_step(task, state, callbacks) if decided.compile else None
        if whole is None:
            stack.enter_context(compiled(module, decided.compile))
        stack.callback(stop_compiled, module)  # a step that cannot be compiled may have left it to the network
        yield SingleProcess(whole)


def _whole_step(task: Task, state: TrainState, callbacks: CallbackList) -> WholeStep | None:
    reason = obstacle(state.config, callbacks.callbacks, state.module)
    if reason is not None:
        log.info("only the network is compiled, and not the whole step: %s", reason)
        return None
    return WholeStep(task, state)


def engine_callbacks(module: nn.Module, config: TrainingConfig) -> list[Callback]:
    """The engine's own callbacks for this configuration."""
    own: list[Callback] = [EpochLog(config.log_every)]
    if config.teacher_forcing is not None:
        own.append(TeacherForcingRatio(config.teacher_forcing, module))
    return own
