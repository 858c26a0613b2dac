"""The default training of each family of models."""

from __future__ import annotations

from typing import Literal

from neuro_divergent.losses import MAE
from neuro_divergent.optim import AdamW, ClipByNorm, CosineAnnealing, OneCycle, Schedule, WarmupCosine
from neuro_divergent.training.config.training_config import PLAIN_DEFAULTS, EarlyStopping, TrainingConfig

ModelFamily = Literal["mlp", "recurrent", "convolutional", "transformer", "other"]


def batch_size_for(windows: int) -> int:
    """A power of two, from 32 for small data to 1024 for large data: about a hundred steps per epoch.

    >>> batch_size_for(100), batch_size_for(20_000), batch_size_for(10_000_000)
    (32, 256, 1024)
    """
    size = 32
    while size < 1024 and size * 2 * 64 <= windows:
        size *= 2
    return size


def schedule_for(family: ModelFamily) -> Schedule:
    """The family's learning-rate schedule; docs/training.md has the measurements behind it."""
    if family == "mlp":
        return CosineAnnealing()
    return WarmupCosine(warmup=0.1, min_lr=1e-6)


def one_cycle_recipe(family: ModelFamily, windows: int, *, peak: float, steps: int) -> TrainingConfig:
    """The recipe of a family; on large tables one cycle of fewer steps at a higher rate.

    Large are tables with so many windows that the family's recipe would have more steps: the cycle was chosen on such
    tables only (docs/benchmarks/recipes.md).

    Args:
        family: of the model.
        windows: number of windows of the training rows.
        peak: the highest learning rate of the cycle.
        steps: about the maximum number of optimizer steps of the cycle.
    """
    if windows // 10 <= steps:
        return recipe_for(family, windows)
    optimizer = AdamW(learning_rate=peak, weight_decay=0.01)
    return recipe_for(family, windows, steps=steps).replace(optimizer=optimizer, schedule=OneCycle())


def recipe_for(family: ModelFamily, windows: int, *, steps: int | None = None) -> TrainingConfig:
    """The recommended training of a family for this many windows.

    Args:
        family: of the model.
        windows: number of windows of the training rows.
        steps: about the maximum number of optimizer steps; None for that of the family.
    """
    batch = min(MAX_BATCH, batch_size_for(windows))
    target = max(TARGET_STEPS[0], min(TARGET_STEPS[1], windows // 10))
    target = steps or FIXED_STEPS.get(family, target)
    per_epoch = max(1, min(STEPS_PER_EPOCH, -(-windows // batch)))  # a table without windows is refused later
    epochs = max(5, min(MAX_EPOCHS[family], -(-target // per_epoch)))
    return TrainingConfig(
        max_epochs=epochs,
        steps_per_epoch=STEPS_PER_EPOCH,
        batch_size=batch,
        validation_split=PLAIN_DEFAULTS["validation_split"],
        loss=MAE(),
        optimizer=AdamW(learning_rate=RATES.get(family, 1e-3), weight_decay=0.01),
        schedule=schedule_for(family),
        gradient_clipping=ClipByNorm(max_norm=1.0),
        refit=None if family == "recurrent" and windows < LEAST_TO_REFIT else "fine_tune",
        early_stopping=EarlyStopping(patience=10, warmup=-(-UNJUDGED_STEPS.get(family, 0) // per_epoch)),
    )


RATES: dict[ModelFamily, float] = {"transformer": 1e-4, "recurrent": 3e-3, "convolutional": 3e-3}
"""Learning rates other than 1e-3."""

MAX_BATCH = 64
"""Maximum number of windows per batch: small steps were as good as large ones, and cheaper."""

UNJUDGED_STEPS: dict[ModelFamily, int] = {"recurrent": 200, "convolutional": 200}
"""About how many steps pass before early stopping counts. These networks improve slowly at first. An epoch of a short
series has few steps, so ten epochs without improvement mean nothing yet."""

STEPS_PER_EPOCH = 100
"""On large panels an epoch ends after this many steps, so that validation and early stopping run often enough."""

LEAST_TO_REFIT = 1000
"""Recurrent networks are not fine-tuned on all rows of smaller tables. On the airline passengers, one and two years
before the last one, that made them worse: an LSTM 25 instead of 17 and 51 instead of 48, means of three seeds."""

TARGET_STEPS = (500, 2000)
"""About the maximum number of optimizer steps of a recipe, for small and for large data. Early stopping may end it
before."""

FIXED_STEPS: dict[ModelFamily, int] = {"recurrent": 1000}
"""The same for families whose number of steps does not depend on the size of the data."""

MAX_EPOCHS: dict[ModelFamily, int] = {
    "mlp": 200,
    "recurrent": 200,
    "convolutional": 100,
    "transformer": 100,
    "other": 100,
}
