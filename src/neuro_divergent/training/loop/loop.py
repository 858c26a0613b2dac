"""The training loop: batch → step → records → end of the epoch.

The loop uses a task, a state and a strategy. The strategy takes the steps, so that the same loop serves one process,
several processes and private gradients.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch

from neuro_divergent.core.errors import Advice, NonFiniteError, TrainingError
from neuro_divergent.optim import (
    Optimizer,
    Optimizers,
    ReduceOnPlateau,
    ScheduleContext,
    set_own_rates,
    set_rate,
    to_eval,
    to_train,
)
from neuro_divergent.optim.schedules import checked_factor
from neuro_divergent.training.callbacks.base import CallbackList
from neuro_divergent.training.loop import nonfinite
from neuro_divergent.training.process.signals import StoppedBeforeStepError
from neuro_divergent.training.runs.requested import write_requested
from neuro_divergent.training.state import early_stopping
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task, batches
from neuro_divergent.training.step.strategy import Strategy

MOST_SKIPPED_IN_A_ROW = 50
"""Largest number of consecutive overflows that is normal while the dynamic loss scale of fp16 adapts."""


def advance(task: Task, state: TrainState, until: int, strategy: Strategy, callbacks: CallbackList) -> None:
    """Train until `until` optimizer steps are done, or all steps of the run, or until the training is stopped.

    It does not end the run: the state can be advanced again.
    """
    until = min(until, state.total_steps)
    strategy.saves(state, bool(state.requested))
    write_requested(state, callbacks)  # asked for before the first step
    # An epoch may have been interrupted after its last step: then its validation and record are still due.
    while not stop_agreed(state, strategy) and (state.step < until or _end_is_due(state)):
        run_epoch(task, state, until, strategy, callbacks)
        save_if_due(state, callbacks)
    if state.signalled:
        state.history.stopped = state.stopping
        finish_saving(state, callbacks)


def stop_agreed(state: TrainState, strategy: Strategy) -> bool:
    """Whether the training ends now, because any process of the run stops or received a signal."""
    if not strategy.agree(bool(state.stopping)):
        return False
    state.stop("another process of the run stopped")
    if strategy.agree(state.signalled) and not state.signalled and state.guard is not None:
        state.guard.stop(signal.SIGTERM, "another process of the run got a signal")
    return True


def finish(state: TrainState, callbacks: CallbackList) -> None:
    """End a run: write the last checkpoint, set the returned weights, call the last hook."""
    state.history.stopped = state.stopping or "all epochs were done"
    finish_saving(state, callbacks)
    _settle_weights(state)
    callbacks("on_fit_end", state)


@contextmanager
def report_errors(state: TrainState, callbacks: CallbackList) -> Iterator[None]:
    """Context that calls `on_exception` if an error ends the training, and restores torch's global generator."""
    generator_state = torch.get_rng_state()
    try:
        yield
    except BaseException as error:
        state.error = error
        # Only a second signal does not wait: whoever sends it wants to leave at once.
        if state.saver is not None and not state.signalled:
            state.saver.join()
        callbacks("on_exception", state)
        raise
    finally:
        torch.set_rng_state(generator_state)


def _end_is_due(state: TrainState) -> bool:
    return state.position >= state.steps_per_epoch or (state.position > 0 and state.step >= state.total_steps)


def save_if_due(state: TrainState, callbacks: CallbackList) -> None:
    """Take a checkpoint if one is due or requested, and report a failure of the last one."""
    if state.saver is not None:
        state.saver.check(state)
    due = state.saver is not None and not state.stopping and state.saver.due(state)
    due = state.strategy.saves(state, due or bool(state.requested)) and due
    write_requested(state, callbacks)
    if state.saver is not None and due:
        state.saver.save(state, callbacks)


def finish_saving(state: TrainState, callbacks: CallbackList) -> None:
    """Write the last checkpoint, before the best weights are restored; then raise a received signal."""
    due = state.saver is not None and (state.saver.settings.on_stop or state.signalled)
    state.strategy.saves(state, due)
    if state.saver is not None:
        if due:
            state.saver.save(state, callbacks)
        state.saver.join(state)
    if state.guard is not None:
        state.guard.raise_if_received()


