"""Plain functions as callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from neuro_divergent.core.config import Function, reference
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.training.callbacks.base import HOOKS, Callback, CallbackSettings
from neuro_divergent.training.callbacks.logs import latest_logs, takes_logs

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
    The record is a dict that can also `set_learning_rate(rate)` and `stop("why")`.
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
        return takes_logs(self.function, reference(self.function))

    def build(self) -> Callback:
        """The live callback, with the function as its only hook."""
        function, with_logs = self.function, self._takes_logs()

        def call(_: Callback, state: TrainState) -> None:
            if with_logs:
                function(state.epoch, latest_logs(state))
            else:
                function(state)

        name = getattr(function, "__name__", type(function).__name__)
        live: Callback = type(name, (Callback,), {self.hook: call})()
        return live
