"""The training loop of a stack: one stacked step for all live members; each has its own records, epochs and end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from neuro_divergent.core.errors import NeuroDivergentError, NonFiniteError
from neuro_divergent.training.callbacks.base import Callback, CallbackList
from neuro_divergent.training.callbacks.plain_progress import progress_of
from neuro_divergent.training.compiled.assemble import engine_callbacks
from neuro_divergent.training.loop.loop import (
    end_epoch,
    finish,
    handle_nonfinite,
    record_step,
    report_errors,
    set_learning_rate,
)
from neuro_divergent.training.process.heartbeat import heartbeat
from neuro_divergent.training.stacked.strategy import Member, StackedSteps
from neuro_divergent.training.stacked.validation import MemberSteps
from neuro_divergent.training.stacked.weights import own_weights
from neuro_divergent.training.state.state import TrainState

Failed = tuple[TrainState, NeuroDivergentError]
"""A member that failed, and why."""


class StackedLoop:
    """Trains every member of a stack to its end, or to a step of its own.

    Args:
        stack: the members.
        title: the name on the progress line.
        until: the step at which each member pauses, in the order of the members; None trains to the end.
        between: called after each step with the live members. It may ask `up_to_date` to save them.
    """

    def __init__(
        self,
        stack: StackedSteps,
        title: str,
        until: Sequence[int] | None = None,
        between: Callable[[StackedLoop, list[TrainState]], None] | None = None,
    ) -> None:
        self.stack, self.title, self._between = stack, title, between
        steps = [state.total_steps for _, state in stack.members] if until is None else until
        self._until = {id(state): step for (_, state), step in zip(stack.members, steps, strict=True)}
        self._beats = heartbeat()
        self._callbacks = [
            CallbackList([*engine_callbacks(state.module, state.config), *self._beats]) for _, state in stack.members
        ]
        self.failures: list[Failed] = []
        for _, state in stack.members:
            state.tensors = state.module.state_dict(keep_vars=True)

    def run(self) -> list[Failed]:
        """Step until no member is live. Finished and failed members leave the stack; the failed ones are returned."""
        progress = _progress(self.stack.members[0][1], f"{len(self.stack.members)} × {self.title}", self._beats)
        last = self.stack.members[0][1]
        progress("on_fit_start", last)
        live = list(range(len(self.stack.members)))
        try:
            while live:
                last = self.stack.members[live[0]][1]
                done = self.train_step(live)
                if not done:
                    progress("on_batch_end", last)
                    done = self._end_epochs(live)
                    done += self._pause([row for row in live if row not in done])
                    if self._between is not None:
                        self._between(self, [self.stack.members[row][1] for row in live if row not in done])
                if done:
                    live = self._go_on([row for row in live if row not in done])
        except BaseException:
            progress("on_exception", last)
            raise
        progress("on_fit_end", last)
        return self.failures

    def train_step(self, live: list[int]) -> list[int]:
        """Take one optimizer step of every live member. A finished member that stays in the stack reuses a live one's
        batch.

        If the steps of some members are not finite, no weight changes. These members fail, and their rows are returned.
        """
        begun = time.perf_counter()
        members = [(row, *self.stack.members[row]) for row in live]
        drawn = {row: state.source.batch(state.epoch, state.position) for row, _, state in members}
        batches = [drawn.get(row, drawn[live[0]]) for row in range(len(self.stack.members))]
        for _, _, state in members:
            set_learning_rate(state)
        steps = self.stack.step(batches, live)
        failed = []
        for row, task, state in members:
            state.loss, state.gradient_norm, finite = steps[row]
            if not finite:
                self.stack.slab.lend_gradients(row, state)
                try:
                    handle_nonfinite(task, state, batches[row])
                except NonFiniteError as error:
                    self._fail(row, state, error)
                    failed.append(row)
        if failed:
            return failed
        seconds = (time.perf_counter() - begun) / len(live)
        for row, task, state in members:
            record_step(task, state, batches[row], taken=True)
            state.epoch_seconds += seconds
        return []

    def _fail(self, row: int, state: TrainState, error: NeuroDivergentError) -> None:
        own_weights(state)
        state.tensors, state.error = None, error
        self._callbacks[row]("on_exception", state)
        self.failures.append((state, error))

    def _end_epochs(self, live: list[int]) -> list[int]:
        """End the epochs and the trainings that are over; return the rows of the ended trainings."""
        stack = self.stack
        over = [row for row in live if _epoch_is_over(stack.members[row][1])]
        due = [row for row in over if _validation_is_due(stack.members[row][1])] if stack.validation_batches else []
        known = stack.scores(due) if due else {}
        for row in over:
            task, state = stack.members[row]
            end_epoch(task, state, self._callbacks[row], MemberSteps(known.get(row)))
        done = [row for row in over if _is_done(stack.members[row][1])]
        for row in done:
            _, state = stack.members[row]
            own_weights(state)
            state.tensors = None
            with report_errors(state, self._callbacks[row]):
                self._callbacks[row]("on_fit_start", state)
                finish(state, self._callbacks[row])
        return done

    def _pause(self, live: list[int]) -> list[int]:
        """Give the members that have reached their step their own weights and optimizer state; return their rows."""
        due = [row for row in live if self.stack.members[row][1].step >= self._until[id(self.stack.members[row][1])]]
        for row in due:
            state = self.stack.members[row][1]
            self.stack.update.hand_over(row, state)
            own_weights(state)
            state.tensors = None
        return due

    def up_to_date(self, states: list[TrainState]) -> None:
        """Give the optimizers of live members their state, so that checkpoints can be taken."""
        live = {id(state) for state in states}
        for row, (_, state) in enumerate(self.stack.members):
            if id(state) in live:
                self.stack.update.hand_over(row, state)

    def _go_on(self, live: list[int]) -> list[int]:
        """Drop finished members. If one is left, keep a finished one beside it: a stack of one rounds differently."""
        if not live:
            return []
        count = len(self.stack.members)
        company = [row for row in range(count) if row not in live][:1] if len(live) == 1 else []
        kept = live + company
        self._callbacks = [self._callbacks[row] for row in kept]
        self.stack.keep(kept, len(live))
        return list(range(len(live)))


def release(members: list[Member]) -> None:
    """Copy the weights of every member out of the stack into its own storage."""
    for _, state in members:
        own_weights(state)
        state.tensors = None


def _progress(state: TrainState, title: str, beats: list[Callback]) -> CallbackList:
    return CallbackList([*progress_of(state.config.progress, title), *beats])


def _epoch_is_over(state: TrainState) -> bool:
    return state.position >= state.steps_per_epoch or state.step >= state.total_steps


def _validation_is_due(state: TrainState) -> bool:
    return (state.epoch + 1) % state.config.validate_every == 0 or state.step >= state.total_steps


def _is_done(state: TrainState) -> bool:
    return bool(state.stopping) or state.step >= state.total_steps
