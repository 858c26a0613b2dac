"""Whether members can be stacked: their stacked gradients and validations are compared with their own.

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
"""How far stacked gradients may be from a member's own at its first step, as a share of their norm."""


def obstacle(stack: StackedSteps) -> str | None:
    """Why these members cannot be stacked, in words; None when they can."""
    kept = stack.slab.weights.clone()
    # Members may start from the same weights: rows that see each other would not be noticed.
    stack.slab.weights.mul_(torch.linspace(1.0, 1.1, len(kept), dtype=kept.dtype, device=kept.device)[:, None])
    try:
        _check(stack)
    except CannotStackError as error:
        return str(error)
    finally:
        stack.slab.weights.copy_(kept)
    return None


def _check(stack: StackedSteps) -> None:
    """Compare the stacked gradients of the first step with each member's own."""
    foreign = [name for name in stack.spread if name not in getattr(stack.task, "row_buffers", ())]
    if foreign:
        raise CannotStackError(f"the buffer {foreign[0]} differs between the members")
    batches = [state.source.batch(0, 0) for _, state in stack.members]
    own = [_own_gradients(stack, row, batch) for row, batch in enumerate(batches)]
    with _refused(), warnings.catch_warnings():
        warnings.simplefilter("error")  # where torch.vmap has no batched form it says so, and loops
        losses = stack.gradients(batches).tolist()
    for row, (loss, gradients) in enumerate(own):
        norm = float(torch.linalg.vector_norm(gradients))
        error = float(torch.linalg.vector_norm(stack.slab.gradients[row] - gradients))
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise CannotStackError("its first step is not finite")
        if error > AGREEMENT * norm + 1e-12 or abs(losses[row] - loss) > AGREEMENT * abs(loss) + 1e-12:
            raise CannotStackError("its rows depend on each other, or its layers are not used as layers")
    _check_scores(stack)


def _check_scores(stack: StackedSteps) -> None:
    """Stack validations only if they come out as each member's own, and draw nothing."""
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
    # Members may be asked for different metrics: then each is validated by itstack.
    return own.keys() == sums.keys() and all(
        torch.allclose(sums[name], part, rtol=AGREEMENT, atol=1e-12) for name, part in own.items()
    )


def _own_gradients(stack: StackedSteps, row: int, batch: Any) -> tuple[float, Tensor]:
    """The loss and the gradients of a member by itself; refuses networks that draw or remember something."""
    task, state = stack.members[row]
    drawn = torch.get_rng_state()
    with _unchanged_buffers(state) as changed:
        loss = Eager().gradients(task, state, batch)
    flat = stack.slab.row_gradients(state)
    forget_gradients(state.optimizer)
    if changed:
        raise CannotStackError("it counts what it sees while training, as a batch norm does")
    if not torch.equal(drawn, torch.get_rng_state()):
        raise CannotStackError("it draws random numbers, such as dropout's, while training")
    if flat is None:
        raise CannotStackError("some of its weights have no part in the loss")
    return loss, flat


@contextmanager
def _unchanged_buffers(state: TrainState) -> Iterator[list[Tensor]]:
    """Buffers that change inside the context are listed, and put back."""
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
    """Whatever a network says against being stacked is a reason not to do it."""
    try:
        yield
    except NeuroDivergentError:
        raise
    except Warning as warning:
        raise CannotStackError("torch.vmap has no batched form of one of its operations") from warning
    except Exception as error:
        text = str(error).strip()
        raise CannotStackError(f"torch says: {text.splitlines()[0] if text else type(error).__name__}") from error
