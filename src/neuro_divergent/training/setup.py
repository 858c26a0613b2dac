"""What the configuration asks to be put around a network and a run for the time of the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import nn

from neuro_divergent.training.activations import checkpointed
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.callbacks.engine import EpochLog, TeacherForcingRatio
from neuro_divergent.training.compile import compiled
from neuro_divergent.training.config import TrainingConfig


@contextmanager
def network_ready(module: nn.Module, config: TrainingConfig) -> Iterator[None]:
    """The network recomputing its activations and compiled, as configured; afterwards it is as it was."""
    with ExitStack() as stack:
        if config.activation_checkpointing is not None:
            stack.enter_context(checkpointed(module, config.activation_checkpointing.every))
        stack.enter_context(compiled(module, config.compile))
        yield


def engine_callbacks(module: nn.Module, config: TrainingConfig) -> list[Callback]:
    """The engine's own callbacks for this configuration."""
    own: list[Callback] = [EpochLog(config.log_every)]
    if config.teacher_forcing is not None:
        own.append(TeacherForcingRatio(config.teacher_forcing, module))
    return own
