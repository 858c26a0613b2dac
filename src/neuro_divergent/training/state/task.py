"""The interface between engine and data: a task computes unreduced loss values, a source returns batches by number.

Forecasting windows (forecasting/fit/task.py) and plain arrays (arrays.py) are two tasks of the same engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from neuro_divergent.core.errors import Advice, ConfigError
from neuro_divergent.losses import Loss
from neuro_divergent.metrics.base import Metric, metric_name
from neuro_divergent.metrics.training import training_metric


class Task(Protocol):
    """Computes the loss values and the scores of a batch."""

    loss: Loss

    def __call__(self, module: nn.Module, batch: Any) -> tuple[Tensor, Tensor | None]:
        """Unreduced loss values, and their weights (None when all are equal)."""
        ...

    def score(self, module: nn.Module, batch: Any) -> dict[str, Tensor]:
        """For the validation: float64 sums of the loss ("loss") and of each metric, to be added over batches."""
        ...

    def result(self, name: str, sums: Tensor) -> float:
        """The loss or metric from its sums over a whole pass."""
        ...

    def split(self, batch: Any, parts: int) -> list[Any]:
        """The batch as a list of micro-batches, for gradient accumulation."""
        ...

    def blame(self, batch: Any, values: Tensor | None) -> str:
        """A sentence about the inputs of the batch that are not finite, or that made `values` so."""
        ...


class ScoredTask:
    """Base class of both tasks: losses, metrics, and their values from sums."""

    def __init__(self, loss: Loss, validation_loss: Loss | None = None, metrics: Sequence[str | Metric] = ()) -> None:
        self.loss = loss
        self.validation_loss = validation_loss or loss
        if not _same_outputs(self.validation_loss, loss):
            raise ConfigError(
                f"validation_loss must need the same network outputs as loss, but {self.validation_loss.kind} needs "
                f"{self.validation_loss.outputs} per step and {loss.kind} {loss.outputs}"
            )
        self.metrics = {metric_name(metric): training_metric(metric) for metric in metrics}
        if loss.task != "classification" and "accuracy" in self.metrics:
            raise ConfigError(f"the metric accuracy needs a classification loss, but got {loss.kind}. Use mae or rmse")

    def result(self, name: str, sums: Tensor) -> float:
        """The loss or metric from its sums over a whole pass."""
        if name != "loss":
            return self.metrics[name].result(sums)
        return float(self.validation_loss.finish(sums[1] / sums[0].clamp(min=1e-12)))

    def metric_sums(self, output: Tensor, target: Tensor, weights: Tensor | None) -> dict[str, Tensor]:
        """The sums of every metric for these network outputs."""
        if not self.metrics:
            return {}
        forecast = output if self.loss.task == "classification" else self.loss.point(output)
        return {name: metric.sums(forecast, target, weights) for name, metric in self.metrics.items()}


def _same_outputs(one: Loss, other: Loss) -> bool:
    """Whether two losses need the same outputs. A loss with 0 outputs takes any number of logits."""
    counts = {one.outputs, other.outputs}
    return len(counts) == 1 or (one.task == other.task and 0 in counts and 1 not in counts)


def loss_sums(values: Tensor, weights: Tensor | None) -> Tensor:
    """[2] the sum of the weights and the sum of the weighted values, in float64."""
    values = values.double()
    if weights is None:
        return torch.stack([values.new_tensor(float(values.numel())), values.sum()]).cpu()
    # A masked value may be NaN or infinite: it must not enter the sum, not even times zero.
    kept = torch.where(weights > 0, values, 0.0)
    return torch.stack([weights.double().sum(), (kept * weights).sum()]).cpu()


class Source(Protocol):
    """Batches as a pure function of (epoch, step), so that a resume needs no state of the source.

    Any object with these two members is a source for `nd.Trainer(...).fit(module, source)`, where a batch is (x, y) or
    (x, y, weight). It may have `identity()`, which returns plain data that must be equal for a resume.
    """

    steps_per_epoch: int
    """Optimizer steps of one epoch."""

    def batch(self, epoch: int, step: int) -> Any:
        """The batch of one optimizer step, both counted from 0; of a training's own sources on the run's device."""
        ...


def epoch_steps(steps: int, cap: int | None, batch_size: int, count: int) -> int:
    """The number of optimizer steps in an epoch; raises if it is 0."""
    if steps == 0:
        raise ConfigError(
            f"drop_last=True skips batches that are not full, but {count} windows or rows do not fill one batch of "
            f"{batch_size}. Lower batch_size or accumulate_gradients, or set drop_last=False",
            advice=[Advice("training.drop_last", False)],
        )
    return steps if cap is None else min(steps, cap)


def batches(source: Source, epoch: int, first: int, workers: int = 0) -> Iterator[Any]:
    """The batches of an epoch from step `first`; `workers` threads prepare them ahead."""
    if workers == 0:
        return (source.batch(epoch, step) for step in range(first, source.steps_per_epoch))
    from neuro_divergent.data.windows.prefetch import Prefetch

    return iter(Prefetch(lambda step: source.batch(epoch, step), range(first, source.steps_per_epoch), workers))
