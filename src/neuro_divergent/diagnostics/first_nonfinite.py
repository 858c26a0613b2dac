"""Find where the first NaN or infinity of a step arises, by computing that step once more with hooks.

Batches and random numbers are functions of the seed and the step, so the repeated step is the failed one. Nothing is
watched before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.config import Description
from neuro_divergent.diagnostics.aside import aside, reduced_loss
from neuro_divergent.training.state.seeding import seed_network
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task

What = Literal["input", "weight", "output", "loss", "gradient", "update"]


class FirstNonfinite(Description):
    """Where the first NaN or infinity of a training arose."""

    step: int
    """The optimizer step, counted from 1."""
    module: str
    """The module's name in the network; the class of the whole module if it arose in that module's own code."""
    what: What
    """What became NaN or infinite: the "input" of the network, a "weight" before the step, the "output" of the module,
    the "loss" of finite outputs, the "gradient" in the module's backward pass, or the weights by the "update"."""
    detail: str = ""
    """The column of the input, the weight, or the class of the module."""

    def __str__(self) -> str:
        place = f"{self.module} ({self.detail})" if self.detail and self.detail != self.module else self.module
        words = {
            "input": f"the input of the network has a value that is not finite: {self.detail}",
            "weight": f"a weight of {place} is not finite before the step",
            "output": f"the first value that is not finite is in the output of {place}",
            "loss": f"the outputs of the network are finite, but the loss {self.detail} is not",
            "gradient": f"the first value that is not finite is in the gradient of {place}",
            "update": "loss and gradients are finite, but the update of the weights is not",
        }
        return f"step {self.step}: {words[self.what]}"


def first_nonfinite(task: Task, state: TrainState, batch: Any, step: int | None = None) -> FirstNonfinite:
    """Where the first NaN or infinity of a step arises. The weights must be those from before the step.

    Args:
        task: computes the loss values.
        state: the training; nothing in it changes.
        batch: the batch of the step.
        step: the number of the step, counted from 0; None for the present one.
    """
    number = state.step if step is None else step
    found = _in_batch(batch) or _in_weights(state.module) or _in_passes(task, replace(state, step=number), batch)
    what, name, detail = found or ("update", type(state.module).__name__, "")
    return FirstNonfinite(step=number + 1, module=name, what=what, detail=detail)


Event = tuple[What, str, str]
"""What became non-finite, in which module, and a detail."""


def _in_batch(batch: Any) -> Event | None:
    names: Sequence[str] = getattr(batch, "_fields", [str(number) for number in range(len(batch))])
    for name, value in zip(names, batch, strict=True):
        # Missing targets are masked, and so not part of the loss.
        if name not in _TARGETS and isinstance(value, Tensor) and not _finite(value):
            masked = getattr(batch, "mask", None)
            if name == "y" and masked is not None and _finite(torch.where(masked, value, 0.0)):
                continue
            return "input", "", name
    return None


_TARGETS = ("target", "target_mask", "weight", "mask")


def _in_weights(module: nn.Module) -> Event | None:
    for name, part in module.named_modules():
        for own, tensor in part.named_parameters(recurse=False):
            if not _finite(tensor):
                return "weight", _shown(name, module), own
    return None


def _in_passes(task: Task, state: TrainState, batch: Any) -> Event | None:
    """The first event in the forward and backward pass of the step, computed like the step."""
    module, config = state.module, state.config
    parts = config.accumulate_gradients * state.micro_batches
    named = [p for p in module.parameters() if p.requires_grad]
    with aside(state):
        seed_network(state)
        for part in [batch] if parts == 1 else task.split(batch, parts):
            with _watched(module) as events:
                loss = reduced_loss(task, state, part)
                if not events and not _finite(loss):
                    events.append(("loss", _shown("", module), task.loss.kind))
                if not events and loss.requires_grad:
                    found = torch.autograd.grad(state.precision.scale(loss), named, allow_unused=True)
                    events += _overflow(module, {id(p): g for p, g in zip(named, found, strict=True)})
            if events:
                return events[0]
    return None