def run_epoch(task: Task, state: TrainState, until: int, strategy: Strategy, callbacks: CallbackList) -> None:
    """Train the rest of the present epoch up to step `until`, and end the epoch after its last step."""
    if state.position == 0:
        callbacks("on_epoch_start", state)
    state.module.train()
    to_train(state.optimizer)
    begun = time.perf_counter()
    rest = batches(state.source, state.epoch, state.position, state.config.num_workers)
    stopped = False  # as all processes of the run agree: `state.stopping` may be set in one of them only
    for batch in islice(rest, max(0, until - state.step)):
        callbacks("on_batch_start", state)
        try:
            train_step(task, state, batch, strategy)
        except StoppedBeforeStepError:
            stopped = True
            break
        callbacks("on_batch_end", state)
        stopped = stop_agreed(state, strategy)
        if stopped:
            break
        if state.position < state.steps_per_epoch and state.step < state.total_steps:
            save_if_due(state, callbacks)
    state.epoch_seconds += time.perf_counter() - begun
    if state.position >= state.steps_per_epoch or (state.step >= state.total_steps and not stopped):
        end_epoch(task, state, callbacks, strategy)


def train_step(task: Task, state: TrainState, batch: Any, strategy: Strategy) -> None:
    """Take one optimizer step on one effective batch: set the learning rate, step, record."""
    set_learning_rate(state)
    step = strategy.step(task, state, batch)
    if not isinstance(step, tuple):
        raise TrainingError(
            f"step() gives Step(loss, norm, taken), but that of {type(strategy).__name__} gave {step!r}"
        )
    state.loss, state.gradient_norm, taken = step
    record_step(task, state, batch, taken)


def record_step(task: Task, state: TrainState, batch: Any, taken: bool) -> None:
    """Add loss and gradient norm of a step to the history. A step that is not finite is skipped or raises."""
    if taken:
        if state.averager is not None:
            state.averager.update(state.step)
        state.history.step_loss.append(state.loss)
        state.history.gradient_norm.append(state.gradient_norm)
        state.epoch_loss += state.loss
    else:
        handle_nonfinite(task, state, batch)
    state.step += 1
    state.position += 1


def set_learning_rate(state: TrainState) -> None:
    """Set the learning rate of every parameter group: the schedule's factor times `rate_factor` of callbacks."""
    schedule, optimizer = state.config.schedule, state.config.optimizer
    factor = state.rate_factor
    context = ScheduleContext(
        total_steps=state.total_steps,
        steps_per_epoch=state.steps_per_epoch,
        base_rate=_base_rate(state),
        plateau=state.plateau,
    )
    if schedule is not None and schedule != "auto":
        factor *= checked_factor(schedule, state.step, context)
    set_rate(state.optimizer, factor)
    if isinstance(optimizer, Optimizers) and optimizer.schedules:
        set_own_rates(state.optimizer, state.step, context, state.rate_factor)


def _base_rate(state: TrainState) -> float:
    """The learning rate in the optimizer's settings; the first parameter group may have another."""
    optimizer = state.config.optimizer
    if isinstance(optimizer, Optimizer):
        return optimizer.learning_rate
    return float(state.optimizer.param_groups[0]["initial_lr"])


def handle_nonfinite(task: Task, state: TrainState, batch: Any) -> None:
    """After a step that was not finite: count it and go on if configured, otherwise raise with an explanation."""
    state.skipped += 1
    what = "loss" if not math.isfinite(state.loss) else "gradient"
    state.log(event="skipped", what=what, value=str(state.loss if what == "loss" else state.gradient_norm))
    # In fp16 the dynamic loss scale grows until gradients overflow, so a single overflow is normal. Only many
    # consecutive overflows are a failure. The loss is checked before scaling: no scale can repair it.
    overflow = what == "gradient" and state.precision.searching
    searching = overflow and _skipped_in_a_row(state) <= MOST_SKIPPED_IN_A_ROW
    if state.config.nonfinite == "skip" or searching:
        return
    half = state.precision.name == "fp16"
    wider = " Half precision ends at 65,504: try precision='bf16'." if half else ""
    raise NonFiniteError(
        f"the {what} must be finite, but at step {state.step + 1} (epoch {state.epoch + 1}) it was "
        f"{state.loss if what == 'loss' else state.gradient_norm}. {nonfinite.explanation(task, state, batch)} The "
        "weights are those of the last good step. Try a lower learning rate, gradient clipping or a scaler; "
        f"nonfinite='skip' skips such steps and counts them.{wider}",
        advice=[Advice("training.nonfinite", "skip"), *([Advice("training.precision", "bf16")] if half else [])],
    )


def _skipped_in_a_row(state: TrainState) -> int:
    """The number of consecutive skipped steps, including the present one."""
    steps = [event["step"] for event in state.history.events if event.get("event") == "skipped"]
    count = 0
    while count < len(steps) and steps[-1 - count] == state.step - count:
        count += 1
    return count


