"""The trained weights of many members in one tensor, one row per member, and the optimizer step of that tensor.

The supported optimizers are elementwise: a step of the whole tensor equals a step of each member. All members are at
the same step; learning rate and weight decay may differ between members. The formulas are in optim/formulas.py.

Letters: M members, W trained numbers per member, with padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_divergent.optim import Clipping, Optimizer
from neuro_divergent.optim.formulas import apply_decay, clip, descend, direction, memory_names, step_scalars
from neuro_divergent.training.state.state import TrainState

ALIGNMENT = 16
"""Rows start at multiples of this many numbers, so that a row's bits do not depend on its position in the stack."""


class Slab:
    """Weights and gradients [M, W]. While a slab is in use, the parameters of the members are views of its rows."""

    def __init__(self, states: Sequence[TrainState]) -> None:
        self.groups = _joint_groups(states)
        """Names of the parameters that share one learning rate and one weight decay in every member."""
        parameters = named_parameters_of(states[0])
        self.spans: list[slice] = []
        """The columns of each group."""
        self._columns: dict[str, tuple[slice, torch.Size]] = {}
        start = 0
        for group in self.groups:
            begin = start
            for name in group:
                self._columns[name] = (slice(start, start + parameters[name].numel()), parameters[name].shape)
                start += parameters[name].numel()
            self.spans.append(slice(begin, start))
        first = next(iter(parameters.values())).detach()
        width = -(-start // ALIGNMENT) * ALIGNMENT
        self._padding = first.new_zeros(len(states), width - start)
        self.weights = first.new_zeros(len(states), width)
        for row, state in enumerate(states):
            own = [parameter.detach().flatten() for parameter, _, _ in self.parameters(state)]
            torch.cat(own, out=self.weights[row, :start])
            self._lend(row, state)
        self._arrange()

    def parameters(self, state: TrainState) -> list[tuple[Tensor, slice, torch.Size]]:
        """Each parameter of a member with its columns and its shape."""
        parameters = named_parameters_of(state)
        return [(parameters[name], columns, shape) for name, (columns, shape) in self._columns.items()]

    def _arrange(self) -> None:
        self.gradients = torch.zeros_like(self.weights)
        self.views = {
            name: self.weights[:, columns].view(-1, *shape).detach().requires_grad_()
            for name, (columns, shape) in self._columns.items()
        }

    def _lend(self, row: int, state: TrainState) -> None:
        for parameter, columns, shape in self.parameters(state):
            parameter.data = self.weights[row, columns].view(shape)

    def some(self, rows: list[int]) -> dict[str, Tensor]:
        """Copies of the weights of some rows, which require gradients."""
        return {name: view.detach()[rows].requires_grad_() for name, view in self.views.items()}

    def fill(self, gradients: Sequence[Tensor], rows: list[int] | None) -> None:
        """Write gradients, in the order of the views, to some rows; None means all rows."""
        parts = [gradient.flatten(1) for gradient in gradients]
        if rows is None:
            torch.cat([*parts, self._padding], dim=1, out=self.gradients)
        else:
            self.gradients[rows] = torch.cat([*parts, self._padding[: len(rows)]], dim=1)

    def row_gradients(self, state: TrainState) -> Tensor | None:
        """[W] gradients from a member's own backward pass; None if a parameter has no gradient."""
        found = [parameter.grad for parameter, _, _ in self.parameters(state)]
        if any(gradient is None for gradient in found):
            return None
        return torch.cat([*(gradient.flatten() for gradient in found if gradient is not None), self._padding[0]])

    def lend_gradients(self, row: int, state: TrainState) -> None:
        """Copy the gradients of a row to the `grad` of the member's parameters."""
        for parameter, columns, shape in self.parameters(state):
            parameter.grad = self.gradients[row, columns].view(shape).clone()

    def keep(self, rows: list[int], states: Sequence[TrainState]) -> None:
        """Drop all rows but these, which belong to the given members."""
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
    """The optimizer group of a member's parameter."""
    return next(group for group in state.optimizer.param_groups if name in group["names"])


def _joint_groups(states: Sequence[TrainState]) -> list[list[str]]:
    """Names of the parameters that are in one group in every member.

    Members may be grouped differently: with a weight decay of 0, the decayed and the other parameters are one group.
    """
    joint: dict[tuple[int, ...], list[str]] = {}
    numbers = [
        {name: number for number, group in enumerate(state.optimizer.param_groups) for name in group["names"]}
        for state in states
    ]
    for name in numbers[0]:
        joint.setdefault(tuple(own[name] for own in numbers), []).append(name)
    return list(joint.values())


def own_weights(state: TrainState) -> None:
    """Copy a member's parameters out of the slab into storage of their own."""
    for parameter in named_parameters_of(state).values():
        parameter.data = parameter.data.clone()
        parameter.grad = None


class StackedStep:
    """The optimizer state of all members, and the step that changes all weights of a slab.

    Args:
        settings: an optimizer that `has_formula`. All members share it, except for learning rate and weight decay.
        slab: the weights and gradients.
        decays: [groups, M] weight decays.
    """

    def __init__(self, settings: Optimizer, slab: Slab, decays: Sequence[Sequence[float]]) -> None:
        self.settings = settings
        self.slab = slab
        self.count = 0
        self.memory = {name: torch.zeros_like(slab.weights) for name in memory_names(settings)}
        self.decays = slab.weights.new_tensor(decays).unsqueeze(2)  # [groups, M, 1]
        self.decayed = [any(group) for group in decays]

    def keep(self, rows: list[int]) -> None:
        """Drop all members but those of these rows."""
        self.memory = {name: kept[rows] for name, kept in self.memory.items()}
        self.decays = self.decays[:, rows]

    @torch.no_grad()
    def take_over(self, states: Sequence[TrainState]) -> None:
        """Go on with the optimizer states of members that have taken the same number of steps."""
        self.count = states[0].step
        for row, state in enumerate(states):
            for parameter, columns, _ in self.slab.parameters(state):
                own = state.optimizer.state.get(parameter, {})
                for name, kept in self.memory.items():
                    if own.get(name) is not None:
                        kept[row, columns] = own[name].flatten()

    @torch.no_grad()
    def hand_over(self, row: int, state: TrainState) -> None:
        """Copy a row to the optimizer of its member, as if the optimizer had taken the steps."""
        for parameter, columns, shape in self.slab.parameters(state):
            own = {name: kept[row, columns].view(shape).clone() for name, kept in self.memory.items()}
            if "exp_avg" in own:
                own["step"] = torch.tensor(float(self.count), dtype=torch.float32)
            if own:
                state.optimizer.state[parameter] = own

    @torch.no_grad()
    def __call__(self, rates: Sequence[Sequence[float]]) -> None:
        """Take one step of every member; rates are [groups, M]."""
        self.count += 1
        settings, weights, gradients = self.settings, self.slab.weights, self.slab.gradients
        scalars = step_scalars(settings, weights.new_tensor(rates).unsqueeze(2), self.count)  # rate: [groups, M, 1]
        for group, span in enumerate(self.slab.spans):
            if self.decayed[group]:
                rate, decay = scalars.rate[group], self.decays[group]
                apply_decay(settings, weights[:, span], gradients[:, span], rate, decay, in_place=True)
        # Groups differ in rate and decay only, so one call computes the directions of all.
        towards, _ = direction(settings, tuple(self.memory.values()), gradients, scalars, in_place=True)
        if all(group == rates[0] for group in rates):
            descend(weights, towards, scalars.step_size[0], in_place=True)
            return
        for group, span in enumerate(self.slab.spans):
            descend(weights[:, span], towards[:, span], scalars.step_size[group], in_place=True)


def stacked_step(settings: Optimizer, slab: Slab, states: Sequence[TrainState]) -> StackedStep:
    """The optimizer of a slab, with the weight decays of its members."""
    decays = [[float(group_of(state, names[0])["weight_decay"]) for state in states] for names in slab.groups]
    step = StackedStep(settings, slab, decays)
    if states[0].step:
        step.take_over(states)
    return step


@torch.no_grad()
def clip_rows(clipping: Clipping | None, gradients: Tensor) -> Tensor:
    """Clip the gradients [M, W] of each member separately, in place; return the norms [M] before clipping."""
    return clip(clipping, [gradients], members=True, in_place=True)[1]
