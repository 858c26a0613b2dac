"""Losses with the conventions of neuralforecast: one number for a batch, percentages as fractions."""

from __future__ import annotations

import inspect
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.config import Function
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import MAPE, SMAPE, Loss, check_shapes


class ReducedLoss(Loss):
    """function(y, y_hat, mask=..., y_insample=...) → the mean over a batch, repeated for every value.

    The mean over the repeated values is the same mean, with the same gradient. A file contains only the function's
    name.
    """

    function: Function
    """Called with tensors [B, H, C] in scaled units; several outputs per step are along the last axis."""
    number_of_outputs: int = Field(default=1, ge=1)
    """Number of outputs of the network per step."""

    @property
    def outputs(self) -> int:
        """Number of outputs of the network per step."""
        return self.number_of_outputs

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """The function's result, once for each target value."""
        check_shapes(output, target, self.number_of_outputs)
        mask = torch.ones_like(target)
        if context is not None and context.target_mask is not None:
            mask = context.target_mask.to(target.dtype)
        known = {"mask": mask, "y_insample": None if context is None else context.y}
        takes = inspect.signature(self.function).parameters
        answer = self.function(target, output.flatten(2), **{name: known[name] for name in known if name in takes})
        if not isinstance(answer, Tensor) or answer.numel() != 1:
            shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
            raise ConfigError(f"a loss must return one number for a batch (the mean over its values), but got {shape}")
        return answer.reshape(()).expand(target.shape)


class FractionMAPE(MAPE):
    """neuralforecast's MAPE: |e| / |y|, a fraction. A target of 0 counts with an error of 0."""

    size: ClassVar[float] = 1.0

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced errors as fractions of the target."""
        return super().values(output, target, context) / 100

    def counted(self, target: Tensor) -> None:  # type: ignore[override]  # noqa: ARG002
        """Everywhere."""
        return


class FractionSMAPE(SMAPE):
    """neuralforecast's SMAPE: 2·|e| / (|y| + |f|), a fraction from 0 to 2."""

    size: ClassVar[float] = 1.0

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced errors as fractions of the mean of target and forecast."""
        return super().values(output, target, context) / 100
