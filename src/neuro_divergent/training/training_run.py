"""A training that the caller advances step by step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuro_divergent.core.errors import StorageError, TrainingError
from neuro_divergent.core.runs.names import is_remote
from neuro_divergent.training.callbacks.base import Callback, CallbackList, CallbackSettings
from neuro_divergent.training.callbacks.plain_progress import progress_of
from neuro_divergent.training.compiled.assemble import engine_callbacks, network_ready
from neuro_divergent.training.compiled.choose import Decided, decide
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.loop import loop
from neuro_divergent.training.process.heartbeat import heartbeat
from neuro_divergent.training.process.malloc import kept_memory
from neuro_divergent.training.process.signals import Guard
from neuro_divergent.training.process.thread_waiting import YieldWhenBusy
from neuro_divergent.training.runs.lock import run_lock
from neuro_divergent.training.runs.requested import write_checkpoint
from neuro_divergent.training.runs.resume import Resume, find, run_facts
from neuro_divergent.training.runs.resume import begin as begin_run
from neuro_divergent.training.runs.run_directory import events_of, write_about, write_config, write_context
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step.strategy import Strategy


class TrainingRun:
    """A prepared training that the caller advances step by step.

        run = TrainingRun(task, state)
        run.advance(100)           # to step 100; the run does not end here
        run.advance()              # to the last step, unless the training is stopped
        state = run.finish()       # the last checkpoint, the best weights, the last hook

    `complete()` advances to the end and finishes. The first call of any method runs `begin()`, which locks the run
    directory and restores a checkpoint; it raises if the run cannot be resumed. Between two calls, the number of
    threads, signal handlers and torch's global generator have the values from before. Close a run that you do not
    finish with `close()`, or use `with`.

    Args:
        task: computes the loss values of a batch.
        state: the state that `prepare` returned.
        title: the name on the progress line.
        extra: callbacks besides the configured ones.
        resume: whether to go on from a checkpoint.
        identity: gives what must be the same for a resume, such as the data's fingerprint; called only if needed.

    `save_checkpoint(path)` and `load_checkpoint(path)` keep a moment of one's own choice and go back to it.
    """

    def __init__(
        self,
        task: Task,
        state: TrainState,
        *,
        title: str = "training",
        extra: tuple[Callback, ...] = (),
        resume: Resume = Resume(),  # noqa: B008  # frozen
        identity: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.task, self.state = task, state
        self.resume = resume
        self._title, self._extra, self._identity = title, extra, identity
        self._open = ExitStack()
        self._begun = self._active = self._ended = False
        self._callbacks = CallbackList(())
        self._strategy: Strategy = state.strategy
        self._given = state.strategy
        self._decided: Decided | None = None

    def begin(self) -> TrainingRun:
        """Lock the run directory, restore a checkpoint if the run is resumed, and prepare the network; only once."""
        if self._ended:
            raise TrainingError(
                "a run that has ended cannot be advanced. Prepare it again, with resume='auto' if it was saved"
            )
        if self._begun:
            return self
        self._begun = True
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def save_checkpoint(self, path: str | os.PathLike[str]) -> Path | str:
        """Write the present state to a directory of its own and return it; a checkpoint that is there is replaced.

        A remote address (s3://..., any that fsspec knows) is returned as it is.
        Inside of `advance` (a callback calls it) it is written as soon as the step, and the end of its epoch, is done.
        """
        if self._active:
            self.state.save_checkpoint(path)
        else:
            self.begin()
            self.state.strategy.saves(self.state, due=True)
            write_checkpoint(self.state, self._callbacks, path)
        return str(path) if is_remote(path) else Path(path)

    def load_checkpoint(self, path: str | os.PathLike[str]) -> TrainingRun:
        """Go to the step of a checkpoint of this training: weights, optimizer, history and position are those of then.

        Other data, another module or another configuration is refused. What the run's directory has of later steps is
        set aside.
        """
        if self._active:
            raise TrainingError("a run goes back to a checkpoint between two calls of advance, not inside a callback")
        if self._ended:
            raise TrainingError("a run that has ended cannot go back. Prepare it again with resume=path")
        begun = self._begun
        if begun:  # everything that a step needs is made anew, as for a resumed run
            if self.state.saver is not None:
                self.state.saver.join(self.state)
            self._open.close()
            self._open = ExitStack()
            self._begun = False
            self.state.strategy, self.state.stopping = self._given, ""
        self.resume = Resume(path, own=begun)
        return self.begin()

    def check(self) -> None:
        """Raise if `begin` would refuse the data or the module. Afterwards the state cannot be trained."""
        snapshot = find(self.state, self.resume)
        begin_run(self.state, CallbackList(()), self.resume, self._identity, snapshot, {}, save=False)

    def _begin(self) -> None:
        state, config, main = self.state, self.state.config, self.state.strategy.main
        callbacks = self._all_callbacks(main)
        if main:
            self._open.enter_context(run_lock(config.checkpoints))
        snapshot = find(state, self.resume)
        decided = decide(state, None if snapshot is None else snapshot.document.get("decided", {}), callbacks)
        if decided.threads > 1:
            callbacks.append(YieldWhenBusy())
        self._decided, self._callbacks = decided, CallbackList(callbacks)
        with surroundings(config, decided.threads):
            self._strategy = self._open.enter_context(network_ready(self.task, state, decided, state.strategy))
            state.strategy = self._strategy
            self._open.enter_context(_watched_inside(state, self._callbacks))
            state.facts = lambda: run_facts(state, self._identity(), decided.facts())
            begin_run(state, self._callbacks, self.resume, self._identity, snapshot, decided.facts(), save=main)
            self._strategy.begin(state, self._identity)
            if config.checkpoints is not None and state.saver is not None:
                try:
                    write_config(config.checkpoints.directory, config)
                    write_context(config.checkpoints.directory, state.context())
                    write_about(config.checkpoints.directory, state)
                except StorageError as error:
                    state.saver.report(error, state)
        self._first = True

    def _all_callbacks(self, main: bool) -> list[Callback]:
        state, config = self.state, self.state.config
        callbacks = [item.build() if isinstance(item, CallbackSettings) else item for item in config.callbacks]
        callbacks += engine_callbacks(state.module, config)
        if main:
            callbacks += progress_of(config.progress, self._title)
        if main and config.checkpoints is not None:
            callbacks += events_of(config.checkpoints.directory, state)
        return [*callbacks, *self._extra, *heartbeat()]

    def advance(self, until: int | None = None) -> TrainingRun:
        """Train until the run has done `until` optimizer steps (None: all), or until it is stopped."""
        with self._running():
            loop.advance(
                self.task,
                self.state,
                self.state.total_steps if until is None else until,
                self._strategy,
                self._callbacks,
            )
        return self

    def finish(self) -> TrainState:
        """End the run: save it, restore the best weights, call `on_fit_end`, and return the state."""
        with self._running():
            loop.finish(self.state, self._callbacks)
        self.close()
        return self.state

    def complete(self) -> TrainState:
        """Advance to the end and finish, under one signal handler."""
        with self._running():
            self.advance()
            return self.finish()

    def close(self) -> None:
        """Release the lock and restore the network's forward methods. A saved run can be resumed."""
        self._ended = True
        if not self._active:
            self._open.close()

    def __enter__(self) -> TrainingRun:
        return self.begin()

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Context with the process settings of this run: threads, determinism, signals. Nested calls share one."""
        if self._active:
            yield
            return
        self.begin()
        assert self._decided is not None
        self._active = True
        try:
            with (
                surroundings(self.state.config, self._decided.threads),
                Guard(self.state),
                loop.report_errors(self.state, self._callbacks),
            ):
                if self._first:
                    self._first = False
                    self._callbacks("on_fit_start", self.state)
                yield
        except BaseException:
            self._ended = True
            raise
        finally:
            self._active = False
            if self._ended:
                self._open.close()


@contextmanager
def surroundings(config: TrainingConfig, decided: int | None = None) -> Iterator[None]:
    """Context that sets threads (decided, else configured), determinism and malloc, and restores them afterwards."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    wanted = decided or config.threads
    if wanted not in ("auto", threads):
        torch.set_num_threads(int(wanted))
    if config.deterministic and not deterministic:
        torch.use_deterministic_algorithms(True)
    try:
        with kept_memory():
            yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.are_deterministic_algorithms_enabled() != deterministic:  # a needless call would load the compiler
            torch.use_deterministic_algorithms(deterministic)


@contextmanager
def _watched_inside(state: TrainState, callbacks: CallbackList) -> Iterator[None]:
    """Context in which callbacks can read the gradients and outputs that they declared in `looks_at`."""
    if callbacks.has("on_gradients"):
        state.on_gradients = lambda state: callbacks("on_gradients", state)
        state.observers = lambda state: _shown_to(callbacks, callbacks.observers(state))
    stop = _show_outputs(state) if callbacks.look_at("outputs") else None
    try:
        yield
    finally:
        state.on_gradients = state.observers = state.outputs = None
        if stop is not None:
            stop()


def _shown_to(callbacks: CallbackList, some: list[Callback]) -> Callable[[TrainState], None] | None:
    return (lambda state: callbacks.call(some, "on_gradients", state)) if some else None


def _show_outputs(state: TrainState) -> Callable[[], None]:
    module = state.module

    def keep(output: Any) -> None:
        state.outputs = output.detach() if isinstance(output, Tensor) else output

    if hasattr(module, "watch_outputs"):  # a module that does not train through `forward`
        return module.watch_outputs(keep)  # type: ignore[no-any-return, operator]  # torch says Tensor | Module

    def hook(_: nn.Module, __: Any, output: Any) -> None:
        keep(output)

    return module.register_forward_hook(hook).remove
