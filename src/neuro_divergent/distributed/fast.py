"""Steps at full speed: DistributedDataParallel of torch adds the gradients while the backward pass computes them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from neuro_divergent.core.batch import rows
from neuro_divergent.distributed.ranks import Ranks, effective_batch, parts_of
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step.reduction import finish_slope, weighted_sum


class Fast(Ranks):
    """Gradients as the sum over processes, by torch's DistributedDataParallel."""

    never_empty = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._wrapped: DistributedDataParallel | None = None

    def gradients(self, task: Task, state: TrainState, batch: Any) -> float:
        """Backward on the rows of this process, with one exchange for all micro-batches; the loss of all rows."""
        try:
            return self._exchanged(task, state, batch)
        except RuntimeError as error:
            if is_lost_connection(error):
                raise self.group.lost("gradients", error) from error
            raise

    def _exchanged(self, task: Task, state: TrainState, batch: Any) -> float:
        self.seed(state, self.group.rank)
        empty = self.given(state).empty
        accumulate = state.config.accumulate_gradients
        parts = [batch] if accumulate == 1 else parts_of(task, batch, -(-rows(batch) // accumulate))
        divisor = effective_batch(state.config)
        told = torch.zeros(3, dtype=torch.float64)
        told[2] = float(bool(state.stopping))
        network = self._network(task, state, parts[0])
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            waits = network.no_sync() if isinstance(network, DistributedDataParallel) and not last else nullcontext()
            with waits:
                with state.precision.autocast():
                    summed, weight = network(part)
                if empty:
                    summed, weight = summed * 0.0, weight * 0.0
                told[0] += summed.detach().double().cpu()
                told[1] += weight.double().cpu()
                sent = self._send(told) if last else None
                state.precision.scale(summed / divisor).backward()  # type: ignore[no-untyped-call]
        if sent is not None:
            sent.wait()
        self._told = bool(told[2] > 0)
        count = max(float(told[1]), 1e-12)
        finished, slope = finish_slope(task.loss, float(told[0]) / count)
        # DistributedDataParallel divides by the number of processes.
        factor = slope * divisor * self.group.world / count
        found = [parameter.grad for parameter in self._trained if parameter.grad is not None]
        torch._foreach_mul_(found, factor)
        self._average_statistics()
        return finished

    def _send(self, told: Tensor) -> Any:
        return dist.all_reduce(told, async_op=True) if self.group.world > 1 else None

    def _network(self, task: Task, state: TrainState, part: Any) -> Callable[[Any], tuple[Tensor, Tensor]]:
        sums = _Sums(task, state.module)
        if self.group.world == 1:
            return sums
        if self._wrapped is None:
            unused = self._some_unused(sums, state, part)
            self._wrapped = DistributedDataParallel(
                sums, forward_sync_buffers=False, gradient_as_bucket_view=True, find_unused_parameters=unused
            )
        return self._wrapped

    def _some_unused(self, sums: _Sums, state: TrainState, part: Any) -> bool:
        """Whether the loss does not depend on some trained parameter, by one backward pass before the first step.

        DistributedDataParallel waits for the gradient of every parameter, unless it searches for unused ones in every
        step, which costs time.
        """
        assert self._running is not None
        with state.precision.autocast():
            summed, _ = sums(part)
        summed.backward()
        found = any(parameter.grad is None for parameter in self._trained)
        for parameter in self._trained:
            parameter.grad = None
        self._running.restore()
        self.seed(state, self.group.rank)
        return self.group.any(found)

    def _average_statistics(self) -> None:
        """Give the running statistics of batch norms the mean over the processes."""
        assert self._running is not None
        for tensor in self._running.tensors:
            if tensor.is_floating_point():
                self.group.sum(tensor).div_(self.group.world)


def is_lost_connection(error: RuntimeError) -> bool:
    """Whether an error of the backward pass means that another process is gone. Gloo has no class of its own for it."""
    return isinstance(error, dist.DistError) or "gloo" in str(error)


class _Sums(nn.Module):
    """Weighted sum and sum of the weights of a batch, as a module that DistributedDataParallel can wrap."""

    def __init__(self, task: Task, module: nn.Module) -> None:
        super().__init__()
        self.task, self.module = task, module

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        values, weights = self.task(self.module, batch)
        summed, weight = weighted_sum(values, weights)
        return summed, torch.tensor(weight)
