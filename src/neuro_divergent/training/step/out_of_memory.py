"""When the memory is too small for a batch: the same batch in halves, quarters, ... accumulated to the same step.

A validation is added up from such pieces, too: what is known of them after a resume is what the history says.
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
"""By this name the history knows in how many pieces a batch of the validation is computed."""


def gradients(strategy: Eager, task: Task, state: TrainState, batch: Any) -> float:
    """The strategy's gradients, in smaller pieces if the memory asks for it and the configuration allows it."""
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
        # Outside of the except block: the error holds on to the frames, and they to the memory.
        if not strategy.agree(bool(reason)):
            return loss
        if running is not None:
            running.restore()
        _halve(state, reason or "another process of the run ran out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch means that memory ran out, on any device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return "can't allocate memory" in text or "out of memory" in text.lower()


def _in_pieces(state: TrainState) -> TrainState:
    """The state as the strategy should see it: with as many micro-batches as the memory has taught."""
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
            f"the memory must hold one micro-batch, but {size} rows at step {state.step + 1} were too many: {reason}. "
            f"Lower batch_size and raise accumulate_gradients, or set fault_tolerance=FaultTolerance(retries=0), which "
            "does it for you"
        )
    state.micro_batches *= 2
    log.warning(
        "out of memory: micro-batches of %d instead of %d rows from now on", batch_size // state.micro_batches, size
    )
    state.log(event="out_of_memory", micro_batches=state.micro_batches, why=reason)


def validation_pieces(state: TrainState) -> int:
    """In how many pieces a batch of the validation is computed, because the memory was too small for the whole."""
    return next((event[_PIECES] for event in reversed(state.history.events) if _PIECES in event), 1)


def halve_validation(state: TrainState, count: int, reason: str) -> None:
    """Let batches of the validation, which have so many rows, be computed in twice as many pieces from now on."""
    pieces = validation_pieces(state)
    size = count // pieces
    _make_room(state)
    if not _halves(state) or size <= 1:
        raise TrainingError(
            f"the memory must hold a batch of the validation, but {size} rows after step {state.step} were too many: "
            f"{reason}. Use a smaller network or hold nothing back, or set fault_tolerance=FaultTolerance(retries=0), "
            "which takes fewer rows at a time"
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
