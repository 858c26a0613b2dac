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
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from neuro_divergent.optim import Optimizer
from neuro_divergent.optim.formulas import clip, clipping_has_formula, step_scalars, stored
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.compiled.network import no_compiler, quiet_imports, reason_of, use_compiled
from neuro_divergent.training.compiled.optimizer_formulas import Weight, collect, compilable, updated
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.batch_norm_stats import RunningStatistics
from neuro_divergent.training.state.precision import HIGHEST_UNGUARDED_RATE
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step import out_of_memory as memory
from neuro_divergent.training.step.strategy import weighted_mean

log = logging.getLogger(__name__)

_OFF = ("regularization", "gradient_noise", "curriculum", "teacher_forcing", "activation_checkpointing")
"""Fields that must be off: they change what a step computes from step to step, or need to look into it."""

_SHORT_EPOCH = 20
"""Up to so many steps in an epoch the last, smaller batch is worth compiling, too."""


def obstacle(config: TrainingConfig, callbacks: Sequence[Callback] = (), module: nn.Module | None = None) -> str | None:
    """Why a run of this configuration does not begin with steps that are compiled whole, in words; None when it can."""
    # The first steps of a watched run would have to wait for the compiler, which may look like a hang.
    watched = None if config.fault_tolerance is None else "fault_tolerance is set"
    return impossible(config, module) or watched or onlooker(callbacks)


def onlooker(callbacks: Sequence[Callback]) -> str | None:
    """Who may look at the gradients of a step, which a compiled one keeps to itself, in words; None for nobody."""
    looking = [item for item in callbacks if not item.engine and _looks_at_batches(item)]
    return f"{type(looking[0]).__name__} may look at the gradients of a step" if looking else None


def impossible(config: TrainingConfig, module: nn.Module | None = None) -> str | None:
    """Why a step of this configuration cannot be compiled whole, in words; None when it can be tried."""
    layers = [] if module is None else list(module.modules())
    inner = getattr(config.loss, "loss", None)  # of a weighted one
    strange = next((type(part) for part in (*layers, config.loss, inner) if not _known(type(part))), None)
    if strange is not None:
        return f"{strange.__name__} is not of torch or of this package, and may do something else in every step"
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
    if not compilable(config.optimizer):
        return f"{getattr(config.optimizer, 'kind', config.optimizer)} is not Adam, AdamW or SGD with momentum"
    if config.gradient_clipping == "auto" or not clipping_has_formula(config.gradient_clipping):
        return f"{getattr(config.gradient_clipping, 'kind', 'the clipping')} is not ClipByNorm or ClipByValue"
    return None