def end_epoch(task: Task, state: TrainState, callbacks: CallbackList, strategy: Strategy) -> None:
    """End an epoch: validate, record, update plateau schedule and early stopping."""
    record: dict[str, float] = {
        "epoch": state.epoch + 1,
        "train_loss": _mean_loss(state),
        "learning_rate": state.learning_rate,
        "seconds": state.epoch_seconds,
        "time": time.time(),
    }
    due = (state.epoch + 1) % state.config.validate_every == 0 or state.step >= state.total_steps
    if state.validation_source is not None and due:
        figures = _validated(task, state, state.validation_source, callbacks, strategy)
        if figures is None:
            return  # the position stays at the end of the epoch: a resumed run repeats this function
        record |= figures
    if state.validation_source is None and state.scored is not None and due:
        figures = _train_metrics(task, state, state.scored, strategy)
        if figures is None:
            return
        record |= figures
    state.history.epochs.append(record)
    if state.validation_source is None or due:
        _judge(state, record)
    callbacks("on_epoch_end", state)
    state.epoch, state.position = state.epoch + 1, 0
    state.epoch_loss = state.epoch_seconds = 0.0
    if state.saver is not None:
        state.saver.epoch_ended()


def _train_metrics(task: Task, state: TrainState, source: Source, strategy: Strategy) -> dict[str, float] | None:
    """The metrics on the training rows, as train_<name>, where nothing is held out; None if a signal came."""
    if strategy.agree(state.signalled):
        return None
    to_eval(state.optimizer)
    figures = strategy.validate(task, state, source)
    if figures is None:
        to_train(state.optimizer)
        return None
    found = {name.removeprefix("validation_"): value for name, value in figures.items()}
    return {f"train_{name}": value for name, value in found.items() if name != "loss"}


def _validated(
    task: Task, state: TrainState, source: Source, callbacks: CallbackList, strategy: Strategy
) -> dict[str, float] | None:
    """Loss and metrics of a validation. If a signal came, None; then all changes by callbacks are undone."""
    if strategy.agree(state.signalled):
        return None
    undo = callbacks.remember(state) if state.guard is not None else None
    callbacks("on_validation_start", state)
    to_eval(state.optimizer)
    begun = time.perf_counter()
    figures = strategy.validate(task, state, source)
    if figures is None:
        to_train(state.optimizer)
        if undo is not None:
            undo()
        return None
    record = figures | {"validation_seconds": time.perf_counter() - begun}
    state.validation = figures
    callbacks("on_validation_end", state)
    return record


def _mean_loss(state: TrainState) -> float:
    """The mean loss over the taken steps of the epoch; NaN if all were skipped."""
    events = state.history.events if state.skipped else ()
    skipped = sum(1 for event in events if event.get("event") == "skipped" and event["epoch"] == state.epoch)
    taken = state.position - skipped
    return state.epoch_loss / taken if taken > 0 else float("nan")


def _judge(state: TrainState, record: dict[str, float]) -> None:
    """Update plateau schedule, best weights and early stopping with one more record."""
    schedule, rule = state.config.schedule, state.config.early_stopping
    if isinstance(schedule, ReduceOnPlateau) and state.plateau is not None:
        if schedule.monitor not in record:  # no held-out rows: use the training loss
            schedule = schedule.replace(monitor="train_loss", mode="min")
        state.plateau = schedule.update(state.plateau, record[schedule.monitor])
    if rule is None or rule == "auto":
        return
    value = record[rule.monitor]
    state.patience, improved, stop = early_stopping.update(rule, state.patience, value, state.epoch + 1)
    state.history.best_epoch = state.patience.best_epoch
    if improved and rule.restore_best_weights:
        state.best_weights = _validated_weights(state)
    if stop:
        state.stop(f"no improvement of {rule.monitor} in {rule.patience} validations")


def _validated_weights(state: TrainState) -> dict[str, torch.Tensor]:
    if state.averager is None:
        to_eval(state.optimizer)
        weights = state.weights()
        to_train(state.optimizer)
        return weights
    with state.averager.swap():
        return state.weights()


def _settle_weights(state: TrainState) -> None:
    """Set the module to the weights that the run returns: the best, else the averaged, else the last."""
    to_eval(state.optimizer)
    if state.best_weights is not None:
        state.module.load_state_dict(state.best_weights)
    elif state.averager is not None:
        state.averager.copy_to_module()
    state.module.eval()


@contextmanager
def returned_weights(state: TrainState) -> Iterator[None]:
    """Context in which the module has the weights that the run would return if it ended now. Then all is as before."""
    own = state.weights()
    weights = state.best_weights or _validated_weights(state)
    training = state.module.training
    state.module.load_state_dict(weights)
    state.module.eval()
    try:
        yield
    finally:
        state.module.load_state_dict(own)
        state.module.train(training)
