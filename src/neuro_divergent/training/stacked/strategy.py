"""The stacked step: gradients, clipping and update of many members in one computation.

Letters: M members.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from neuro_divergent.training.stacked.eligibility import differing
from neuro_divergent.training.stacked.layers import CannotStackError, StackedModule
from neuro_divergent.training.stacked.validation import RowsTask, Sums, validation_batches
from neuro_divergent.training.stacked.weights import Slab, clip_rows, group_of, stacked_step
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step.strategy import Step

Member = tuple[Task, TrainState]
"""A training: its task and its prepared state."""


class StackedSteps:
    """Steps of several members at once. Row m of every tensor belongs to member m. Finished members are removed."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        first = members[0][1]
        states = [state for _, state in members]
        for state in states:
            state.module.train()
        self.module = StackedModule(first.module)
        self.slab = Slab(states)
        self.update = stacked_step(first.config.optimizer, self.slab, states)  # type: ignore[arg-type]  # resolved
        self.task = copy.copy(members[0][0])
        self.validation_batches = validation_batches(states)
        self._collect()

    def _collect(self) -> None:
        """Collect the other tensors of the members: frozen weights, buffers, numbers of their losses."""
        modules = [state.module for _, state in self.members]
        self.frozen = {
            name: torch.stack([module.get_parameter(name).detach() for module in modules])
            for name, parameter in modules[0].named_parameters()
            if not parameter.requires_grad
        }
        self.buffers = {
            name: torch.stack([module.get_buffer(name) for module in modules]) for name, _ in modules[0].named_buffers()
        }
        outer = {name: tensor for name, tensor in self.buffers.items() if name not in self.module.inner_buffers}
        self.spread = {name: tensor for name, tensor in outer.items() if not bool((tensor == tensor[:1]).all())}
        # [joint groups, M] the live groups of the members' optimizers, which have their learning rates
        self.groups = [[group_of(state, names[0]) for _, state in self.members] for names in self.slab.groups]
        losses = [task.loss for task, _ in self.members]
        names = {name for loss in losses for name in differing(losses[0], loss) or ()}
        self.numbers = {
            name: self.slab.weights.new_tensor([getattr(loss, name) for loss in losses]) for name in sorted(names)
        }

    def step(self, batches: Sequence[Any], live: Sequence[int]) -> list[Step]:
        """Take one optimizer step of every member; return one result per member.

        If the step of a live member is not finite, no weight of any member changes. `taken` tells which were finite.
        """
        losses = self.gradients(batches).tolist()
        clipping = self.members[0][1].config.gradient_clipping
        norms = clip_rows(None if clipping == "auto" else clipping, self.slab.gradients).tolist()
        finite = [math.isfinite(loss) and math.isfinite(norm) for loss, norm in zip(losses, norms, strict=True)]
        if all(finite[row] for row in live):
            self.update([[float(group["lr"]) for group in groups] for groups in self.groups])
        return [Step(*figures) for figures in zip(losses, norms, finite, strict=True)]

    def keep(self, kept: list[int], live: int) -> None:
        """Drop all members but those of the rows `kept`; the first `live` of them continue to train."""
        self.members = [self.members[row] for row in kept]
        self.slab.keep(kept, [state for _, state in self.members[:live]])
        self.update.keep(kept)
        self._collect()

    def gradients(self, batches: Sequence[Any]) -> Tensor:
        """[M] the losses of all members; the slab has their gradients. Batches of equal shape are computed together."""
        shapes = _by_shape(dict(enumerate(batches)))
        if len(shapes) == 1:  # the common case, without copies
            return self._of_rows(batches, None)
        losses: Tensor = self.slab.weights.new_empty(len(batches))
        for rows in shapes.values():
            losses[rows] = self._of_rows([batches[row] for row in rows], rows)
        return losses

    def _of_rows(self, batches: Sequence[Any], rows: list[int] | None) -> Tensor:
        chosen = self.slab.views if rows is None else self.slab.some(rows)
        task, batch = self._with_loss(rows, len(batches[0][0])), _joined(batches)
        values, weights = self._computed(lambda module: task(module, batch), chosen, rows, batch)
        losses = self.members[0][0].loss.finish(_means(values, weights, len(batches)))
        found = torch.autograd.grad(losses.sum(), list(chosen.values()), allow_unused=True)
        if any(gradient is None for gradient in found):
            raise CannotStackError("some of its weights are not used by the forward of a layer")
        self.slab.fill(found, rows)
        done: Tensor = losses.detach()
        return done

    def _computed(
        self, compute: Callable[[Any], Any], weights: Mapping[str, Tensor], rows: list[int] | None, batch: Any
    ) -> Any:
        """The result of `compute` for the module with the weights and buffers of some rows."""
        frozen, buffers = _chosen(self.frozen, rows), _chosen(self.buffers, rows)
        members = len(self.members) if rows is None else len(rows)
        if self.spread:
            assert isinstance(self.task, RowsTask)
            self.task.spread_buffers(self.module.module, _chosen(self.spread, rows), batch)
        return self.module(compute, {**weights, **frozen}, buffers, members=members, rows=len(batch[0]))

    def _with_loss(self, rows: list[int] | None, size: int) -> Task:
        """The task with a loss whose numbers are those of each member."""
        if self.numbers:
            own = _chosen(self.numbers, rows).items()
            spread = {name: values.repeat_interleave(size)[:, None, None] for name, values in own}
            loss = self.members[0][0].loss.model_copy(update=spread)
            self.task.loss = loss
            if hasattr(self.module.module, "loss"):
                self.module.module.loss = loss  # type: ignore[assignment]  # torch says Module
        return self.task

    @torch.no_grad()
    def scores(self, rows: list[int]) -> dict[int, Sums]:
        """The validation sums of some rows. Batches of equal shape are computed together."""
        found: dict[int, Sums] = {}
        self.module.train(False)
        assert isinstance(self.task, RowsTask)
        for same in _by_shape({row: self.validation_batches[id(self.members[row][1])] for row in rows}).values():
            if len(same) > 1:
                batch = _joined([self.validation_batches[id(self.members[row][1])] for row in same])
                score = partial(self.task.score_rows, batch=batch, members=len(same))
                found |= zip(same, self._computed(score, self.slab.some(same), same, batch), strict=True)
        self.module.train(True)
        return found


