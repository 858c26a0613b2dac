"""Figures followed during training: sums that add up over batches and processes, and one number from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from neuro_divergent.core import registry
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.metrics.base import AnyMetric, check_finite, combined, own_metric, statistics


@dataclass(frozen=True)
class TrainingMetric:
    """A figure of a whole pass, from sums over its batches: `result(sum of sums(...))`.

    In `sums`, `output` is a point forecast of the target's shape or with a last dimension of 1; for accuracy also class
    logits [..., K], or one logit per target whose sign is the class. `weights` is 0 where a value does not count.
    """

    name: str
    statistics: Callable[[Tensor, Tensor], tuple[Tensor, ...]]
    """Per-value tensors from (forecast, target), whose weighted sums are kept."""
    combine: Callable[[Tensor], float]
    """One number from (sum of weights, weighted sums of the statistics)."""
    goal: Literal["min", "max"] = "min"
    """Whether less or more is better."""

    def sums(self, output: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
        """[k] float64 sums of one batch on the CPU; add them up over batches."""
        output, target = output.detach(), target.detach()
        forecast = _classes(output, target) if self.name == "accuracy" else _point(output, target)
        f, y = _wide(forecast), _wide(target)
        parts = self.statistics(f, y)
        weight = torch.ones_like(parts[0]) if weights is None else _wide(weights).expand_as(parts[0])
        check_finite(self.name, parts, y, f, weight > 0)
        counted = [torch.where(weight > 0, part * weight, 0.0).sum() for part in parts]
        return torch.stack([weight.sum(), *counted])

    def result(self, sums: Tensor) -> float:
        """The figure; NaN when nothing counted."""
        return self.combine(sums) if float(sums[0]) > 0 else float("nan")

    def __call__(self, output: Tensor, target: Tensor, weights: Tensor | None = None) -> float:
        """The figure of a single batch."""
        return self.result(self.sums(output, target, weights))


def training_metric(metric: AnyMetric) -> TrainingMetric:
    """The figure of that name, such as "mae" or a registered `Metric`; an unknown name is answered with the closest."""
    if isinstance(metric, str):
        known = {registry.normalise(name): figure for name, figure in _TRAINING.items()}.get(registry.normalise(metric))
        if known is not None:
            return known
        if registry.find("metric", metric) is None:
            raise registry.unknown("training metric", metric, [*_TRAINING, *registry.names("metric")])
    name, own = own_metric(metric)
    return TrainingMetric(name, lambda f, y: statistics(own, y, f), lambda sums: combined(own, sums), own.goal)


def _wide(tensor: Tensor) -> Tensor:
    return tensor.cpu().double()


def _point(output: Tensor, target: Tensor) -> Tensor:
    if output.shape == target.shape:
        return output
    if output.shape == (*target.shape, 1):
        return output[..., 0]
    raise ConfigError(
        f"a metric compares one forecast per target value, but got outputs of shape {tuple(output.shape)} for targets "
        f"of shape {tuple(target.shape)}. Pass the loss's point forecast"
    )


def _classes(output: Tensor, target: Tensor) -> Tensor:
    if output.shape[:-1] == target.shape and output.shape[-1] > 1:
        return output.argmax(dim=-1)
    point = _point(output, target)
    return (point > 0).long() if point.is_floating_point() else point


def _share(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / torch.where(whole > 0, whole, 1.0), 0.0)


def _mean(sums: Tensor) -> float:
    return float(sums[1] / sums[0])


def _percentage(sums: Tensor) -> float:
    return float(100 * sums[1] / sums[2]) if float(sums[2]) > 0 else float("nan")


def _explained(sums: Tensor) -> float:
    number, unexplained, total, squares = sums
    variation = float(squares - total * total / number)
    if variation <= 0:
        return 1.0 if float(unexplained) == 0 else 0.0
    return 1 - float(unexplained) / variation


_TRAINING = {
    metric.name: metric
    for metric in (
        TrainingMetric("mae", lambda f, y: ((f - y).abs(),), _mean),
        TrainingMetric("mse", lambda f, y: ((f - y).square(),), _mean),
        TrainingMetric("rmse", lambda f, y: ((f - y).square(),), lambda sums: _mean(sums) ** 0.5),
        TrainingMetric("bias", lambda f, y: (f - y,), lambda sums: _mean(sums)),
        TrainingMetric("bias_percent", lambda f, y: (f - y, y.abs()), _percentage),
        TrainingMetric("mape", lambda f, y: (_share((f - y).abs(), y.abs()), (y != 0).double()), _percentage),
        TrainingMetric("smape", lambda f, y: (200 * _share((f - y).abs(), y.abs() + f.abs()),), _mean),
        TrainingMetric("r2", lambda f, y: ((f - y).square(), y, y.square()), _explained, "max"),
        TrainingMetric("accuracy", lambda f, y: ((f == y).double(),), _mean, "max"),
    )
}
