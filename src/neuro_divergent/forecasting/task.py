"""Forecasting windows as a task of the engine: batches by number, losses unreduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.data.augmentation import Augmentation
from neuro_divergent.data.sampling import Sampler
from neuro_divergent.data.windows import Windows
from neuro_divergent.forecasting.module import ForecastModule
from neuro_divergent.losses import Loss
from neuro_divergent.training.task import ScoredTask, loss_sums


class WindowSource:
    """Batches of windows in the order of a sampler, on the run's device, augmented if asked."""

    def __init__(
        self,
        windows: Windows,
        sampler: Sampler,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        steps_per_epoch: int | None = None,
        augmentation: Augmentation | None = None,
        seed: int = 0,
    ) -> None:
        self.windows, self.sampler = windows, sampler
        self.device, self.dtype = device, dtype
        self.augmentation, self.seed = augmentation, seed
        steps = sampler.steps_per_epoch
        self.steps_per_epoch = steps if steps_per_epoch is None else min(steps, steps_per_epoch)
        self._as_is = device.type == "cpu" and windows.store.y.dtype == np.dtype(str(dtype).split(".")[1])

    def batch(self, epoch: int, step: int) -> Batch:
        """The windows of one optimizer step."""
        batch = self.windows.gather(self.sampler.numbers(epoch, step))
        if self.augmentation is not None:
            batch = self.augmentation.apply(batch, self.seed, epoch * self.steps_per_epoch + step)
        return batch if self._as_is else batch.to(self.device, self.dtype)


class ForecastTask(ScoredTask):
    """A forecast module against the windows' targets."""

    def __init__(
        self,
        loss: Loss,
        validation_loss: Loss | None = None,
        metrics: Sequence[str] = (),
        horizon: Callable[[], int] | None = None,
        names: Sequence[object] = (),
    ) -> None:
        super().__init__(loss, validation_loss, metrics)
        self._horizon = horizon
        self._names = names

    def __call__(self, module: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Unreduced loss and weights of a batch of windows."""
        assert isinstance(module, ForecastModule)
        values = module.loss_values(batch)
        weights = target_weights(batch, self.loss)
        if self._horizon is not None and (shown := self._horizon()) < values.shape[1]:
            weights = torch.ones_like(values) if weights is None else weights.clone()
            weights[:, shown:] = 0.0
        return values, weights

    def score(self, module: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sums of the validation loss, and of the metrics in original units."""
        assert isinstance(module, ForecastModule)
        assert batch.target is not None
        weights = target_weights(batch, self.validation_loss)
        sums = {"loss": loss_sums(module.loss_values(batch, self.validation_loss), weights)}
        return sums | (self.metric_sums(module(batch), batch.target, weights) if self.metrics else {})

    def split(self, batch: Batch, parts: int) -> list[Batch]:
        """Micro-batches of equal size, the last one smaller if it does not divide."""
        size = -(-batch.size // parts)
        return [batch.rows(first, min(first + size, batch.size)) for first in range(0, batch.size, size)]

    def blame(self, batch: Batch, values: Tensor | None) -> str:
        """The series and the columns involved."""
        words = []
        if values is not None and batch.series is not None and batch.y.shape[2] == 1:
            bad = (~torch.isfinite(values).reshape(values.shape[0], -1).all(dim=1)).nonzero().flatten()
            names = list(dict.fromkeys(str(self._names[int(batch.series[row])]) for row in bad.tolist()))
            if names:
                shown = ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
                words.append(f"Series involved: {shown}.")
        for field in ("y", "future", "historical", "static", "target"):
            tensor = getattr(batch, field)
            if tensor is not None and not bool(torch.isfinite(tensor).all()):
                words.append(f"The input {field!r} has values that are not finite.")
        return " ".join(words)


def target_weights(batch: Batch, loss: Loss) -> Tensor | None:
    """Importance of each target value: the mask, times what the loss says; None when all count alike."""
    assert batch.target is not None
    importance = loss.importance(batch.target, batch)
    if importance is not None:
        importance = importance.expand_as(batch.target)
    if batch.target_mask is None:
        return importance
    mask = batch.target_mask.to(batch.y.dtype)
    return mask if importance is None else mask * importance
