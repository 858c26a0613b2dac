"""Stacked validations, for tasks that can score the rows of each member separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task
from neuro_divergent.training.step.eager import Eager

MOST_ROWS = 1 << 15
"""Total rows of all members up to which validations are stacked, with batches reused in every epoch. Beyond it,
arithmetic takes the time and not overhead."""

Sums = Mapping[str, Tensor]
"""The result of `Task.score`."""


@runtime_checkable
class RowsTask(Protocol):
    """A task that can score a batch with the rows of several members, one member after the other."""

    row_buffers: Sequence[str]
    """Names of buffers that may differ between members, because `spread_buffers` expands them to each row."""

    def spread_buffers(self, module: nn.Module, buffers: Mapping[str, Tensor], batch: Any) -> None:
        """Set the module's buffers to those of its members, [M, ...], expanded to the rows of the batch."""
        ...

    def score_rows(self, module: nn.Module, batch: Any, members: int) -> list[dict[str, Tensor]]:
        """`Task.score` of each member for its rows of the batch, which are contiguous."""
        ...


class MemberSteps(Eager):
    """The strategy of one member at the end of an epoch, with its part of a stacked validation if there was one."""

    def __init__(self, sums: Sums | None) -> None:
        super().__init__()
        self._sums = sums

    def validate(self, task: Task, state: TrainState, source: Source) -> dict[str, float] | None:
        """Loss and metrics from the stacked sums, or from a validation of this member alone."""
        if self._sums is None:
            return super().validate(task, state, source)
        return {f"validation_{name}": task.result(name, total) for name, total in self._sums.items()}


def validation_batches(states: Sequence[TrainState]) -> dict[int, Any]:
    """The validation batch of every member by the id of its state; {} unless each has one batch of moderate size."""
    sources = [state.validation_source for state in states]
    batches = {}
    for state, source in zip(states, sources, strict=True):
        if source is None or source.steps_per_epoch != 1:
            return {}
        batches[id(state)] = source.batch(0, 0)
    return batches if sum(len(batch[0]) for batch in batches.values()) <= MOST_ROWS else {}
