"""Short trainings of a copy of the network: the evidence that another rate or batch size would have served better.

Nothing of the run changes: each probe trains a copy, with its own random numbers.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.seeding import isolated
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.optim import Clipping, Optimizer, forget_gradients, set_rate
from neuro_divergent.training.step.reduction import weighted_mean

STEPS = 60
"""Steps of a probe."""
MOST_WINDOWS = 512
"""Windows of the sample on which losses are compared, and the largest batch of a probe."""


class Probes:
    """Trains copies of a module on the batches of a prepared run."""

    def __init__(self, run: Run) -> None:
        state = run.training.state
        self.task, self.config, self.source = run.training.task, state.config, state.source
        self.parts = sample_of(self.source)
        self.validation = [] if state.validation_source is None else sample_of(state.validation_source)

    def loss(self, module: ForecastModule, *, validation: bool = False) -> float:
        """The loss of a module on the sample."""
        return mean_loss(self.task, module, self.validation if validation else self.parts)

    def trained(
        self, module: ForecastModule, factor: float, *, size: int | None = None, steps: int = STEPS
    ) -> ForecastModule | None:
        """A copy after so many steps at `factor` times the base rate; None if it diverged."""
        twin = copy.deepcopy(module).train()
        for parameter, own in zip(twin.parameters(), module.parameters(), strict=True):
            parameter.requires_grad_(own.requires_grad)
        assert isinstance(self.config.optimizer, Optimizer)
        optimizer = self.config.optimizer.build(twin)
        set_rate(optimizer, factor)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        with isolated(self.config.seed, "probe"):
            for step in range(steps):
                if not self._step(twin, optimizer, parameters, self._batch(step, size)):
                    return None
        return twin.eval()

    def _batch(self, step: int, size: int | None) -> Batch:
        epoch, place = divmod(step, self.source.steps_per_epoch)
        batch = self.source.batch(epoch, place)
        if size is not None and size > batch.size:
            return self._joined(step, size, batch)
        return _cut(batch, min(size or MOST_WINDOWS, MOST_WINDOWS), step)

    def _joined(self, step: int, size: int, first: Batch) -> Batch:
        count = -(-size // max(1, first.size))
        numbers = range(step * count, step * count + count - 1)
        parts = [first, *(self.source.batch(*divmod(number, self.source.steps_per_epoch)) for number in numbers)]
        return joined(parts)

    def _step(
        self, module: ForecastModule, optimizer: torch.optim.Optimizer, parameters: list[Tensor], batch: Batch
    ) -> bool:
        forget_gradients(optimizer)
        values, weights = self.task(module, batch)
        loss = self.task.loss.finish(weighted_mean(values, weights))
        if not math.isfinite(loss.item()):
            return False
        loss.backward()  # type: ignore[no-untyped-call]
        if isinstance(self.config.gradient_clipping, Clipping):
            self.config.gradient_clipping.apply(parameters)
        optimizer.step()
        return True


def sample_of(source: Any) -> list[Batch]:
    """About MOST_WINDOWS windows of a source: of its first batches in their order, or spread over its large ones."""
    size = max(1, source.batch(0, 0).size)
    count = max(-(-MOST_WINDOWS // size), min(source.steps_per_epoch, 4))
    total = source.sampler.n if hasattr(source, "sampler") else size * source.steps_per_epoch
    count = min(count, -(-total // size))
    parts = [source.batch(*divmod(number, source.steps_per_epoch)) for number in range(count)]
    return [joined([_spread(part, max(1, MOST_WINDOWS // count)) for part in parts])]


def _spread(batch: Batch, most: int) -> Batch:
    """At most so many windows of a batch, at equal distances."""
    stride = -(-batch.size // most)
    whole = batch.series is not None and len(batch.series) != batch.size
    fields = [
        tensor if tensor is None or (whole and name == "series") else tensor[::stride]
        for name, tensor in zip(Batch._fields, batch, strict=True)
    ]
    return Batch(*fields)  # type: ignore[arg-type]  # y is never None


def _cut(batch: Batch, most: int, number: int) -> Batch:
    """At most so many windows of a batch; another part of it for each number."""
    if batch.size <= most:
        return batch
    first = (number * most) % (batch.size - most + 1)
    return batch.rows(first, first + most)


def joined(parts: Sequence[Batch]) -> Batch:
    """Several batches as one. A mask that only some of them have is all true in the others."""
    if len(parts) == 1:
        return parts[0]
    fields: dict[str, Tensor | None] = {}
    for name in Batch._fields:
        values = [getattr(part, name) for part in parts]
        known = next((value for value in values if value is not None), None)
        if known is None or len(known) != parts[[value is not None for value in values].index(True)].size:
            fields[name] = known  # absent, or the same for all windows: the channels of a multivariate batch
        else:
            filled = [
                known.new_ones((part.size, *known.shape[1:])) if value is None else value
                for part, value in zip(parts, values, strict=True)
            ]
            fields[name] = torch.cat(filled)
    return Batch(**fields)  # type: ignore[arg-type]  # y is never None


def mean_loss(task: Any, module: ForecastModule, parts: Sequence[Batch]) -> float:
    """The loss of a module in evaluation mode, over all windows."""
    if not parts:
        return float("nan")
    was = module.training
    module.eval()
    total = count = 0.0
    with torch.no_grad():
        for batch in parts:
            values, weights = task(module, batch)
            total += float(weighted_mean(values, weights)) * batch.size
            count += batch.size
        result = float(task.loss.finish(torch.tensor(total / count)))
    module.train(was)
    return result
