"""Base classes of neuralforecast's losses, and the columns of their forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from neuro_divergent import losses as ours
from neuro_divergent.compat.neuralforecast.losses.custom import ReducedLoss
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import Loss

Outputs = tuple[tuple[str, float | None], ...]
"""Suffixes of a forecast's columns, and the probability of each (None for the point)."""

POINT: Outputs = (("", None),)


class BasePointLoss(nn.Module):
    """Base class of losses; your own loss overrides `__call__`.

    Args:
        horizon_weight: the weight of each step ahead; None for equal weights.
        outputsize_multiplier: number of outputs of the network per step.
        output_names: suffixes of the forecast's columns.
    """

    def __new__(cls, *positional: Any, **named: Any) -> Self:
        """Note what the loss is made from: the file of a model has only that."""
        loss = super().__new__(cls)
        loss.__dict__["constructed_with"] = (positional, named)
        return loss

    def __init__(
        self,
        horizon_weight: Any = None,
        outputsize_multiplier: int | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if horizon_weight is not None:
            horizon_weight = torch.as_tensor(horizon_weight, dtype=torch.get_default_dtype()).flatten()
        self.horizon_weight: Tensor | None = horizon_weight
        self.outputsize_multiplier = outputsize_multiplier or 1
        self.output_names = list(output_names or [""])
        self.is_distribution_output = False

    def _compute_weights(self, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Weights of y's shape: the mask, times those of the steps ahead."""
        weights = torch.ones_like(y) if mask is None else mask.to(y.dtype)
        if self.horizon_weight is None:
            return weights
        if len(self.horizon_weight) != y.shape[1]:
            raise ConfigError(
                f"horizon_weight must have one weight per step, {y.shape[1]}, but got {len(self.horizon_weight)}"
            )
        steps: Tensor = self.horizon_weight.to(y).reshape(1, -1, *[1] * (y.ndim - 2))
        return weights * steps

    def describe(self) -> Loss:
        """Our loss for this object, which is called on whole batches."""
        return ReducedLoss(function=self, number_of_outputs=self.outputsize_multiplier)

    def outputs(self) -> Outputs:
        """The columns of a forecast."""
        return tuple((ending, None) for ending in self.output_names[:1])


class Described(BasePointLoss):
    """A loss with a counterpart here: `description` names it."""

    description: Loss

    def __init__(self, description: Loss, horizon_weight: Any = None) -> None:
        super().__init__(horizon_weight, description.outputs)
        self.description = description

    def __call__(
        self, y: Tensor, y_hat: Tensor, mask: Tensor | None = None, y_insample: Tensor | None = None
    ) -> Tensor:
        """The weighted mean of a batch: y [B, H, C], y_hat the same (with several outputs one more dimension)."""
        from neuro_divergent.core.batch import Batch

        output = y_hat.unsqueeze(-1) if self.description.outputs == 1 else y_hat.reshape(*y.shape, -1)
        context = None if y_insample is None else Batch(y_insample)
        weights = self._compute_weights(y, mask)
        values = self.description.values(output, y, context)
        return self.description.finish((values * weights).sum() / weights.sum().clamp(min=1e-12))

    def describe(self) -> Loss:
        """Our loss, weighted by step if needed; a subclass with its own formula is called instead."""
        if type(self).__call__ is not Described.__call__:
            return super().describe()
        if self.horizon_weight is None:
            return self.description
        return ours.Weighted(loss=self.description, by="horizon", weights=tuple(self.horizon_weight.tolist()))


def level_outputs(level: Sequence[float], *, median: bool = True) -> Outputs:
    """Columns of central intervals: the median, then the bounds in increasing order."""
    bounds = sorted(
        [((50 - item / 2) / 100, f"-lo-{item}") for item in level]
        + [((50 + item / 2) / 100, f"-hi-{item}") for item in level]
    )
    middle: Outputs = (("-median", 0.5),) if median else ()
    return middle + tuple((ending, round(share, 12)) for share, ending in bounds)


def quantile_outputs(quantiles: Sequence[float]) -> Outputs:
    """Columns of quantiles, named after the central interval that each bounds."""

    def ending(share: float) -> str:
        if abs(share - 0.5) < 1e-9:
            return "-median"
        side = "lo" if share < 0.5 else "hi"
        return f"-{side}-{round(abs(100 - 200 * share), 2)}"

    return tuple((ending(float(share)), float(share)) for share in quantiles)
