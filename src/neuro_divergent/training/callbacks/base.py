"""The callback base class with its hooks, and how the engine calls them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import CallbackError, NeuroDivergentError, StorageError
from neuro_divergent.core.json import from_plain, to_plain
from neuro_divergent.core.other_words import HOOKS as OTHER_HOOKS
from neuro_divergent.core.registry import closest
from neuro_divergent.training.callbacks.logs import given_logs, takes_logs

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

log = logging.getLogger(__name__)

HOOKS = (
    "on_fit_start",
    "on_fit_end",
    "on_epoch_start",
    "on_epoch_end",
    "on_batch_start",
    "on_gradients",
    "on_batch_end",
    "on_validation_start",
    "on_validation_end",
    "on_checkpoint_start",
    "on_checkpoint_end",
    "on_exception",
)
"""All hooks, in the order in which a training calls them."""


class Callback:
    """Base class of callbacks. All hooks do nothing: override those that you need. Each gets the live state.

    A hook may stop the training (`state.stop("why")`), change the learning rate (`state.set_learning_rate(1e-4)`), log
    (`state.log(name=value)`), and read the whole state. A method `on_epoch_end(self, epoch, logs)` gets the number of
    the epoch, counted from 0, and its record. Callbacks are called in the order of the list. The engine's own
    callbacks come first in hooks named on_..._start and last in all other hooks.

    >>> class StopAtLowLoss(Callback):
    ...     looks_at = frozenset()
    ...
    ...     def on_batch_end(self, state):
    ...         if state.loss < 0.01:
    ...             state.stop("the loss is low")
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, value in vars(cls).items():
            if name.startswith("on_") and name not in HOOKS and callable(value):
                near = [OTHER_HOOKS[name]] if name in OTHER_HOOKS else closest(name, list(HOOKS))
                hint = f"did you mean {near[0]}?" if near else f"the hooks are {', '.join(HOOKS)}."
                raise CallbackError(
                    f"a method of a callback that begins with on_ is a hook, but {cls.__name__}.{name} is none and "
                    f"would never be called; {hint}"
                )
        own = vars(cls).get("on_epoch_end")
        if inspect.isfunction(own) and takes_logs(own, own.__qualname__, bound=False):
            cls.on_epoch_end = given_logs(own)  # type: ignore[assignment, method-assign]

    engine: ClassVar[bool] = False
    """Whether it is one of the engine's own callbacks."""
    looks_at: ClassVar[frozenset[str] | None] = None
    """Tensors of a step that the hooks read: any of "gradients" and "outputs"; frozenset() for neither.

    A fully compiled step exposes neither, so it is used only if no callback reads them. None means unknown: then a
    callback with `on_batch_end` is assumed to read gradients."""

    reads_only: ClassVar[bool] = False
    """Whether `on_gradients` changes nothing and is needed only at the steps that `observes` names. Then steps can be
    fully compiled: the gradients of an observed step are computed once more for the callback."""

    def observes(self, state: TrainState) -> bool:  # noqa: ARG002
        """Whether `on_gradients` needs the gradients of the next step. Asked only if `reads_only` is true."""
        return True

    def on_fit_start(self, state: TrainState) -> None:
        """Before the first step, or before the first step after a resume."""

    def on_fit_end(self, state: TrainState) -> None:
        """After the last step, also when the training was stopped."""

    def on_epoch_start(self, state: TrainState) -> None:
        """Before the first step of an epoch."""

    def on_epoch_end(self, state: TrainState) -> None:
        """After the epoch's record has entered the history."""

    def on_batch_start(self, state: TrainState) -> None:
        """Before an optimizer step."""

    def on_gradients(self, state: TrainState) -> None:
        """Between backward and clipping. The parameters have the gradients of the step; `state.loss` is its loss."""

    def on_batch_end(self, state: TrainState) -> None:
        """After an optimizer step; `state.loss` and `state.gradient_norm` belong to it."""

    def on_validation_start(self, state: TrainState) -> None:
        """Before a validation."""

    def on_validation_end(self, state: TrainState) -> None:
        """After a validation; `state.validation` has its metrics. Not called if a signal interrupted the validation. A
        resumed run then repeats it, with the callback state from before `on_validation_start`."""

    def on_checkpoint_start(self, state: TrainState) -> None:
        """Before a checkpoint is written."""

    def on_checkpoint_end(self, state: TrainState) -> None:
        """After the snapshot for a checkpoint is complete; a thread writes the file."""

    def on_exception(self, state: TrainState) -> None:
        """When an error ends the training; `state.error` is that error."""

    def state_dict(self) -> dict[str, Any]:
        """The callback's state for a checkpoint: plain data with strings as keys."""
        return {}

    def load_state_dict(self, data: dict[str, Any]) -> None:
        """Restore what `state_dict` returned. A resumed run calls it."""


class CallbackSettings(Description):
    """Base class of callback settings; `build` returns the live callback."""

    family: ClassVar[str] = "callback"

    def build(self) -> Callback:
        """The live callback."""
        raise CallbackError(f"{self.kind} must override build()")


class CallbackList:
    """Calls the overridden hooks of several callbacks; an error is raised with the names of callback and hook."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = list(callbacks)
        self._by_hook = {hook: self._in_order(hook) for hook in HOOKS}

    def _in_order(self, hook: str) -> list[Callback]:
        """The callbacks that override a hook. The engine's own come first in on_..._start hooks and last in others."""
        found = [item for item in self.callbacks if getattr(type(item), hook) is not getattr(Callback, hook)]
        return sorted(found, key=lambda item: item.engine != hook.endswith("_start"))

    def has(self, hook: str) -> bool:
        """Whether a callback overrides the hook."""
        return bool(self._by_hook[hook])

    def look_at(self, what: str) -> bool:
        """Whether a callback declares "gradients" or "outputs" in `looks_at`."""
        return any(what in (item.looks_at or ()) for item in self.callbacks)

    def observers(self, state: TrainState) -> list[Callback]:
        """The callbacks that only read gradients, and those of the next step."""
        return [item for item in self._by_hook["on_gradients"] if item.reads_only and item.observes(state)]

    def __call__(self, hook: str, state: TrainState) -> None:
        """Call a hook of every callback that overrides it."""
        self.call(self._by_hook[hook], hook, state)

    def call(self, callbacks: Sequence[Callback], hook: str, state: TrainState) -> None:
        """Call a hook of some callbacks."""
        for callback in callbacks:
            try:
                getattr(callback, hook)(state)
            except Exception as error:
                self._raise(callback, hook, error)

    def remember(self, state: TrainState) -> Callable[[], None]:
        """Return a function that undoes every later change that hooks make to checkpointed state."""
        own: list[tuple[Callback, Any]] = []
        for callback in self.callbacks:
            with suppress(StorageError):  # state that is not plain data cannot be copied; a checkpoint will refuse it
                own.append((callback, to_plain(callback.state_dict())))
        events, factor = len(state.history.events), state.rate_factor

        def put_back() -> None:
            for callback, kept in own:
                callback.load_state_dict(from_plain(kept))
            del state.history.events[events:]
            state.rate_factor = factor

        return put_back

    def _raise(self, callback: Callback, hook: str, error: Exception) -> None:
        place = f"{type(callback).__name__}.{hook}"
        if hook == "on_exception":
            # The error of the training is raised next: it is more important, and all callbacks must see it.
            log.warning("%s raised %s: %s", place, type(error).__name__, error)
        elif isinstance(error, NeuroDivergentError):
            error.add_note(f"(raised in {place})")
            raise error
        else:
            raise CallbackError(f"{place} raised {type(error).__name__}: {error}") from error
