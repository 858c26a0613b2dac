"""The record of an epoch as callbacks of the form (epoch, logs) get it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import ConfigError

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState


class Logs(dict[str, float]):
    """The record of the epoch that has just ended, a dict, with what a callback can do about it.

    >>> logs = Logs({"epoch": 1, "train_loss": 0.5, "validation_mae": 2.0})
    >>> logs.get_metric("mae"), logs.get_metric("train_loss")
    (2.0, 0.5)
    """

    def __init__(self, record: dict[str, float], state: TrainState | None = None) -> None:
        super().__init__(record)
        self._state = state

    def get_metric(self, name: str) -> float:
        """A figure of the epoch: its full name, or that of a metric without "validation_" or "train_"; any case."""
        wanted = re.sub("^val_", "validation_", name.lower())
        for key in (wanted, f"validation_{wanted}", f"train_{wanted}"):
            if key in self:
                return self[key]
        raise ConfigError(
            f"the record of an epoch has {', '.join(self)}, but got {name!r}. A metric is there if it is named in "
            f"TrainingConfig(metrics=...)"
        )

    def set_learning_rate(self, rate: float) -> None:
        """Go on with this learning rate; see `TrainState.set_learning_rate`."""
        self._live().set_learning_rate(rate)

    def stop(self, why: str = "a callback stopped the training") -> None:
        """End the training; `history.stopped` says why."""
        self._live().stop(why)

    def _live(self) -> TrainState:
        assert self._state is not None, "this record belongs to no training"
        return self._state


def latest_logs(state: TrainState) -> Logs:
    """The record of the last epoch, with the training that it belongs to."""
    return Logs(state.history.epochs[-1], state)


def takes_logs(function: Callable[..., Any], name: str, *, bound: bool = True) -> bool:
    """Whether a function takes (epoch, logs) and not (state); a method that is not bound has `self` before them."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function of C that says nothing of itself
        return False
    parameters = list(signature.parameters.values())[0 if bound else 1 :]
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in by_place)
    named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if needed > 2 or named:
        raise ConfigError(f"a function as a callback takes (state) or (epoch, logs), but got {name}{signature}")
    several = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return needed == 2 or (needed == 0 and bound and (several or len(by_place) > 1))


def given_logs(method: Callable[[Any, int, Logs], None]) -> Callable[[Any, TrainState], None]:
    """The hook `on_epoch_end(self, state)` of a method `on_epoch_end(self, epoch, logs)`."""

    @functools.wraps(method)
    def hook(self: Any, state: TrainState) -> None:
        method(self, state.epoch, latest_logs(state))

    return hook
