"""A whole optimizer step as one compiled function: forward, loss, backward, norm, clipping, update.

Parameters and the optimizer's own state are changed in place, so that everything around a step (checkpoints, averages,
callbacks, resume) sees what it sees in an eager run. A step that is not finite changes nothing, and is done again
eagerly: there it is counted and explained.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from neuro_divergent.optim import Optimizer
from neuro_divergent.training import memory
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.compile import no_compiler, of_the_compiler, quiet_imports, reason_of, use_compiled
from neuro_divergent.training.config import TrainingConfig
from neuro_divergent.training.precision import HIGHEST_UNGUARDED_RATE
from neuro_divergent.training.running import RunningStatistics
from neuro_divergent.training.state import TrainState
from neuro_divergent.training.step_formulas import (
    Weight,
    clipped,
    clipping_has_formula,
    collect,
    factors,
    has_formula,
    moved,
    stored,
)
from neuro_divergent.training.strategy import weighted_mean
from neuro_divergent.training.task import Task

log = logging.getLogger(__name__)

_OFF = (
    "regularization", "gradient_noise", "curriculum", "teacher_forcing", "activation_checkpointing", "fault_tolerance",
)  # fmt: skip
"""Fields that must be off: they change what a step computes from step to step, or need to look into it."""


def obstacle(config: TrainingConfig, callbacks: Sequence[Callback] = (), module: nn.Module | None = None) -> str | None:
    """Why a step of this configuration cannot be compiled whole, in words; None when it can be tried."""
    layers = [] if module is None else list(module.modules())
    if any(isinstance(layer, _NormBase) for layer in layers) and any(isinstance(layer, _DropoutNd) for layer in layers):
        # The compiler arranges the outcome of a batch norm differently, and numbers are drawn in the order of memory.
        return "dropout together with a batch norm would draw other numbers"
    for name in _OFF:
        if getattr(config, name) is not None:
            return f"{name} is set"
    if config.precision not in ("float32", "float64"):
        return f"precision is {config.precision!r}"
    if config.accumulate_gradients > 1:
        return "gradients are accumulated"
    if config.gradient_method != "autograd":
        return f"gradient_method is {config.gradient_method!r}"
    if not has_formula(config.optimizer):
        return f"{getattr(config.optimizer, 'kind', config.optimizer)} is not Adam, AdamW or SGD with momentum"
    if config.gradient_clipping == "auto" or not clipping_has_formula(config.gradient_clipping):
        return f"{getattr(config.gradient_clipping, 'kind', 'the clipping')} is not ClipByNorm or ClipByValue"
    looking = [item for item in callbacks if not item.engine and _looks_at_batches(item)]
    return f"{type(looking[0]).__name__} may look at the gradients of a step" if looking else None


def _looks_at_batches(callback: Callback) -> bool:
    return type(callback).on_batch_end is not Callback.on_batch_end


class WholeStep:
    """The compiled step of one run; batches that it does not fit are left to the eager step.

    Args:
        task: how a batch becomes numbers.
        state: the prepared run, its optimizer's groups final.
    """

    def __init__(self, task: Task, state: TrainState) -> None:
        self.task, self.module = task, state.module
        # Asked of the source and not of the first batch seen: after a resume that may be the last, smaller one.
        self.rows = _rows(state.source.batch(0, 0))
        self._call: Callable[[Any], Tensor] | None = None
        self._rehearse: Callable[[Any], Tensor] | None = None
        self._compiled_for: set[Any] = set()
        self._given_up = False

    def __call__(self, state: TrainState, batch: Any) -> tuple[float, float] | None:
        """Loss and gradient norm of a step that was taken; None when nothing was changed and the eager step is due."""
        if self._given_up or _rows(batch) != self.rows or state.micro_batches > 1:
            return None
        groups = state.optimizer.param_groups
        if max(group["lr"] for group in groups) > HIGHEST_UNGUARDED_RATE:
            return None
        call = self._call or self._built(state)
        if call is None:
            return None
        form = _form(batch)
        if form not in self._compiled_for:
            if self._tried(lambda: self._compile(state, batch)) is None:
                return None
            self._compiled_for.add(form)
        memory.seed_network(state)
        figures = self._tried(lambda: call(batch))
        if figures is None:
            return None
        loss, norm = figures.tolist()
        return (loss, norm) if math.isfinite(loss) and math.isfinite(norm) else None

    def _tried(self, call: Callable[[], Tensor]) -> Tensor | None:
        try:
            return call()
        except Exception as error:
            if memory.is_out_of_memory(error):
                return None
            if not of_the_compiler(error):
                raise
            self._give_up(error)
            return None

    def _compile(self, state: TrainState, batch: Any) -> Tensor:
        """Let torch compile the step, on copies of the weights: a signal may end it anywhere and nothing is touched."""
        assert self._rehearse is not None
        begun = time.perf_counter()
        with quiet_imports(), nullcontext() if state.guard is None else state.guard.compiling():
            figures = self._rehearse(batch)
        log.info("the step was compiled in %.1f s", time.perf_counter() - begun)
        return figures

    def _give_up(self, error: Exception) -> None:
        self._given_up = True
        if no_compiler(error):
            log.warning("the step could not be compiled, so it runs eagerly: %s", reason_of(error))
        else:
            log.info("the step cannot be compiled whole, so only the network is: %s", reason_of(error))
            use_compiled(self.module)

    def _built(self, state: TrainState) -> Callable[[Any], Tensor] | None:
        settings = state.config.optimizer
        assert isinstance(settings, Optimizer)
        found = collect(settings, state.optimizer)
        if found is None:
            return None
        names, weights, counts = found
        running = _running(state.module)
        loss_of = _Loss(self.task, state.module)
        step = _step_function(loss_of, settings, state.config.gradient_clipping, names, list(running))
        statistics = list(running.values())
        options: dict[str, Any] = {"fallback_random": True, "guard_filter_fn": _needed_guards}
        # The C++ compiler is started by this very thread: other threads would go on with it after a signal.
        options["compile_threads"] = 1
        with quiet_imports():
            compiled: Callable[..., Tensor] = torch.compile(step, fullgraph=True, dynamic=False, options=options)
        groups = state.optimizer.param_groups

        def take(batch: Any, weights: list[Weight], counts: Tensor, statistics: list[Tensor]) -> Tensor:
            count = counts[0].item() + 1
            rows = [factors(settings, float(group["lr"]), count) for group in groups]
            with torch.no_grad():
                return compiled(weights, counts, torch.tensor(rows, dtype=torch.float64), statistics, batch)

        def rehearse(batch: Any) -> Tensor:
            copies = [weight._replace(value=weight.value.clone(), memory=_copies(weight.memory)) for weight in weights]
            return take(batch, copies, counts.clone(), list(_copies(statistics)))

        self._rehearse = rehearse
        self._call = lambda batch: take(batch, weights, counts, statistics)
        return self._call


class _Loss(nn.Module):
    """The reduced loss of a batch as a module, so that its weights can be handed in."""

    def __init__(self, task: Task, module: nn.Module) -> None:
        super().__init__()
        self.task, self.module = task, module
        self.train(module.training)

    def forward(self, batch: Any) -> Tensor:
        """The loss that is minimised."""
        values, weights = self.task(self.module, batch)
        return self.task.loss.finish(weighted_mean(values, weights))


def _step_function(
    loss_of: nn.Module, settings: Optimizer, clipping: Any, names: list[str], running: list[str]
) -> Callable[..., Tensor]:
    places = [f"module.{name}" for name in names]
    kept_places = [f"module.{name}" for name in running]

    def step(weights: list[Weight], counts: Tensor, numbers: Tensor, statistics: list[Tensor], batch: Any) -> Tensor:
        def reduced(values: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
            # A norm counts in place, which is not possible with what comes from outside of the differentiation.
            counting = [tensor.clone() for tensor in statistics]
            given = dict(zip([*places, *kept_places], [*values, *counting], strict=True))
            return functional_call(loss_of, given, (batch,)), counting

        found, (loss, counted) = grad_and_value(reduced, has_aux=True)([weight.value for weight in weights])
        gradients, norm = clipped(clipping, found)
        finite = stored(torch.isfinite(loss) & torch.isfinite(norm))
        for weight, gradient in zip(weights, gradients, strict=True):
            after = moved(settings, weight, gradient, numbers[weight.group])
            for kept, new in zip((weight.value, *weight.memory), after, strict=True):
                kept.copy_(torch.where(finite, new, kept))
        for old, new in zip(statistics, counted, strict=True):
            old.copy_(torch.where(finite, new, old))
        counts.add_(finite)
        return torch.stack([loss.double(), norm.double()])

    # A code object of its own: torch keeps compiled versions by code, and only a few of them for each.
    own = FunctionType(step.__code__.replace(), step.__globals__, "step", None, step.__closure__)
    own.__annotations__ = {}
    return own


def _needed_guards(guards: Sequence[Any]) -> list[bool]:
    """Weights and optimizer state stay the same tensors for the whole run: looking at each of them would cost more than
    the arithmetic of a small network."""
    fixed = ("L['weights']", "L['counts']", "L['numbers']", "L['statistics']")
    return [not (guard.guard_type == "TENSOR_MATCH" and guard.name.startswith(fixed)) for guard in guards]


def _copies(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(tensor.clone() for tensor in tensors)


def _running(module: nn.Module) -> dict[str, Tensor]:
    """The running statistics of batch norms, by name."""
    own = {id(tensor) for tensor in RunningStatistics(module).tensors}
    return {name: tensor for name, tensor in module.named_buffers() if id(tensor) in own}


def _form(batch: Any) -> Any:
    """For what torch compiles anew: which tensors there are and how they lie in memory."""
    return tuple(None if item is None else (item.shape, item.stride()) for item in batch)


def _rows(batch: Any) -> int:
    found = next((item for item in batch if isinstance(item, Tensor)), None) if isinstance(batch, tuple) else None
    return -1 if found is None else found.shape[0]
