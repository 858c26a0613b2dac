"""Losses for classification: the target is a class number, the output has one logit per class (one for yes or no)."""

# ruff: noqa: ARG002  (every loss has the same signature, whatever its formula needs)

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.losses.base import Loss, check_shapes


class CrossEntropy(Loss):
    """-log softmax(logits)[class], for outputs [..., K] and int64 targets [...] from 0 to K - 1.

    With label smoothing s the target is 1 - s on its class plus s/K on each. With class weights each value is
    multiplied by the weight of its true class (the smoothed part by each class's own).
    """

    task: ClassVar[Literal["regression", "classification"]] = "classification"

    classes: int | None = Field(default=None, ge=2)
    """Number of classes; None takes the number of network outputs."""

    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of the probability that is spread over all classes."""

    class_weights: Takes[tuple[float, ...] | None, Sequence[float] | None] = default(None)
    """Importance of each class; equal when None."""

    @model_validator(mode="after")
    def _one_weight_per_class(self) -> Self:
        weights = self.class_weights
        if weights is not None and (min(weights, default=-1) < 0 or len(weights) != (self.classes or len(weights))):
            raise ConfigError(
                f"class_weights must be one number of at least 0 for each of {self.classes or 'the'} classes, "
                f"but got class_weights={weights}"
            )
        return self

    @property
    def outputs(self) -> int:
        """One logit per class; 0 if `classes` is None and the network decides."""
        return self.classes or len(self.class_weights or ())

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced cross entropies."""
        check_shapes(output, target, self.outputs or output.shape[-1])
        classes = self._checked(target, output.shape[-1])
        weights = None if self.class_weights is None else output.new_tensor(self.class_weights)
        flat = F.cross_entropy(
            output.reshape(-1, output.shape[-1]),
            classes.reshape(-1),
            weight=weights,
            reduction="none",
            label_smoothing=self.label_smoothing,
        )
        return flat.reshape(target.shape)

    def _checked(self, target: Tensor, classes: int) -> Tensor:
        if target.is_floating_point() or target.is_complex():
            raise DataError(f"classes must be whole numbers, but got targets of {target.dtype}. Use target.long()")
        if target.numel() and target.device.type == "cpu":  # on other devices this check would wait for the device
            low, high = (int(bound) for bound in torch.aminmax(target))
            if low < 0 or high >= classes:
                raise DataError(f"classes must be from 0 to {classes - 1}, but got targets from {low} to {high}")
        return target.long()

    def unscale(self, output: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Logits have no units."""
        return output

    def point(self, output: Tensor) -> Tensor:
        """The most probable class."""
        return output.argmax(dim=-1)

    def probabilities(self, output: Tensor) -> Tensor:
        """The probability of each class, [..., K]."""
        return torch.softmax(output, dim=-1)


class BinaryCrossEntropy(Loss):
    """Cross entropy of yes (1) and no (0) with one logit per target. It uses the logit directly and cannot overflow.

    With label smoothing s the target is y·(1 - s) + s/2.
    """

    task: ClassVar[Literal["regression", "classification"]] = "classification"

    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of the probability that is spread over both answers."""

    positive_weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Importance of the ones, relative to the zeros."""

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced binary cross entropies."""
        check_shapes(output, target)
        wanted = target.to(output.dtype).clamp(0, 1) * (1 - self.label_smoothing) + self.label_smoothing / 2
        weight = output.new_tensor(self.positive_weight)
        return F.binary_cross_entropy_with_logits(output[..., 0], wanted, pos_weight=weight, reduction="none")

    def unscale(self, output: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """A logit has no units."""
        return output

    def point(self, output: Tensor) -> Tensor:
        """1 where yes is the more probable answer, else 0."""
        return (output[..., 0] > 0).long()

    def probabilities(self, output: Tensor) -> Tensor:
        """The probability of yes, [...]."""
        return torch.sigmoid(output[..., 0])
