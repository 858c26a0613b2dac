"""A whole optimizer step as one compiled function: forward, loss, backward, norm, clipping, update.

Parameters and optimizer state are changed in place. So checkpoints, averages, callbacks and resume work as in an eager
run. A step that is not finite changes nothing and is repeated eagerly, which counts and explains it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from neuro_divergent.core.batch import rows as batch_rows
from neuro_divergent.core.errors import first_line
from neuro_divergent.optim import Optimizer, forget_gradients
from neuro_divergent.optim.formulas import clip, clipping_has_formula, step_scalars, stored
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.compiled.network import no_compiler, quiet_imports, use_compiled
from neuro_divergent.training.compiled.weights import Weight, collect, compilable, updated
from neuro_divergent.training.config.facts import Check, refusals
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.batch_norm_stats import RunningStatistics
from neuro_divergent.training.state.precision import HIGHEST_UNGUARDED_RATE
from neuro_divergent.training.state.seeding import seed_network
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step.eager import Eager
from neuro_divergent.training.step.out_of_memory import is_out_of_memory
from neuro_divergent.training.step.reduction import weighted_mean
from neuro_divergent.training.step.strategy import Step

log = logging.getLogger(__name__)

_SHORT_EPOCH = 20
"""Up to this many steps per epoch, the last, smaller batch is compiled, too."""


def obstacle(config: TrainingConfig, callbacks: Sequence[Callback] = (), module: nn.Module | None = None) -> str | None:
    """Why a run of this configuration does not begin with fully compiled steps, as a sentence; None if it can."""
    # One reason is fault_tolerance: the first steps of a supervised run would wait for the compiler, which may look
    # like a hang.
    found = refusals(config, "compile", CHECKS, _sentence, callbacks=callbacks)
    return impossible(config, module) or next((reason for limit, reason in found if limit.at_start), None)


def onlooker(callbacks: Sequence[Callback]) -> str | None:
    """A sentence with the first callback that may read gradients or outputs, which a compiled step hides; or None."""
    looking = [item for item in callbacks if not item.engine and _looks_inside(item)]
    return f"{type(looking[0]).__name__.lstrip('_')} may look at the gradients of a step" if looking else None


def impossible(config: TrainingConfig, module: nn.Module | None = None) -> str | None:
    """Why a step of this configuration cannot be fully compiled, as a sentence; None if it can be tried."""
    layers = [] if module is None else list(module.modules())
    strange = _strange(*layers)
    if strange is not None:
        return strange
    if any(isinstance(layer, _NormBase) for layer in layers) and any(isinstance(layer, _DropoutNd) for layer in layers):
        # The compiler gives batch-norm outputs another memory layout, and dropout draws numbers in memory order.
        return "dropout together with a batch norm would draw other numbers"
    found = refusals(config, "compile", CHECKS, _sentence, callbacks=())
    return next((reason for limit, reason in found if not limit.at_start), None)


def _sentence(name: str, value: Any, possible: tuple[Any, ...]) -> str:
    return f"{name} is set" if possible == (None,) else f"{name} is {value!r}"


def _strange(*parts: object) -> str | None:
    """A sentence against the first part that comes neither from torch nor from this package; None if all do."""
    strange = next((type(part) for part in parts if not _known(type(part))), None)
    if strange is None:
        return None
    return f"{strange.__name__} is not of torch or of this package, and may do something else in every step"


def _known(part: type) -> bool:
    return part.__module__.startswith(("torch.nn.", "neuro_divergent.", "builtins"))


def _loss_is_known(loss: Any) -> str | None:
    return _strange(loss, getattr(loss, "loss", None))  # also the inner loss of a weighted loss


def _optimizer_has_formula(optimizer: Any) -> str | None:
    if compilable(optimizer):
        return None
    return f"{getattr(optimizer, 'kind', optimizer)} is not Adam, AdamW or SGD with momentum"


def _clipping_has_formula(clipping: Any) -> str | None:
    if clipping != "auto" and clipping_has_formula(clipping):
        return None
    return f"{getattr(clipping, 'kind', 'the clipping')} is not ClipByNorm or ClipByValue"


CHECKS: dict[str, Check] = {
    "loss_is_known": _loss_is_known,
    "optimizer_has_formula": _optimizer_has_formula,
    "clipping_has_formula": _clipping_has_formula,
    "nobody_reads_gradients": onlooker,
}
"""The checks that the fact `compile` names."""


def _looks_inside(callback: Callback) -> bool:
    kind = type(callback)
    if kind.reads_only:
        return "outputs" in (kind.looks_at or ())
    if kind.on_gradients is not Callback.on_gradients:
        return True
    return bool(kind.on_batch_end is not Callback.on_batch_end if kind.looks_at is None else kind.looks_at)


class Compiled(Eager):
    """Fully compiled steps. Batches of another shape take the eager step.

    Args:
        task: computes the loss values of a batch.
        state: the prepared run, with the final groups of its optimizer.
    """

    def __init__(self, task: Task, state: TrainState) -> None:
        super().__init__()
        self._whole = WholeStep(task, state)

    def step(self, task: Task, state: TrainState, batch: Any) -> Step:
        """Take one step: compiled, or eager where that is not possible."""
        forget_gradients(state.optimizer)
        shown = None if state.observers is None else state.observers(state)
        if shown is not None:
            self._show_gradients(shown, task, state, batch)
        figures = self._whole(state, batch)
        return super().step(task, state, batch) if figures is None else Step(*figures, taken=True)

    def _show_gradients(self, shown: Callable[[TrainState], None], task: Task, state: TrainState, batch: Any) -> None:
        """Compute the gradients of the step for callbacks that only read them, and leave no trace."""
        running = RunningStatistics(state.module)
        running.remember()
        seed_network(state)
        try:
            state.loss = self.gradients(task, state, batch)
            state.precision.unscale(state.optimizer)
            state.working = (task, batch)
            shown(state)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        finally:
            running.restore()
            forget_gradients(state.optimizer)


class WholeStep:
    """The compiled step of one run. It returns None for batches of another shape.

    Args:
        task: computes the loss values of a batch.
        state: the prepared run, with the final groups of its optimizer.
    """

    def __init__(self, task: Task, state: TrainState) -> None:
        self.task, self.module = task, state.module
        # From the source, not from the first batch of the run: after a resume that may be the last, smaller batch.
        self.rows = {batch_rows(state.source.batch(0, 0))}
        if state.steps_per_epoch <= _SHORT_EPOCH:
            self.rows.add(batch_rows(state.source.batch(0, state.steps_per_epoch - 1)))
        self._found: tuple[list[str], list[Weight], Tensor] | None = None
        self._calls: dict[Any, Callable[[Any], Tensor]] = {}
        self._given_up = False

    def __call__(self, state: TrainState, batch: Any) -> tuple[float, float] | None:
        """Loss and gradient norm of a finished step; None if nothing changed and the eager step must be taken."""
        if self._given_up or batch_rows(batch) not in self.rows or state.micro_batches > 1:
            return None
        if max(group["lr"] for group in state.optimizer.param_groups) > HIGHEST_UNGUARDED_RATE:
            return None
        form = tuple(None if item is None else (item.shape, item.stride(), item.dtype) for item in batch)
        call = self._calls.get(form) or self._compile(state, batch)
        if call is None:
            return None
        self._calls[form] = call
        seed_network(state)
        try:
            loss, norm = call(batch).tolist()
        except RuntimeError as error:
            if is_out_of_memory(error):
                # Nothing changed: all updates come after the norm of all gradients, and all memory is allocated before
                # it. The eager step may need less memory, in pieces if that is configured.
                return None
            raise
        return (loss, norm) if math.isfinite(loss) and math.isfinite(norm) else None

    def _compile(self, state: TrainState, batch: Any) -> Callable[[Any], Tensor] | None:
        """The compiled step for batches of this shape; None before the optimizer's first step, or after a failure."""
        begun = time.perf_counter()
        try:
            watched = nullcontext() if state.guard is None else state.guard.compiling()
            with quiet_imports(), _own_tensors(state.module), watched:
                call = self._built(state, batch)
        except Exception as error:  # the eager step reports errors of the network itself
            self._given_up = True
            if no_compiler(error):
                log.warning("the step could not be compiled, so it runs eagerly: %s", first_line(error))
            else:
                log.info("the step cannot be compiled, so only the network is: %s", first_line(error))
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
        self._found = self._found or collect(settings, state.optimizer)  # once: all calls share the step counts
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

        # Not torch.compile: its checks before every call take longer than a step of a small network.
        with torch.no_grad():
            inputs = [*fixed, numbers(), *(item for item in batch if item is not None)]
            graph = make_fx(flat, tracing_mode="fake")(*inputs)
            # This thread starts the C++ compiler: other threads would continue it after a signal.
            options: dict[str, Any] = {"fallback_random": True, "compile_threads": 1}
            compiled: Callable[..., Tensor] = torch._inductor.compile(graph, inputs, options=options)

        def call(batch: Any) -> Tensor:
            with torch.no_grad():
                return compiled(*fixed, numbers(), *(item for item in batch if item is not None))

        return call


@contextmanager
def _own_tensors(module: nn.Module) -> Iterator[None]:
    """Context that restores the module's tensors: tracing complex numbers leaves tensors of the tracer in it."""
    kept = [(part, dict(part._parameters), dict(part._buffers)) for part in module.modules()]
    try:
        yield
    finally:
        for part, parameters, buffers in kept:
            part._parameters.update(parameters)
            part._buffers.update(buffers)


class _Loss(nn.Module):
    """The reduced loss of a batch as a module, so that `functional_call` can replace its weights."""

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
            # A batch norm updates its statistics in place, which the differentiated function must not do to its inputs.
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
