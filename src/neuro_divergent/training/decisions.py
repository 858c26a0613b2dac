"""What "auto" means for threads and compiling: decided once, from configuration and sizes, and kept by a resume.

Never from a stopwatch or the machine's load: the same run must make the same choice, because both change rounding.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from neuro_divergent.training.state import TrainState

log = logging.getLogger(__name__)

ONE_THREAD_WORK = 1 << 24
"""Weights times rows of a step up to which one thread is used. The best steps of a
perceptron on a busy machine with two cores: at 12 million 1.4 ms on one thread and 1.5 ms on two. Where exactly the
second thread begins to pay has not been measured on a quiet machine."""

_SHARED_WEIGHTS = (nn.RNNBase, nn.modules.conv._ConvNd, nn.MultiheadAttention, nn.LayerNorm, nn.RMSNorm)
"""Layers by which a network is known that uses its weights at every position of a window."""


@dataclass(frozen=True)
class Decided:
    """How a run computes, the same from its first step to its last."""

    compile: bool
    threads: int

    def facts(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)


def decide(state: TrainState, kept: Mapping[str, Any] | None) -> Decided:
    """Threads and compiling of a run.

    Args:
        state: the prepared run.
        kept: what was decided when the run began, if it is resumed; a run from before there were decisions ({}) goes on
            as it did.
    """
    config = state.config
    threads, compiling = config.threads, config.compile
    if threads == "auto":
        threads = _threads(state) if kept is None else _still_possible(kept.get("threads"))
    if compiling == "auto":
        # While the compiler works, for seconds or on a busy machine for a minute, a signal to stop is not heard. What a
        # run saves by it on a CPU is of the same size, so nobody gets it without having asked.
        compiling = False if kept is None else bool(kept.get("compile", False))
    return Decided(compile=compiling, threads=threads)


def _still_possible(threads: Any) -> int:
    """The number that the run began with; on a smaller machine the bits differ anyway, and waiting would be worse."""
    known = isinstance(threads, int) and 1 <= threads <= max(torch.get_num_threads(), os.cpu_count() or 1)
    return threads if known else torch.get_num_threads()


def _threads(state: TrainState) -> int:
    present = torch.get_num_threads()
    small = state.precision.device.type == "cpu" and work(state) <= ONE_THREAD_WORK
    if small and present > 1:
        log.info("one thread: a step of this size gains nothing from %d", present)
    return 1 if small else present


def work(state: TrainState) -> int:
    """Trained numbers times how often each is used in a step."""
    return sum(parameter.numel() for parameter in state.module.parameters()) * _uses(state)


def _uses(state: TrainState) -> int:
    batch = state.source.batch(0, 0)
    tensor = next((item for item in batch if isinstance(item, Tensor)), None) if isinstance(batch, tuple) else None
    if tensor is None:
        return 1 << 40
    shared = any(isinstance(layer, _SHARED_WEIGHTS) for layer in state.module.modules())
    # Wide windows of several channels may use a weight for each channel, too.
    return tensor.shape[0] * (
        tensor[0].numel() if shared or tensor.ndim > 3 else tensor.shape[2] if tensor.ndim == 3 else 1
    )
