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
from neuro_divergent.training.compiled.full_step import impossible, obstacle, onlooker
from neuro_divergent.training.process import compiler_processes
from neuro_divergent.training.state.state import TrainState

log = logging.getLogger(__name__)

ONE_THREAD_WORK = 1 << 24
"""Weights times rows of a step up to which one thread is used. The best steps of a
perceptron on a busy machine with two cores: at 12 million 1.4 ms on one thread and 1.5 ms on two. Where exactly the
second thread begins to pay has not been measured on a quiet machine."""

_SHARED_WEIGHTS = (nn.RNNBase, nn.modules.conv._ConvNd, nn.MultiheadAttention, nn.LayerNorm, nn.RMSNorm)
"""Layers by which a network is known that uses its weights at every position of a window."""

SAVED_SECONDS_PER_TENSOR = 1e-4
"""What a compiled step saves for each tensor of weights, whose operations need not be called one by one. Milliseconds
per step, eager and compiled, on two cores: a perceptron of 2 x 64 units and 32 rows 0.87 and 0.21, of 2 x 256 units and
1024 rows 6.9 and 5.2 (6 tensors each), N-HiTS with 64 rows (18 tensors) 19.2 and 11.8; but a perceptron of 2 x 256
units and 64 rows 2.1 and 2.2."""

COMPILE_SECONDS, COMPILE_SECONDS_PER_TENSOR = 10.0, 1.0
"""What the compiler takes when nothing is in its cache: 10 to 14 s for the perceptrons, 33 s for N-HiTS; otherwise 5 s
and 14 s."""

COMPILE_WORK = 1 << 27
"""Weights times rows of a step above which nothing is compiled unasked: there a step is nearly all arithmetic."""


@dataclass(frozen=True)
class Decided:
    """How a run computes, the same from its first step to its last."""

    compile: bool
    threads: int
    whole: bool = False
    """Whether what is compiled is the whole step, and not only the network."""

    def facts(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)


def decide(state: TrainState, kept: Mapping[str, Any] | None, callbacks: Sequence[Callback] = ()) -> Decided:
    """Threads and compiling of a run.

    Args:
        state: the prepared run.
        kept: what was decided when the run began, if it is resumed; a run from before there were decisions ({}) goes on
            as it did.
        callbacks: those of the run; some need to look into a step.
    """
    config = state.config
    threads, compiling = config.threads, config.compile
    if threads == "auto":
        threads = _threads(state) if kept is None else _still_possible(kept.get("threads"))
    if compiling == "auto":
        compiling = _compiles(state, callbacks) if kept is None else bool(kept.get("compile", False))
    return Decided(compile=compiling, threads=threads, whole=compiling and _whole(state, kept or {}, callbacks))


def _whole(state: TrainState, kept: Mapping[str, Any], callbacks: Sequence[Callback]) -> bool:
    """Whether to compile the full step or only the network.

    A resumed run keeps its first choice, even if its callbacks or its supervision are others now.
    """
    began = kept.get("whole") if kept.get("compile") else None  # what began eagerly may be compiled in any way
    if began is False:
        reason: str | None = "it was so when the run began"
    elif began:
        reason = impossible(state.config, state.module)
        if reason is None and (looking := onlooker(callbacks)):
            log.warning(
                "%s, but will find none: the run began with steps that are compiled whole, and stays so", looking
            )
    else:
        reason = obstacle(state.config, callbacks, state.module)
    if reason is not None:
        log.info("only the network is compiled, and not the whole step: %s", reason)
    return reason is None


def _compiles(state: TrainState, callbacks: Sequence[Callback]) -> bool:
    """Whether the planned steps save at least twice what the compiler takes, as far as it was measured."""
    tensors = sum(parameter.requires_grad for parameter in state.module.parameters())
    saved = state.total_steps * tensors * SAVED_SECONDS_PER_TENSOR
    cost = COMPILE_SECONDS + tensors * COMPILE_SECONDS_PER_TENSOR
    if saved < 2 * cost or not _perceptron(state.module) or state.precision.device.type != "cpu":
        return False
    if work(state) > COMPILE_WORK or obstacle(state.config, callbacks, state.module) is not None:
        return False
    if not compiler_processes.installed():
        log.info("%d steps stay eager: compiling them would pay, but there is no C++ compiler", state.total_steps)
        return False
    log.info("the step is compiled, because %d of them save about %.0f s", state.total_steps, saved)
    return True


def _perceptron(module: nn.Module) -> bool:
    """Whether all weights are those of linear layers."""
    return all(
        type(part) is nn.Linear or next(part.parameters(recurse=False), None) is None for part in module.modules()
    )


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
