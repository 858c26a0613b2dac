"""Plain functions as callbacks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from neuro_divergent.core.config import Function, reference
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.training.callbacks.base import HOOKS, Callback, CallbackSettings

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

HookName = Literal[
    "on_fit_start", "on_fit_end", "on_epoch_start", "on_epoch_end", "on_batch_start", "on_gradients", "on_batch_end",
    "on_validation_start", "on_validation_end", "on_checkpoint_start", "on_checkpoint_end", "on_exception",
]  # fmt: skip


class CustomCallback(CallbackSettings):
    """A function of the user's that is called at one moment of the training.

    A function of one argument gets the live state, as a method of `Callback` does. A function of two arguments gets the
    number of the epoch, counted from 0, and the epoch's record: train_loss, validation_loss, metrics, learning_rate.
    `callbacks=[function]` is short for it; a function that has the name of a hook is called there, any other one at the
    end of every epoch.
    """

    function: Function
    """function(state), or function(epoch, logs) at the end of an epoch."""
    hook: HookName = "on_epoch_end"
    """When it is called: the name of a method of `Callback`."""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Self:
        """The callback of a plain function; its name may say when it is called."""
        name = getattr(function, "__name__", "")
        return cls(function=function, hook=name if name in HOOKS else "on_epoch_end")

    @model_validator(mode="after")
    def _can_be_called(self) -> Self:
        if self._takes_logs() and self.hook != "on_epoch_end":
            raise ConfigError(
                f"a callback of two arguments (epoch, logs) is called at the end of an epoch, but got "
                f"hook={self.hook!r}. Let {reference(self.function)} take the state alone"
            )
        return self

    def _takes_logs(self) -> bool:
        """Whether the function takes (epoch, logs) and not (state)."""
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):  # a function of C that says nothing of itself
            return False
        by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        needed = sum(one.default is one.empty for one in by_place)
        named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
        if needed > 2 or named:
            raise ConfigError(
                "a function as a callback takes (state) or (epoch, logs), but got "
                f"{reference(self.function)}{inspect.signature(self.function)}"
            )
        several = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        return needed == 2 or (needed == 0 and (several or len(by_place) > 1))

    def build(self) -> Callback:
        """The live callback, with the function as its only hook."""
        function, with_logs = self.function, self._takes_logs()

        def call(_: Callback, state: TrainState) -> None:
            if with_logs:
                function(state.epoch, dict(state.history.epochs[-1]))
            else:
                function(state)

        name = getattr(function, "__name__", type(function).__name__)
        live: Callback = type(name, (Callback,), {self.hook: call})()
        return live
