"""The forecasting task for a stack: one batch has the windows of several members, one member after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.forecasting.fit.task import ForecastTask, loss_weights, target_weights
from neuro_divergent.forecasting.network.module import ForecastModule


class RowsForecastTask(ForecastTask):
    """The forecasting task for a batch with the windows of several members, one member after the other."""

    row_buffers: ClassVar[tuple[str, ...]] = tuple(
        f"{field}_{part}" for field in ("future", "historical", "static") for part in ("mean", "scale")
    )

    def spread_buffers(self, module: nn.Module, buffers: Mapping[str, Tensor], batch: Batch) -> None:
        """Standardise each window by the column statistics of its own member."""
        for name, stacked in buffers.items():
            values = getattr(batch, name.rpartition("_")[0])
            if values is not None:
                own = stacked.repeat_interleave(len(values) // len(stacked), dim=0)
                own = own.view(len(values), *[1] * (values.ndim - 2), own.shape[1])
                module._buffers[name] = own

    def score_rows(self, module: nn.Module, batch: Batch, members: int) -> list[dict[str, Tensor]]:
        """For each member, the result of `score` for its windows."""
        assert isinstance(module, ForecastModule)
        assert batch.target is not None
        loss = self.validation_loss
        sums = _sums_of(module.loss_values(batch, loss), loss_weights(batch, loss), members)
        if not self.metrics:
            return sums
        weights = target_weights(batch, loss)
        parts = [None] * members if weights is None else weights.chunk(members)
        outputs, targets = module(batch).chunk(members), batch.target.chunk(members)
        found = zip(sums, outputs, targets, parts, strict=True)
        return [own | self.metric_sums(output, target, part) for own, output, target, part in found]


def _sums_of(values: Tensor, weights: Tensor | None, members: int) -> list[dict[str, Tensor]]:
    """For each member its `loss_sums`."""
    values = values.reshape(members, -1).double()
    if weights is None:
        counts = values.new_full((members,), float(values.shape[1]))
        return [{"loss": row} for row in torch.stack([counts, values.sum(dim=1)], dim=1).cpu()]
    weights = weights.reshape(members, -1).double()
    kept = torch.where(weights > 0, values, 0.0) * weights
    return [{"loss": row} for row in torch.stack([weights.sum(dim=1), kept.sum(dim=1)], dim=1).cpu()]
