"""Out-of-memory retries: the same batch in halves, quarters, ... accumulated to the same step.

A validation is computed in such pieces, too. The history stores their number, so that a resumed run uses the same.
"""

from __future__ import annotations

import gc
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from neuro_divergent.core.errors import TrainingError, first_line
from neuro_divergent.training.config.checkpoints import FaultTolerance
from neuro_divergent.training.process.malloc import let_go
from neuro_divergent.training.state.batch_norm_stats import RunningStatistics
from neuro_divergent.training.state.seeding import seed_network
from neuro_divergent.training.state.task import Task

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState
    from neuro_divergent.training.step.eager import Eager

log = logging.getLogger(__name__)

_PIECES = "validation_pieces"
"""Name of the history event with the number of pieces of a validation batch."""


def gradients(strategy: Eager, task: Task, state: TrainState, batch: Any) -> float:
    """Compute the strategy's gradients and return the loss; retry in smaller pieces if memory runs out and the
    configuration allows it."""
    running = RunningStatistics(state.module) if _tolerance(state) is not None else None
    while True:
        if running is not None:
            running.remember()
        seed_network(state)
        loss, reason = 0.0, ""
        try:
            loss = strategy.gradients(task, _in_pieces(state), batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            reason = first_line(error)
        # Outside the except block: the error keeps its frames alive, and they keep the memory.
        if not strategy.agree(bool(reason)):
            return loss
        if running is not None:
            running.restore()
        _halve(state, reason or "another process of the run ran out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on any device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return "can't allocate memory" in text or "out of memory" in text.lower()


def _in_pieces(state: TrainState) -> TrainState:
    """The state with the larger number of micro-batches that earlier retries have set."""
    if state.micro_batches == 1:
        return state
    config = state.config
    pieces = config.model_copy(update={"accumulate_gradients": config.accumulate_gradients * state.micro_batches})
    return replace(state, config=pieces)


def _halve(state: TrainState, reason: str) -> None:
    config = state.config
    batch_size = int(config.batch_size)
    size = batch_size // state.micro_batches
    _make_room(state)
    if not _halves(state) or size <= 1 or config.gradient_method != "autograd":
        raise TrainingError(
            f"one micro-batch must fit into memory, but {size} rows at step {state.step + 1} did not: {reason}. "
            f"Lower batch_size and raise accumulate_gradients, or set fault_tolerance=FaultTolerance(retries=0), which "
            "does it automatically"
        )
    state.micro_batches *= 2
    log.warning(
        "out of memory: micro-batches of %d instead of %d rows from now on", batch_size // state.micro_batches, size
    )
    state.log(event="out_of_memory", micro_batches=state.micro_batches, why=reason)


def validation_pieces(state: TrainState) -> int:
    """The number of pieces of a validation batch; more than 1 after the memory was too small for the whole."""
    return next((event[_PIECES] for event in reversed(state.history.events) if _PIECES in event), 1)


def halve_validation(state: TrainState, count: int, reason: str) -> None:
    """Double the number of pieces of validation batches, which have `count` rows."""
    pieces = validation_pieces(state)
    size = count // pieces
    _make_room(state)
    if not _halves(state) or size <= 1:
        raise TrainingError(
            f"a validation batch must fit into memory, but {size} rows after step {state.step} did not: {reason}. Use "
            "a smaller network or validation_split=None, or set fault_tolerance=FaultTolerance(retries=0), which takes "
            "fewer rows at a time"
        )
    log.warning("out of memory: validation batches of %d instead of %d rows from now on", size // 2, size)
    state.log(event="out_of_memory", **{_PIECES: 2 * pieces}, why=reason)


def _make_room(state: TrainState) -> None:
    state.optimizer.zero_grad(set_to_none=True)
    let_go()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _halves(state: TrainState) -> bool:
    tolerance = _tolerance(state)
    return tolerance is not None and tolerance.halve_on_out_of_memory


def _tolerance(state: TrainState) -> FaultTolerance | None:
    return state.config.fault_tolerance
