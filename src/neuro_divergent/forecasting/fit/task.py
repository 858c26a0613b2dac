"""Forecasting as a task of the engine: batches of windows by number, unreduced losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.windows.augmentation import Augmentation
from neuro_divergent.data.windows.samplers import RowsOfBatches, Sampler
from neuro_divergent.data.windows.windows import Windows
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.losses import Loss
from neuro_divergent.metrics.base import Metric
from neuro_divergent.training.state.task import ScoredTask, epoch_steps, loss_sums


class WindowSource:
    """Batches of windows in the order of a sampler, on the run's device, augmented if configured."""

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
        self._gathered = windows.batches(sampler)
        self.device, self.dtype = device, dtype
        self.augmentation, self.seed = augmentation, seed
        self.steps_per_epoch = epoch_steps(sampler.steps_per_epoch, steps_per_epoch, sampler.batch_size, sampler.n)
        self._as_is = device.type == "cpu" and windows.store.y.dtype == np.dtype(str(dtype).split(".")[1])

    def part(self, first: int, count: int) -> WindowSource | None:
        """The source of the rows first : first + count of each batch; None if draws need the whole batch."""
        if self.augmentation is not None or first >= self.sampler.batch_size:
            return None
        sampler = RowsOfBatches(self.sampler, first, count)
        return WindowSource(self.windows, sampler, device=self.device, dtype=self.dtype) if sampler.n > 0 else None

    def batch(self, epoch: int, step: int) -> Batch:
        """The windows of one optimizer step."""
        batch = self._gathered(epoch, step)
        if self.augmentation is not None:
            batch = self.augmentation.apply(batch, self.seed, epoch * self.steps_per_epoch + step)
        return batch if self._as_is else batch.to(self.device, self.dtype)


class ForecastTask(ScoredTask):
    """Compares the outputs of a forecast module with the targets of the windows.

    Args:
        loss: the loss to minimise.
        validation_loss: the loss of the validation; None for the same.
        metrics: further metrics of the validation.
        horizon: how many steps of the horizon count now; None for all.
        names: the names of the series, by number.
        columns: names of the columns in the batch's fields, such as {"future": ("price",)}.
    """

    def __init__(
        self,
        loss: Loss,
        validation_loss: Loss | None = None,
        metrics: Sequence[str | Metric] = (),
        horizon: Callable[[], int] | None = None,
        names: Sequence[object] = (),
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(loss, validation_loss, metrics)
        self._horizon = horizon
        self._names = names
        self._columns = columns or {}

    def __call__(self, module: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Unreduced loss and weights of a batch of windows."""
        assert isinstance(module, ForecastModule)
        values = self.values(module, batch)
        weights = loss_weights(batch, self.loss)
        if self._horizon is not None and (shown := self._horizon()) < values.shape[1]:
            weights = torch.ones_like(values) if weights is None else weights.clone()
            weights[:, shown:] = 0.0
        return values, weights

    def values(self, module: ForecastModule, batch: Batch) -> Tensor:
        """[B, H, C] unreduced loss."""
        return module.loss_values(batch)

    def score(self, module: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sums of the validation loss, and sums of the metrics in original units."""
        assert isinstance(module, ForecastModule)
        assert batch.target is not None
        loss = self.validation_loss
        sums = {"loss": loss_sums(module.loss_values(batch, loss), loss_weights(batch, loss))}
        if not self.metrics:
            return sums
        return sums | self.metric_sums(module(batch), batch.target, target_weights(batch, loss))

    def split(self, batch: Batch, parts: int) -> list[Batch]:
        """Micro-batches of equal size; the last one may be smaller."""
        size = -(-batch.size // parts)
        return [batch.rows(first, min(first + size, batch.size)) for first in range(0, batch.size, size)]

    def blame(self, batch: Batch, values: Tensor | None) -> str:
        """A sentence that names the series and columns with values that are not finite."""
        words = []
        if values is not None and (names := self._bad_series(batch, values)):
            words.append(f"Series involved: {', '.join(names[:5])}{' and others' if len(names) > 5 else ''}.")
        for field in ("y", "target", "future", "historical", "static"):
            tensor = getattr(batch, field)
            if tensor is not None and not bool(torch.isfinite(tensor).all()):
                words.append(f"The column {self._bad_columns(field, tensor)} has values that are not finite.")
        return " ".join(words)

    def _bad_series(self, batch: Batch, values: Tensor) -> list[str]:
        """Names of the series whose values are not finite. Masked values do not count."""
        weights = loss_weights(batch, self.loss)
        bad = ~torch.isfinite(values) if weights is None else ~torch.isfinite(values) & (weights > 0)
        if batch.series is None or len(self._names) == 0:
            return []
        of_series = bad.any(dim=1).any(dim=0) if batch.y.shape[2] > 1 else bad.reshape(len(bad), -1).any(dim=1)
        numbers = batch.series[of_series.to(batch.series.device)].tolist()
        return list(dict.fromkeys(str(self._names[int(number)]) for number in numbers))

    def _bad_columns(self, field: str, tensor: Tensor) -> str:
        names = self._columns.get(field, ())
        if field in ("y", "target"):
            return repr(names[0]) if names else "of the target"
        bad = (~torch.isfinite(tensor)).reshape(-1, tensor.shape[-1]).any(dim=0).nonzero().flatten().tolist()
        return ", ".join(repr(names[number]) if number < len(names) else f"{field} {number}" for number in bad)


def refuse_classes(loss: Loss) -> None:
    """Refuse a loss for classes: forecasts are numbers."""
    if loss.task == "classification":
        raise ConfigError(
            f"a forecast is a number, but {loss.kind} is for classes. Use DistributionLoss(distribution='Bernoulli') "
            "for zeros and ones, or nd.Trainer on arrays"
        )


def target_weights(batch: Batch, loss: Loss) -> Tensor | None:
    """The weight of each target value: the mask times the weights of the loss; None if all are equal."""
    assert batch.target is not None
    importance = loss.importance(batch.target, batch)
    if importance is not None:
        importance = importance.expand_as(batch.target)
    if batch.target_mask is None:
        return importance
    mask = batch.target_mask.to(batch.y.dtype)
    return mask if importance is None else mask * importance


def loss_weights(batch: Batch, loss: Loss) -> Tensor | None:
    """The weights of a loss: `target_weights`, and 0 where the loss ignores a target."""
    assert batch.target is not None
    weights, counted = target_weights(batch, loss), loss.counted(batch.target)
    if counted is None:
        return weights
    return counted.to(batch.y.dtype) if weights is None else weights * counted
