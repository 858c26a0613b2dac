"""What the engine knows of the work: a task gives unreduced values and weights, a source gives batches by number.

Forecasting windows (forecasting/fit/task.py) and plain arrays (arrays.py) are two tasks on one engine.
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
    """How a batch becomes numbers to minimise."""

    loss: Loss

    def __call__(self, module: nn.Module, batch: Any) -> tuple[Tensor, Tensor | None]:
        """Unreduced loss values, and their weights (None when all count alike)."""
        ...

    def score(self, module: nn.Module, batch: Any) -> dict[str, Tensor]:
        """For the validation: float64 sums of the loss ("loss") and of each metric, to be added up over batches."""
        ...

    def result(self, name: str, sums: Tensor) -> float:
        """One figure from the sums of a whole pass."""
        ...

    def split(self, batch: Any, parts: int) -> list[Any]:
        """The batch in micro-batches, for accumulation."""
        ...

    def blame(self, batch: Any, values: Tensor | None) -> str:
        """In words: what of the batch is not finite, or made `values` so."""
        ...


class ScoredTask:
    """What both tasks share: the losses, the metrics, and how their sums become figures."""

    def __init__(self, loss: Loss, validation_loss: Loss | None = None, metrics: Sequence[str | Metric] = ()) -> None:
        self.loss = loss
        self.validation_loss = validation_loss or loss
        if not _same_outputs(self.validation_loss, loss):
            raise ConfigError(
                f"validation_loss must read the same outputs as loss, but {self.validation_loss.kind} reads "
                f"{self.validation_loss.outputs} per step and {loss.kind} {loss.outputs}"
            )
        self.metrics = {metric_name(metric): training_metric(metric) for metric in metrics}
        if loss.task != "classification" and "accuracy" in self.metrics:
            raise ConfigError(f"accuracy is for classification, but the loss is {loss.kind}. Use mae or rmse")

    def result(self, name: str, sums: Tensor) -> float:
        """One figure from the sums of a whole pass."""
        if name != "loss":
            return self.metrics[name].result(sums)
        return float(self.validation_loss.finish(sums[1] / sums[0].clamp(min=1e-12)))

    def metric_sums(self, output: Tensor, target: Tensor, weights: Tensor | None) -> dict[str, Tensor]:
        """The sums of every metric for the outputs of a network."""
        if not self.metrics:
            return {}
        forecast = output if self.loss.task == "classification" else self.loss.point(output)
        return {name: metric.sums(forecast, target, weights) for name, metric in self.metrics.items()}


def _same_outputs(one: Loss, other: Loss) -> bool:
    """Whether two losses read the same outputs; one of 0 reads a logit per class, as many as the network gives."""
    counts = {one.outputs, other.outputs}
    return len(counts) == 1 or (one.task == other.task and 0 in counts and 1 not in counts)


def loss_sums(values: Tensor, weights: Tensor | None) -> Tensor:
    """[2] the sum of the weights and of the weighted values, in float64."""
    values = values.double()
    if weights is None:
        return torch.stack([values.new_tensor(float(values.numel())), values.sum()]).cpu()
    # A masked value may be anything: it must not reach the sum, not even times zero.
    kept = torch.where(weights > 0, values, 0.0)
    return torch.stack([weights.double().sum(), (kept * weights).sum()]).cpu()


class Source(Protocol):
    """Batches as a pure function of (epoch, step): nothing has to be carried along to resume.

    Any object with these two members is a source of `nd.Trainer(...).fit(module, source)`, where a batch is (x, y) or
    (x, y, weight). It may have `identity()`, plain data that must be the same for a resume.
    """

    steps_per_epoch: int
    """Optimizer steps of one epoch."""

    def batch(self, epoch: int, step: int) -> Any:
        """The batch of one optimizer step, both counted from 0; of a training's own sources on the run's device."""
        ...


def epoch_steps(steps: int, cap: int | None, batch_size: int, count: int) -> int:
    """Optimizer steps of one epoch; an epoch without any would train nothing."""
    if steps == 0:
        raise ConfigError(
            f"drop_last=True leaves out batches that are not full, but a batch of {batch_size} is never full with "
            f"{count} windows or rows. Lower batch_size or accumulate_gradients, or say drop_last=False",
            advice=[Advice("training.drop_last", False)],
        )
    return steps if cap is None else min(steps, cap)


def batches(source: Source, epoch: int, first: int, workers: int = 0) -> Iterator[Any]:
    """The rest of an epoch from step `first`, prepared ahead by threads if asked."""
    if workers == 0:
        return (source.batch(epoch, step) for step in range(first, source.steps_per_epoch))
    from neuro_divergent.data.windows.prefetch import Prefetch

    return iter(Prefetch(lambda step: source.batch(epoch, step), range(first, source.steps_per_epoch), workers))
