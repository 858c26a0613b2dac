"""Check whether members can be stacked: compare stacked gradients and validations with those of each member alone.

Letters: M members.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from neuro_divergent.core.errors import NeuroDivergentError
from neuro_divergent.optim import forget_gradients
from neuro_divergent.training.stacked.layers import CannotStackError
from neuro_divergent.training.stacked.strategy import StackedSteps
from neuro_divergent.training.stacked.validation import RowsTask, Sums
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.step.eager import Eager

AGREEMENT = 1e-4
"""Largest accepted difference between stacked and single gradients at the first step, relative to their norm."""


def obstacle(stack: StackedSteps) -> str | None:
    """Why these members cannot be stacked, as a sentence; None if they can."""
    kept = stack.slab.weights.clone()
    # Make the weights differ: with equal weights, an influence of members on each other would stay hidden.
    stack.slab.weights.mul_(torch.linspace(1.0, 1.1, len(kept), dtype=kept.dtype, device=kept.device)[:, None])
    try:
        _check(stack)
    except CannotStackError as error:
        return str(error)
    finally:
        stack.slab.weights.copy_(kept)
    return None


def _check(stack: StackedSteps) -> None:
    """Raise if the stacked gradients of the first step differ from those of each member alone."""
    foreign = [name for name in stack.spread if name not in getattr(stack.task, "row_buffers", ())]
    if foreign:
        raise CannotStackError(f"the buffer {foreign[0]} differs between the members")
    batches = [state.source.batch(0, 0) for _, state in stack.members]
    own = [_own_gradients(stack, row, batch) for row, batch in enumerate(batches)]
    with _refused(), warnings.catch_warnings():
        warnings.simplefilter("error")  # torch.vmap warns if it has no batched form and loops
        losses = stack.gradients(batches).tolist()
    for row, (loss, gradients) in enumerate(own):
        norm = float(torch.linalg.vector_norm(gradients))
        error = float(torch.linalg.vector_norm(stack.slab.gradients[row] - gradients))
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise CannotStackError("its first step is not finite")
        if error > AGREEMENT * norm + 1e-12 or abs(losses[row] - loss) > AGREEMENT * abs(loss) + 1e-12:
            raise CannotStackError("its batch rows depend on each other, or it does not call its layers' forward")
    _check_scores(stack)


def _check_scores(stack: StackedSteps) -> None:
    """Stack validations only if they equal those of each member alone, and draw no random numbers."""
    if not isinstance(stack.task, RowsTask) or stack.numbers:
        stack.validation_batches = {}
    if not stack.validation_batches:
        return
    drawn = torch.get_rng_state()
    try:
        with _refused(), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = stack.scores(list(range(len(stack.members))))
        good = all(_same_score(stack, row, sums) for row, sums in found.items())
    except CannotStackError:
        good = False
    if not good or not torch.equal(drawn, torch.get_rng_state()):
        stack.validation_batches = {}


def _same_score(stack: StackedSteps, row: int, sums: Sums) -> bool:
    task, state = stack.members[row]
    state.module.eval()
    with torch.no_grad():
        own = task.score(state.module, stack.validation_batches[id(state)])
    state.module.train()
    # Members may have different metrics: then each is validated alone.
    return own.keys() == sums.keys() and all(
        torch.allclose(sums[name], part, rtol=AGREEMENT, atol=1e-12) for name, part in own.items()
    )


def _own_gradients(stack: StackedSteps, row: int, batch: Any) -> tuple[float, Tensor]:
    """Loss and gradients of a member alone; raises if the network draws random numbers or changes its buffers."""
    task, state = stack.members[row]
    drawn = torch.get_rng_state()
    with _unchanged_buffers(state) as changed:
        loss = Eager().gradients(task, state, batch)
    flat = stack.slab.row_gradients(state)
    forget_gradients(state.optimizer)
    if changed:
        raise CannotStackError("it has running statistics that change in training, such as those of a batch norm")
    if not torch.equal(drawn, torch.get_rng_state()):
        raise CannotStackError("it draws random numbers in training, such as dropout")
    if flat is None:
        raise CannotStackError("some of its weights do not affect the loss")
    return loss, flat


@contextmanager
def _unchanged_buffers(state: TrainState) -> Iterator[list[Tensor]]:
    """Context that yields a list, filled at its end with the buffers that changed; they are restored."""
    before = [(buffer, buffer.clone()) for buffer in state.module.buffers()]
    changed: list[Tensor] = []
    try:
        yield changed
    finally:
        changed += [buffer for buffer, kept in before if not torch.equal(buffer, kept)]
        for buffer, kept in before:
            buffer.copy_(kept)


@contextmanager
def _refused() -> Iterator[None]:
    """Context that turns errors and warnings of a network into CannotStackError."""
    try:
        yield
    except NeuroDivergentError:
        raise
    except Warning as warning:
        raise CannotStackError("torch.vmap has no batched form of one of its operations") from warning
    except Exception as error:
        text = str(error).strip()
        raise CannotStackError(f"torch says: {text.splitlines()[0] if text else type(error).__name__}") from error
