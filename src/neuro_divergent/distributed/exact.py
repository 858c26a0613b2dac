"""Steps whose bits do not depend on the number of processes.

Each batch is cut into a fixed number of shards of one size. Every shard is computed by itself, with its own draws. The
gradients of the shards are added in the order of a binary tree: a process adds its own subtree, then the processes add
the rest by pairs. So 1, 2, 4 or 8 processes add the same numbers in the same order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from neuro_divergent.core.batch import rows
from neuro_divergent.distributed.ranks import Ranks, effective_batch
from neuro_divergent.distributed.sources import cut
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step.reduction import finish_slope, weighted_sum


class Exact(Ranks):
    """Gradients as the sum over shards, in the order of a binary tree."""

    def shards(self, config: TrainingConfig) -> int:
        """The number of shards: that of the settings, or more if the batch is to be accumulated in more parts."""
        count = self.settings.shards
        while count < config.accumulate_gradients:
            count *= 2
        return count

    def gradients(self, task: Task, state: TrainState, batch: Any) -> float:
        """Compute the shards of this process, add the gradients of all, and return the loss."""
        config = state.config
        own = self.shards(config) // self.group.world
        size = self.given(state).shard_rows
        parts = [cut(batch, first, first + size) for first in range(0, rows(batch), size)]
        tree = _Tree()
        told = torch.zeros(2 * own + 1 + len(self._trained), dtype=torch.float64)
        told[2 * own] = float(bool(state.stopping))
        for number in range(own):
            self._forget()
            if number < len(parts):
                told[2 * number], told[2 * number + 1] = self._backward(
                    task, state, parts[number], self.group.rank * own + number
                )
            for index, parameter in enumerate(self._trained):
                told[2 * own + 1 + index] += parameter.grad is not None
            tree.add(self._flat(computed=number < len(parts)))
        everyone = self.group.gather(told)
        self._told = bool((everyone[:, 2 * own] > 0).any())
        sums, weights = (everyone[:, first : 2 * own : 2].reshape(-1) for first in (0, 1))
        loss, factor = self._finish(task, config, _tree_sum(sums), _tree_sum(weights))
        total = self.group.tree_sum(tree.total())
        self._give(total, factor, (everyone[:, 2 * own + 1 :] > 0).any(dim=0).tolist(), int((weights > 0).sum()))
        return loss

    def _backward(self, task: Task, state: TrainState, part: Any, shard: int) -> tuple[float, float]:
        """Backward of one shard; its sum of weighted values and of weights."""
        assert self._running is not None
        self._running.restore()
        self.seed(state, shard)
        with state.precision.autocast():
            values, weights = task(state.module, part)
        summed, weight = weighted_sum(values, weights)
        # A fixed divisor keeps half-precision gradients in range; it is the same for all shards.
        state.precision.scale(summed / effective_batch(state.config)).backward()  # type: ignore[no-untyped-call]
        return float(summed.detach()), weight

    def _finish(self, task: Task, config: TrainingConfig, total: float, count: float) -> tuple[float, float]:
        """The loss, and the factor from the summed gradients to the gradient of the loss."""
        count = max(count, 1e-12)
        finished, slope = finish_slope(task.loss, total / count)
        return finished, slope * effective_batch(config) / count

    def _forget(self) -> None:
        for parameter in self._trained:
            parameter.grad = None

    def _flat(self, *, computed: bool) -> Tensor:
        """One vector of all gradients, and of the running statistics after this shard."""
        assert self._running is not None
        pieces = [
            torch.zeros_like(parameter).reshape(-1) if parameter.grad is None else parameter.grad.reshape(-1)
            for parameter in self._trained
        ]
        statistics = [tensor for tensor in self._running.tensors if tensor.is_floating_point()]
        pieces += [(tensor if computed else torch.zeros_like(tensor)).reshape(-1) for tensor in statistics]
        return torch.cat(pieces)

    @torch.no_grad()
    def _give(self, total: Tensor, factor: float, used: list[bool], shards: int) -> None:
        """Put the summed gradients into the parameters. One that no shard used has none, as in one process."""
        first = 0
        size = sum(parameter.numel() for parameter in self._trained)
        total[:size] *= factor
        for parameter, has in zip(self._trained, used, strict=True):
            parameter.grad = total[first : first + parameter.numel()].view_as(parameter) if has else None
            first += parameter.numel()
        assert self._running is not None
        for tensor, kept in zip(self._running.tensors, self._running.kept, strict=True):
            if tensor.is_floating_point():
                tensor.copy_(total[first : first + tensor.numel()].view_as(tensor) / max(1, shards))
                first += tensor.numel()
            else:  # the number of batches
                tensor.copy_(kept + 1)


class _Tree:
    """Adds vectors that come one after the other in the order of a binary tree. It holds one vector per level."""

    def __init__(self) -> None:
        self._levels: list[tuple[int, Tensor]] = []

    def add(self, vector: Tensor) -> None:
        level = 0
        while self._levels and self._levels[-1][0] == level:
            vector = self._levels.pop()[1].add_(vector)
            level += 1
        self._levels.append((level, vector))

    def total(self) -> Tensor:
        """The sum of a power of two of vectors."""
        ((_, vector),) = self._levels
        return vector


def _tree_sum(values: Tensor) -> float:
    """The sum of a power of two of numbers, in the order of a binary tree."""
    while len(values) > 1:
        values = values[0::2] + values[1::2]
    return float(values[0])
