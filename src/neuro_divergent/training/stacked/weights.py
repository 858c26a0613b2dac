"""The trained weights of many members, one row each, and the steps that change all of them at once.

An elementwise optimizer does to stacked weights what it does to each member's, as long as all are at the same step;
rates and decays may differ from row to row.

Letters: M members, W trained numbers of each (and some padding).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_divergent.optim import SGD, Adam, AdamW, ClipBoth, ClipByNorm, ClipByValue, Clipping, Optimizer
from neuro_divergent.training.state.state import TrainState

ALIGNMENT = 16
"""Rows begin at multiples of so many numbers: the same bits come out of a row wherever it stands in the stack."""


class Slab:
    """[M, W] weights and gradients; the modules' own parameters are views into the rows while the slab is in use."""

    def __init__(self, states: Sequence[TrainState]) -> None:
        self.groups = _joint_groups(states)
        """The names of parameters that have one rate and one decay in every member."""
        parameters = named_parameters_of(states[0])
        self.spans: list[slice] = []
        """The columns of each group."""
        self._places: dict[str, tuple[slice, torch.Size]] = {}
        start = 0
        for group in self.groups:
            begin = start
            for name in group:
                self._places[name] = (slice(start, start + parameters[name].numel()), parameters[name].shape)
                start += parameters[name].numel()
            self.spans.append(slice(begin, start))
        first = next(iter(parameters.values())).detach()
        width = -(-start // ALIGNMENT) * ALIGNMENT
        self._padding = first.new_zeros(len(states), width - start)
        self.weights = first.new_zeros(len(states), width)
        for row, state in enumerate(states):
            own = [parameter.detach().flatten() for parameter, _, _ in self._placed(state)]
            torch.cat(own, out=self.weights[row, :start])
            self._lend(row, state)
        self._arrange()

    def _placed(self, state: TrainState) -> list[tuple[Tensor, slice, torch.Size]]:
        """Each parameter of a member with its columns and its shape."""
        parameters = named_parameters_of(state)
        return [(parameters[name], place, shape) for name, (place, shape) in self._places.items()]

    def _arrange(self) -> None:
        self.gradients = torch.zeros_like(self.weights)
        self.views = {
            name: self.weights[:, place].view(-1, *shape).detach().requires_grad_()
            for name, (place, shape) in self._places.items()
        }

    def _lend(self, row: int, state: TrainState) -> None:
        for parameter, place, shape in self._placed(state):
            parameter.data = self.weights[row, place].view(shape)

    def some(self, rows: list[int]) -> dict[str, Tensor]:
        """A copy of the weights of some rows, to differentiate by."""
        return {name: view.detach()[rows].requires_grad_() for name, view in self.views.items()}

    def fill(self, gradients: Sequence[Tensor], rows: list[int] | None) -> None:
        """Put gradients, in the order of the views, into all rows or some."""
        parts = [gradient.flatten(1) for gradient in gradients]
        if rows is None:
            torch.cat([*parts, self._padding], dim=1, out=self.gradients)
        else:
            self.gradients[rows] = torch.cat([*parts, self._padding[: len(rows)]], dim=1)

    def row_gradients(self, state: TrainState) -> Tensor | None:
        """[W] the gradients that a member's own backward pass left; None if some parameter has none."""
        found = [parameter.grad for parameter, _, _ in self._placed(state)]
        if any(gradient is None for gradient in found):
            return None
        return torch.cat([*(gradient.flatten() for gradient in found if gradient is not None), self._padding[0]])

    def lend_gradients(self, row: int, state: TrainState) -> None:
        """Let a member's parameters have their gradients, for whoever wants to look at them."""
        for parameter, place, shape in self._placed(state):
            parameter.grad = self.gradients[row, place].view(shape).clone()

    def keep(self, rows: list[int], states: Sequence[TrainState]) -> None:
        """Go on with some rows, which belong to these members."""
        self.weights = self.weights[rows]
        self._padding = self._padding[: len(rows)]
        for row, state in enumerate(states):
            self._lend(row, state)
        self._arrange()


def named_parameters_of(state: TrainState) -> dict[str, Tensor]:
    """The trained parameters of a member, in the order of its optimizer's groups."""
    groups = state.optimizer.param_groups
    return {name: own for group in groups for name, own in zip(group["names"], group["params"], strict=True)}


def group_of(state: TrainState, name: str) -> dict[str, Any]:
    """The optimizer's group that a parameter of a member is in."""
    return next(group for group in state.optimizer.param_groups if name in group["names"])


def _joint_groups(states: Sequence[TrainState]) -> list[list[str]]:
    """Parameters that are in one group in every member: a decay of 0 may have made one group of two."""
    joint: dict[tuple[int, ...], list[str]] = {}
    numbers = [
        {name: number for number, group in enumerate(state.optimizer.param_groups) for name in group["names"]}
        for state in states
    ]
    for name in numbers[0]:
        joint.setdefault(tuple(own[name] for own in numbers), []).append(name)
    return list(joint.values())


def own_weights(state: TrainState) -> None:
    """Give a member's parameters memory of their own again."""
    for parameter in named_parameters_of(state).values():
        parameter.data = parameter.data.clone()
        parameter.grad = None


class StackedStep(ABC):
    """What an optimizer remembers of every row, and its step."""

    def __init__(self, slab: Slab, decays: Sequence[Sequence[float]]) -> None:
        self.slab = slab
        self.count = 0
        self.one_rate = True
        self.memory: list[Tensor] = []
        self.decays = slab.weights.new_tensor(decays)  # [groups, M]
        self.decayed = [any(group) for group in decays]

    def keep(self, rows: list[int]) -> None:
        """Go on with some rows."""
        self.memory = [kept[rows] for kept in self.memory]
        self.decays = self.decays[:, rows]

    @torch.no_grad()
    def __call__(self, rates: Sequence[Sequence[float]]) -> None:
        """One step of every row; rates are [groups, M]."""
        self.count += 1
        self.one_rate = all(group == rates[0] for group in rates)
        self.step(self.slab.weights.new_tensor(rates))

    @abstractmethod
    def step(self, rate: Tensor) -> None:
        """Change the slab's weights by its gradients."""

    def add_decay(self) -> None:
        """L2 as part of the gradient."""
        for span, decay, any_row in zip(self.slab.spans, self.decays, self.decayed, strict=True):
            if any_row:
                self.slab.gradients[:, span].addcmul_(self.slab.weights[:, span], decay.unsqueeze(1))

    def move(self, direction: Tensor, rate: Tensor) -> None:
        """weights ← weights - rate · direction, group by group."""
        if self.one_rate:
            self.slab.weights.addcmul_(direction, rate[0].unsqueeze(1), value=-1)
            return
        for span, own in zip(self.slab.spans, rate, strict=True):
            self.slab.weights[:, span].addcmul_(direction[:, span], own.unsqueeze(1), value=-1)


class _AdamStep(StackedStep):
    def __init__(self, slab: Slab, decays: Sequence[Sequence[float]], settings: Adam | AdamW) -> None:
        super().__init__(slab, decays)
        self.settings = settings
        self.memory = [torch.zeros_like(slab.weights), torch.zeros_like(slab.weights)]

    def step(self, rate: Tensor) -> None:
        settings, (first, second) = self.settings, self.memory
        if isinstance(settings, AdamW):
            for span, own, decay, any_row in zip(self.slab.spans, rate, self.decays, self.decayed, strict=True):
                if any_row:
                    self.slab.weights[:, span].mul_((1 - own * decay).unsqueeze(1))
        else:
            self.add_decay()
        gradients, (fast, slow) = self.slab.gradients, settings.betas
        first.lerp_(gradients, 1 - fast)
        second.mul_(slow).addcmul_(gradients, gradients, value=1 - slow)
        divisor = second.sqrt().div_(math.sqrt(1 - slow**self.count)).add_(settings.eps)
        self.move(torch.div(first, divisor, out=divisor), rate / (1 - fast**self.count))


class _SGDStep(StackedStep):
    def __init__(self, slab: Slab, decays: Sequence[Sequence[float]], settings: SGD) -> None:
        super().__init__(slab, decays)
        self.settings = settings
        self.memory = [torch.zeros_like(slab.weights)] if settings.momentum else []

    def step(self, rate: Tensor) -> None:
        settings = self.settings
        self.add_decay()
        direction = self.slab.gradients
        if settings.momentum:
            # The first momentum is the first gradient, whatever the dampening.
            share = 1.0 if self.count == 1 else 1 - settings.dampening
            momentum = self.memory[0].mul_(settings.momentum).add_(direction, alpha=share)
            direction = direction.add(momentum, alpha=settings.momentum) if settings.nesterov else momentum
        self.move(direction, rate)


def stacked_step(settings: Optimizer, slab: Slab, states: Sequence[TrainState]) -> StackedStep:
    """The stacked form of an optimizer whose settings all members share but for rate and decay."""
    decays = [[float(group_of(state, names[0])["weight_decay"]) for state in states] for names in slab.groups]
    if isinstance(settings, SGD):
        return _SGDStep(slab, decays, settings)
    assert isinstance(settings, Adam | AdamW)
    return _AdamStep(slab, decays, settings)


def stackable_optimizer(settings: object) -> bool:
    """Whether an optimizer has a stacked form: those whose step is elementwise; a subclass may do anything."""
    return type(settings) in (Adam, AdamW, SGD) and not getattr(settings, "amsgrad", False)


@torch.no_grad()
def clip_rows(clipping: Clipping | None, gradients: Tensor) -> Tensor:
    """Clip each row by itself, in place; returns the rows' norms from before, [M]."""
    kind = clipping.norm if isinstance(clipping, ClipByNorm) else 2.0
    norms: Tensor = torch.linalg.vector_norm(gradients, kind, dim=1)
    if isinstance(clipping, ClipBoth):
        clip_rows(clipping.value, gradients)
        clip_rows(clipping.norm, gradients)
    elif isinstance(clipping, ClipByValue):
        gradients.clamp_(*clipping.range)
    elif isinstance(clipping, ClipByNorm):
        gradients.mul_((clipping.max_norm / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1))
    return norms


def stackable_clipping(clipping: object) -> bool:
    """Whether a clipping has a form that treats each row by itself."""
    return clipping is None or type(clipping) in (ClipByNorm, ClipByValue, ClipBoth)
