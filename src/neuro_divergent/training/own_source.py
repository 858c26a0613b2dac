"""Batches from a source of the user's: an object with `steps_per_epoch` and `batch(epoch, step)`."""

from __future__ import annotations

from typing import Any

import torch

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.losses import Loss
from neuro_divergent.training.arrays import Rows, as_rows
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.task import Source


class PlacedSource:
    """The batches of a source, checked, on the run's device, in the run's number format."""

    def __init__(
        self,
        source: Source,
        loss: Loss,
        device: torch.device,
        dtype: torch.dtype,
        *,
        steps_per_epoch: int | None = None,
    ) -> None:
        self.source, self._placed = source, (loss, device, dtype)
        count = source.steps_per_epoch
        if not isinstance(count, int) or count < 1:
            raise ConfigError(f"steps_per_epoch of a source must be a whole number of at least 1, but got {count!r}")
        self.steps_per_epoch = count if steps_per_epoch is None else min(count, steps_per_epoch)

    def batch(self, epoch: int, step: int) -> Rows:
        """The rows of one optimizer step."""
        try:
            return as_rows(self.source.batch(epoch, step), *self._placed)
        except DataError as error:
            error.add_note(f"(in batch {step} of epoch {epoch} of {type(self.source).__name__})")
            raise


def is_source(data: Any) -> bool:
    """Whether data gives numbered batches; an object that has half of what a source needs is refused."""
    counted, gives = hasattr(data, "steps_per_epoch"), callable(getattr(data, "batch", None))
    if counted != gives:
        raise DataError(
            f"a source has steps_per_epoch and batch(epoch, step), but {type(data).__name__} has no "
            f"{'batch(epoch, step)' if counted else 'steps_per_epoch'}"
        )
    return counted


def check_own_source(config: TrainingConfig) -> None:
    """Refuse what a source decides by itself."""
    decided = {
        "batch_size": config.batch_size != "auto",
        "validation_split": config.validation_split not in (None, "auto"),
        "shuffle": not config.shuffle,
        "drop_last": config.drop_last,
    }
    found = [name for name, set_here in decided.items() if set_here]
    if found:
        raise ConfigError(
            f"a source decides by itself how rows become batches, but got {', '.join(found)}. Leave it out, and give "
            "validation=... for a validation"
        )


def source_identity(source: Any) -> dict[str, Any]:
    """What must be the same for a resume: the source's own `identity()` if it has one, else its class and length."""
    own = source.identity() if callable(getattr(source, "identity", None)) else {}
    return {"source": type(source).__qualname__, "steps_per_epoch": source.steps_per_epoch, **own}