def _overflow(module: nn.Module, gradients: dict[int, Tensor | None]) -> list[Event]:
    """The layer with the largest entry, if the entries are finite, but their norm is not."""
    known = {id(p): (name, grad) for name, part in module.named_modules() for p in part.parameters(recurse=False)
             if (grad := gradients.get(id(p))) is not None and grad.numel()}  # fmt: skip
    if not known or _finite(torch.linalg.vector_norm(torch.stack([grad.norm().float() for _, grad in known.values()]))):
        return []
    name = max(known.values(), key=lambda item: float(item[1].abs().max()))[0]
    return [("gradient", _shown(name, module), "the sum of its squares overflows")]


def _shown(name: str, module: nn.Module) -> str:
    return name or type(module).__name__


@contextmanager
def _watched(module: nn.Module) -> Iterator[list[Event]]:
    """Context with a list to which hooks add where values that are not finite appear, in the order of computation."""
    watcher = _Watcher(module)
    with ExitStack() as stack:
        for name, part in module.named_modules():
            stack.callback(part.register_forward_pre_hook(watcher.entering(name), with_kwargs=True).remove)
            stack.callback(part.register_forward_hook(watcher.leaving(name), with_kwargs=True).remove)
            for parameter in part.parameters(recurse=False):
                if parameter.requires_grad:
                    stack.callback(parameter.register_hook(watcher.gradient(name)).remove)
        stack.callback(watcher.remove)
        yield watcher.events


class _Watcher:
    """Hooks that look for values that are not finite."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.classes = {name: type(part).__name__ for name, part in module.named_modules()}
        self.events: list[Event] = []
        self._open: list[str] = []
        self._hooks: list[Any] = []

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def add(self, what: What, name: str) -> None:
        """Add an event of a module."""
        self.events.append((what, _shown(name, self.module), self.classes[name]))

    def entering(self, name: str) -> Any:
        def hook(_: nn.Module, args: Any, kwargs: Any) -> None:
            outer = self._open[-1] if self._open else ""
            self._open.append(name)
            # A mask may be infinite by design. It has no gradient, unlike what a module computed from weights.
            whole = len(self._open) == 1
            given = [tensor for tensor in _tensors((args, kwargs)) if whole or tensor.requires_grad or _has_nan(tensor)]
            if not self.events and not all(map(_finite, given)):
                self.add("output", outer)  # computed between two modules, by the code of the outer one

        return hook

    def leaving(self, name: str) -> Any:
        def hook(_: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            self._open.pop()
            outer = self._open[-1] if self._open else ""
            made = list(_tensors(output))
            if not self.events and not all(map(_finite, made)):
                self.add("output", name)
            # The gradient of a module's output is computed by what follows it, that of its input by the module itself.
            self._see(made, outer)
            self._see(list(_tensors((args, kwargs))), name)

        return hook

    def _see(self, tensors: list[Tensor], name: str) -> None:
        for tensor in tensors:
            if tensor.requires_grad:
                self._hooks.append(tensor.register_hook(self.gradient(name)))  # type: ignore[no-untyped-call]

    def gradient(self, name: str) -> Any:
        def hook(gradient: Tensor) -> None:
            if not self.events and not _finite(gradient):
                self.add("gradient", name)

        return hook


def _tensors(value: Any) -> Iterator[Tensor]:
    """The floating-point tensors in nested containers; of a batch, not the targets."""
    if isinstance(value, Tensor):
        if value.is_floating_point() or value.is_complex():
            yield value
    elif isinstance(value, Batch):
        yield from _tensors([item for name, item in zip(value._fields, value, strict=True) if name not in _TARGETS])
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor.detach()).all())


def _has_nan(tensor: Tensor) -> bool:
    return bool(torch.isnan(tensor.detach()).any())
