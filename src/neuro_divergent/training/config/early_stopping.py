"""When a training ends before its last epoch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from neuro_divergent.core.config import Description
from neuro_divergent.metrics.base import canonical
from neuro_divergent.training.config import shorthands as short

Auto = Literal["auto"]
Count = Annotated[int, Field(ge=1)]


def monitored(name: str) -> str:
    """The column of the history that a name means; metrics may be in any case: validation_MAE is validation_mae."""
    side, _, metric = name.partition("_")
    return f"{side}_{canonical(metric)}" if side in ("train", "validation") else canonical(name)


class EarlyStopping(Description):
    """Stop when the monitored value has not improved for `patience` validations.

    With patience 3 the values 1.0, 0.8, 0.9, 0.9, 0.9 stop at the fifth.
    """

    patience: Count = 10
    """How many validations in a row may bring no improvement."""
    min_delta: Annotated[float, Field(ge=0.0)] = 1e-4
    """How much better than the best value a new value must be to count as an improvement."""
    monitor: Annotated[str, AfterValidator(monitored)] = "validation_loss"
    """A column of the history: validation_loss, train_loss, or a metric such as validation_mae (or "mae")."""
    mode: Literal["auto", "min", "max"] = "auto"
    """Whether smaller or larger is better; "auto" uses the metric's direction."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Validations at the start that do not count for the patience."""
    restore_best_weights: bool = True
    """Return the weights of the best validation instead of the last ones."""


StoppingField = Annotated[EarlyStopping | Auto | None, short.switch(EarlyStopping, lambda n: EarlyStopping(patience=n))]
GivenStopping = EarlyStopping | type[EarlyStopping] | Auto | int | None