def _known(part: type) -> bool:
    return part.__module__.startswith(("torch.nn.", "neuro_divergent.", "builtins"))


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
        self.rows = {memory.rows(state.source.batch(0, 0))}
        if state.steps_per_epoch <= _SHORT_EPOCH:
            self.rows.add(memory.rows(state.source.batch(0, state.steps_per_epoch - 1)))
        self._found: tuple[list[str], list[Weight], Tensor] | None = None
        self._calls: dict[Any, Callable[[Any], Tensor]] = {}
        self._given_up = False

    def __call__(self, state: TrainState, batch: Any) -> tuple[float, float] | None:
        """Loss and gradient norm of a step that was taken; None when nothing was changed and the eager step is due."""
        if self._given_up or memory.rows(batch) not in self.rows or state.micro_batches > 1:
            return None
        if max(group["lr"] for group in state.optimizer.param_groups) > HIGHEST_UNGUARDED_RATE:
            return None
        form = tuple(None if item is None else (item.shape, item.stride(), item.dtype) for item in batch)
        call = self._calls.get(form) or self._compile(state, batch)
        if call is None:
            return None
        self._calls[form] = call
        memory.seed_network(state)
        try:
            loss, norm = call(batch).tolist()
        except RuntimeError as error:
            if memory.is_out_of_memory(error):
                # Nothing was changed: every update waits for the norm of all gradients, and all memory was asked for
                # until then. The eager step may do with less, in pieces if that is configured.
                return None
            raise
        return (loss, norm) if math.isfinite(loss) and math.isfinite(norm) else None

    def _compile(self, state: TrainState, batch: Any) -> Callable[[Any], Tensor] | None:
        """The step for batches like this one, once the optimizer has begun; a signal may end this anywhere."""
        begun = time.perf_counter()
        try:
            with quiet_imports(), nullcontext() if state.guard is None else state.guard.compiling():
                call = self._built(state, batch)
        except Exception as error:  # whatever is wrong with the network itself, the eager step will say
            self._given_up = True
            if no_compiler(error):
                log.warning("the step could not be compiled, so it runs eagerly: %s", reason_of(error))
            else:
                log.info("the step cannot be compiled whole, so only the network is: %s", reason_of(error))
                use_compiled(self.module)
            return None
        if call is not None:
            log.info("the step was compiled in %.1f s", time.perf_counter() - begun)
        return call

    def _built(self, state: TrainState, batch: Any) -> Callable[[Any], Tensor] | None:
        import torch._inductor
        from torch.fx.experimental.proxy_tensor import make_fx

        settings = state.config.optimizer
        assert isinstance(settings, Optimizer)
        self._found = self._found or collect(settings, state.optimizer)  # once: all calls count in the same place
        if self._found is None:
            return None
        names, weights, counts = self._found
        running = _running(state.module)
        still = _still(state.module, {*names, *running})
        loss_of = _Loss(self.task, state.module)
        step = _step_function(loss_of, settings, state.config.gradient_clipping, names, list(running), list(still))
        groups = state.optimizer.param_groups
        moving = [tensor for weight in weights for tensor in (weight.value, *weight.memory)]
        fixed = [*moving, counts, *running.values(), *still.values()]

        def numbers() -> Tensor:
            count = counts[0].item() + 1
            rows = [step_scalars(settings, float(group["lr"]), count) for group in groups]
            return torch.tensor(rows, dtype=torch.float64)

        def flat(*tensors: Tensor) -> Tensor:
            rest = iter(tensors)
            given = [
                weight._replace(value=next(rest), memory=tuple(next(rest) for _ in weight.memory)) for weight in weights
            ]
            count = next(rest)
            statistics, unmoved = [next(rest) for _ in running], [next(rest) for _ in still]
            now = next(rest)
            items = [None if item is None else next(rest) for item in batch]
            like = batch._make(items) if hasattr(batch, "_make") else tuple(items)
            return step(given, count, now, statistics, unmoved, like)

        # Not torch.compile: what it checks before every call takes longer than the step of a small network.
        with torch.no_grad():
            inputs = [*fixed, numbers(), *(item for item in batch if item is not None)]
            graph = make_fx(flat, tracing_mode="fake")(*inputs)
            # The C++ compiler is started by this very thread: other threads would go on with it after a signal.
            options: dict[str, Any] = {"fallback_random": True, "compile_threads": 1}
            compiled: Callable[..., Tensor] = torch._inductor.compile(graph, inputs, options=options)

        def call(batch: Any) -> Tensor:
            with torch.no_grad():
                return compiled(*fixed, numbers(), *(item for item in batch if item is not None))

        return call


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
    loss_of: nn.Module, settings: Optimizer, clipping: Any, names: list[str], running: list[str], still: list[str]
) -> Callable[..., Tensor]:
    places = [f"module.{name}" for name in (*names, *running, *still)]

    def step(
        weights: list[Weight],
        counts: Tensor,
        numbers: Tensor,
        statistics: list[Tensor],
        unmoved: list[Tensor],
        batch: Any,
    ) -> Tensor:
        def reduced(values: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
            # A norm counts in place, which is not possible with what comes from outside of the differentiation.
            counting = [tensor.clone() for tensor in statistics]
            given = dict(zip(places, [*values, *counting, *unmoved], strict=True))
            return functional_call(loss_of, given, (batch,)), counting

        found, (loss, counted) = grad_and_value(reduced, has_aux=True)([weight.value for weight in weights])
        gradients, norm = clip(clipping, found)
        finite = stored(torch.isfinite(loss) & torch.isfinite(norm))
        for weight, gradient in zip(weights, gradients, strict=True):
            after = updated(settings, weight, gradient, numbers[weight.group])
            for kept, new in zip((weight.value, *weight.memory), after, strict=True):
                kept.copy_(torch.where(finite, new, kept))
        for old, new in zip(statistics, counted, strict=True):
            old.copy_(torch.where(finite, new, old))
        counts.add_(finite)
        return torch.stack([loss.double(), norm.double()])

    return step


def _running(module: nn.Module) -> dict[str, Tensor]:
    """The running statistics of batch norms, by name."""
    own = {id(tensor) for tensor in RunningStatistics(module).tensors}
    return {name: tensor for name, tensor in module.named_buffers() if id(tensor) in own}


def _still(module: nn.Module, others: set[str]) -> dict[str, Tensor]:
    """Frozen weights and buffers by name: what a step reads and does not change."""
    return {
        name: tensor.detach()
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
        if name not in others
    }
