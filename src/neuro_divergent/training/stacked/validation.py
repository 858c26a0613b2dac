"""Validations of many members at once, for tasks that can score the rows of several members apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task
from neuro_divergent.training.step.eager import Eager

MOST_ROWS = 1 << 15
"""Rows of all members together up to which validations are stacked, and kept from epoch to epoch: beyond, it is
arithmetic and not overhead that takes the time."""

Sums = Mapping[str, Tensor]
"""What `Task.score` gives."""


@runtime_checkable
class RowsTask(Protocol):
    """A task that knows how the rows of many members stand one after the other."""

    row_buffers: Sequence[str]
    """Names of buffers that may differ between members, because `spread_buffers` gives each row its own."""

    def spread_buffers(self, module: nn.Module, buffers: Mapping[str, Tensor], batch: Any) -> None:
        """Give the module buffers [M, ...] of its members, spread over the rows of the batch."""
        ...

    def score_rows(self, module: nn.Module, batch: Any, members: int) -> list[dict[str, Tensor]]:
        """For each member what `Task.score` gives for its share of the rows, which follow each other."""
        ...


class MemberSteps(Eager):
    """A member's own strategy at the end of an epoch: its validation may have been computed with the others'."""

    def __init__(self, sums: Sums | None) -> None:
        super().__init__()
        self._sums = sums

    def validate(self, task: Task, state: TrainState, source: Source) -> dict[str, float] | None:
        """The figures of the sums that are known, or those of a validation of its own."""
        if self._sums is None:
            return super().validate(task, state, source)
        return {f"validation_{name}": task.result(name, total) for name, total in self._sums.items()}


def validation_batches(states: Sequence[TrainState]) -> dict[int, Any]:
    """The validation batch of every member by the state's id; empty when it is not one for each, or too much."""
    sources = [state.validation_source for state in states]
    batches = {}
    for state, source in zip(states, sources, strict=True):
        if source is None or source.steps_per_epoch != 1:
            return {}
        batches[id(state)] = source.batch(0, 0)
    return batches if sum(len(batch[0]) for batch in batches.values()) <= MOST_ROWS else {}
