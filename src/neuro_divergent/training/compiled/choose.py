"""The meaning of "auto" for threads and compiling: decided once, from configuration and sizes. A resume keeps it.

The choice never depends on measured times or on the machine's load. The same run must make the same choice, because
threads and compiling change rounding.
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
from neuro_divergent.training.compiled.full_step import impossible, obstacle, onlooker
from neuro_divergent.training.process import compiler_processes
from neuro_divergent.training.state.state import TrainState

log = logging.getLogger(__name__)

ONE_THREAD_WORK = 1 << 24
"""Weights times rows of a step up to which one thread is used. The fastest steps of a perceptron on a busy machine with
two cores: at 12 million 1.4 ms with one thread and 1.5 ms with two. The exact break-even point has not been measured on
an idle machine."""

_SHARED_WEIGHTS = (nn.RNNBase, nn.modules.conv._ConvNd, nn.MultiheadAttention, nn.LayerNorm, nn.RMSNorm)
"""Layers that use their weights at every position of a window."""

SAVED_SECONDS_PER_TENSOR = 1e-4
"""Time that a compiled step saves per weight tensor, because there are fewer single operations. Measured milliseconds
per step, eager and compiled, on two cores: a perceptron of 2 x 64 units and 32 rows 0.87 and 0.21, of 2 x 256 units and
1024 rows 6.9 and 5.2 (6 tensors each), N-HiTS with 64 rows (18 tensors) 19.2 and 11.8; but a perceptron of 2 x 256
units and 64 rows 2.1 and 2.2."""

COMPILE_SECONDS, COMPILE_SECONDS_PER_TENSOR = 10.0, 1.0
"""Time of the compiler with an empty cache: 10 to 14 s for the perceptrons, 33 s for N-HiTS. With a filled cache it is
5 s and 14 s."""

COMPILE_WORK = 1 << 27
"""Weights times rows of a step above which "auto" does not compile: such a step is nearly all arithmetic."""


@dataclass(frozen=True)
class Decided:
    """The decisions on compiling and threads, the same for all steps of a run."""

    compile: bool
    threads: int
    whole: bool = False
    """Whether the whole step is compiled, and not only the network."""

    def facts(self) -> dict[str, Any]:
        """The decisions as plain data, for a checkpoint."""
        return asdict(self)


def decide(state: TrainState, kept: Mapping[str, Any] | None, callbacks: Sequence[Callback] = ()) -> Decided:
    """Decide on threads and compiling of a run.

    Args:
        state: the prepared run.
        kept: the first decisions of a resumed run; None for a new run. {} is a run of an older version that stored
            none; it continues as before.
        callbacks: the callbacks of the run; some read tensors of a step.
    """
    config = state.config
    threads, compiling = config.threads, config.compile
    if threads == "auto":
        wanted = getattr(state.strategy, "threads", None)
        threads = (wanted or _threads(state)) if kept is None else _still_possible(kept.get("threads"))
    if compiling == "auto":
        compiling = _compiles(state, callbacks) if kept is None else bool(kept.get("compile", False))
    return Decided(compile=compiling, threads=threads, whole=compiling and _whole(state, kept or {}, callbacks))


def _whole(state: TrainState, kept: Mapping[str, Any], callbacks: Sequence[Callback]) -> bool:
    """Whether to compile the full step or only the network.

    A resumed run keeps its first choice, even if callbacks or supervision changed.
    """
    began = kept.get("whole") if kept.get("compile") else None  # a run that began eagerly may compile either
    if began is False:
        reason: str | None = "it was so when the run began"
    elif began:
        reason = impossible(state.config, state.module)
        if reason is None and (looking := onlooker(callbacks)):
            log.warning("%s, but there are none: the run began with fully compiled steps and keeps them", looking)
    else:
        reason = obstacle(state.config, callbacks, state.module)
    if reason is not None:
        log.info("only the network is compiled, and not the whole step: %s", reason)
    return reason is None


def _compiles(state: TrainState, callbacks: Sequence[Callback]) -> bool:
    """Whether the planned steps save at least twice the time of the compiler, by the measured numbers above."""
    tensors = sum(parameter.requires_grad for parameter in state.module.parameters())
    saved = state.total_steps * tensors * SAVED_SECONDS_PER_TENSOR
    cost = COMPILE_SECONDS + tensors * COMPILE_SECONDS_PER_TENSOR
    if saved < 2 * cost or not _perceptron(state.module) or state.precision.device.type != "cpu":
        return False
    if work(state) > COMPILE_WORK or obstacle(state.config, callbacks, state.module) is not None:
        return False
    if not compiler_processes.installed():
        log.info("%d steps stay eager: compiling would save time, but there is no C++ compiler", state.total_steps)
        return False
    log.info("the step is compiled, because %d steps save about %.0f s", state.total_steps, saved)
    return True


def _perceptron(module: nn.Module) -> bool:
    """Whether all weights are those of linear layers."""
    return all(
        type(part) is nn.Linear or next(part.parameters(recurse=False), None) is None for part in module.modules()
    )


def _still_possible(threads: Any) -> int:
    """The run's first number of threads if this machine has enough cores; else torch's own, and bits may differ."""
    known = isinstance(threads, int) and 1 <= threads <= max(torch.get_num_threads(), os.cpu_count() or 1)
    return threads if known else torch.get_num_threads()


def _threads(state: TrainState) -> int:
    present = torch.get_num_threads()
    small = state.precision.device.type == "cpu" and work(state) <= ONE_THREAD_WORK
    if small and present > 1:
        log.info("one thread: a step of this size is not faster with %d", present)
    return 1 if small else present


def work(state: TrainState) -> int:
    """The number of trained weights times how often a step uses each."""
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