def _chosen(tensors: Mapping[str, Tensor], rows: list[int] | None) -> Mapping[str, Tensor]:
    return tensors if rows is None else {name: tensor[rows] for name, tensor in tensors.items()}


def _by_shape(batches: Mapping[int, Any]) -> dict[Any, list[int]]:
    """Rows whose batches have the same fields, shapes and types."""
    shapes: dict[Any, list[int]] = {}
    for row, batch in batches.items():
        shapes.setdefault(_shape(batch), []).append(row)
    return shapes


def _shape(batch: Any) -> tuple[Any, ...]:
    return tuple(None if part is None else (part.shape, part.dtype) for part in batch)


def _joined(batches: Sequence[Any]) -> Any:
    """Concatenate batches of equal shape. Fields without a row axis are identical and taken from the first."""
    size = len(batches[0][0])
    parts = (
        part[0] if part[0] is None or len(part[0]) != size else torch.cat(part) for part in zip(*batches, strict=True)
    )
    return type(batches[0])(*parts)


def _means(values: Tensor, weights: Tensor | None, members: int) -> Tensor:
    """[M] the weighted mean of each member; 0 if all its weights are 0."""
    values = values.reshape(members, -1)
    if weights is None:
        return values.mean(dim=1)
    weights = weights.reshape(members, -1)
    # A masked value may be NaN or infinite: `where` keeps it out of the gradient, too.
    kept = torch.where(weights > 0, values, torch.zeros_like(values)) * weights.to(values.dtype)
    return kept.sum(dim=1) / weights.sum(dim=1).clamp(min=1e-12)
