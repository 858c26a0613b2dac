"""What "auto" means for threads and compiling: decided once, from configuration and sizes, and kept by a resume.

Never from a stopwatch or the machine's load: the same run must make the same choice, because both change rounding.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.state import TrainState
from neuro_divergent.training.whole_step import obstacle

log = logging.getLogger(__name__)

ONE_THREAD_WORK = 1 << 24
"""Weights times rows of a step up to which one thread is used. The best steps of a
perceptron on a busy machine with two cores: at 12 million 1.4 ms on one thread and 1.5 ms on two. Where exactly the
second thread begins to pay has not been measured on a quiet machine."""

SAVED_PER_TENSOR = 8e-5
"""Seconds of overhead that a compiled step saves for each trained tensor: on a busy machine a bare
perceptron with 6 tensors and 32 rows took 0.83 ms of CPU time eagerly and 0.30 ms compiled."""

SAVED_SHARE = 0.15
"""Share of the arithmetic's time that fusing saves besides; 2 × 256 at 1024 rows gained more (7.2 → 4.9 ms), deep
stacks of layers less (NHITS stands at 1.2 times its arithmetic limit)."""

RATE = 75e9
"""Multiplications and additions per second of one core, for the estimate of the arithmetic's time."""

COMPILE_SECONDS = (3.0, 0.4)
"""What compiling takes at first, and for each trained tensor: about 5 s for 6 tensors; the split is a guess."""

CLEARLY = 3.0
"""How many times the compile time must be saved over the whole run; it may be stopped early."""

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


def decide(state: TrainState, callbacks: Sequence[Callback], kept: Mapping[str, Any] | None) -> Decided:
    """Threads and compiling of a run.

    Args:
        state: the prepared run.
        callbacks: all that will be called.
        kept: what was decided when the run began, if it is resumed; a run from before there were decisions ({}) goes on
            as it did.
    """
    config = state.config
    threads, compiling = config.threads, config.compile
    if threads == "auto":
        threads = _threads(state) if kept is None else _still_possible(kept.get("threads"))
    if compiling == "auto":
        compiling = _worth_compiling(state, callbacks) if kept is None else bool(kept.get("compile", False))
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


def _worth_compiling(state: TrainState, callbacks: Sequence[Callback]) -> bool:
    """Whether compiling the whole step clearly pays within this run."""
    config = state.config
    if state.precision.device.type != "cpu" or obstacle(config, callbacks, state.module) is not None:
        return False
    # Only networks of the kind that was measured: each weight used once per row, a step is a few large products.
    if any(isinstance(layer, _SHARED_WEIGHTS) for layer in state.module.modules()):
        return False
    tensors = sum(len(group["params"]) for group in state.optimizer.param_groups)
    saved = SAVED_PER_TENSOR * tensors + SAVED_SHARE * 6 * work(state) / RATE
    cost = COMPILE_SECONDS[0] + COMPILE_SECONDS[1] * tensors
    worth = state.total_steps * saved > CLEARLY * cost
    if worth:
        log.info("%d steps are enough to compile for: about %.1f ms saved in each", state.total_steps, saved * 1e3)
    return worth
