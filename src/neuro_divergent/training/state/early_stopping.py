"""Early stopping as a pure function of the previous state and the newest validation."""

from __future__ import annotations

import math
from typing import NamedTuple

from neuro_divergent.training.config.training_config import EarlyStopping


class Patience(NamedTuple):
    """The state of early stopping between two validations."""

    best: float | None = None
    """Best value so far."""
    best_epoch: int | None = None
    """Epoch of the best value, counted from 1."""
    bad: int = 0
    """Validations in a row without an improvement."""
    seen: int = 0
    """Validations so far."""


def update(rule: EarlyStopping, patience: Patience, value: float, epoch: int) -> tuple[Patience, bool, bool]:
    """(new state, whether the value is the best so far, whether to stop) after one more validation."""
    sign = -1.0 if rule.mode == "max" else 1.0
    first = patience.best is None and not math.isnan(value)  # NaN is never the best value
    improved = first or (patience.best is not None and sign * value < sign * patience.best - rule.min_delta)
    seen = patience.seen + 1
    if improved:
        return Patience(value, epoch, 0, seen), True, False
    bad = patience.bad + 1 if seen > rule.warmup else 0
    return Patience(patience.best, patience.best_epoch, bad, seen), False, bad >= rule.patience
