"""Validations of many members at once, for tasks that can score the rows of several members apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task

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


class Known:
    """A validation whose sums are known: the source and the task of `validate` in one, which computes nothing."""

    steps_per_epoch = 1

    def __init__(self, task: Task, sums: Sums) -> None:
        self.task, self.sums, self.loss = task, sums, task.loss

    def __call__(self, module: nn.Module, batch: Any) -> tuple[Tensor, Tensor | None]:
        """Unreduced loss values, and their weights."""
        return self.task(module, batch)

    def batch(self, epoch: int, step: int) -> Any:  # noqa: ARG002
        """Nothing is needed."""
        return None

    def score(self, module: nn.Module, batch: Any) -> dict[str, Tensor]:  # noqa: ARG002
        """The known sums."""
        return dict(self.sums)

    def result(self, name: str, sums: Tensor) -> float:
        """One figure from the sums of a whole pass."""
        return self.task.result(name, sums)

    def split(self, batch: Any, parts: int) -> list[Any]:
        """The batch in micro-batches."""
        return self.task.split(batch, parts)

    def blame(self, batch: Any, values: Tensor | None) -> str:
        """In words: what of the batch is not finite."""
        return self.task.blame(batch, values)


class Still(nn.Module):
    """Stands for a module whose validation is known: it has no mode to switch, and its tensors were looked up once."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        # The live tensors themselves: whoever asks for a state copies it.
        self._tensors = (module.state_dict(keep_vars=True),)

    def state_dict(self, *_: Any, **__: Any) -> Any:
        """The module's parameters and buffers."""
        return self._tensors[0]


@contextmanager
def known_validation(task: Task, state: TrainState, still: Still, sums: Sums) -> Iterator[Task]:
    """While the context is open a validation of the state under this task gives these sums."""
    module, source = state.module, state.validation_source
    known = Known(task, sums)
    state.module, state.validation_source = still, known
    try:
        yield known
    finally:
        state.module, state.validation_source = module, source


def held_batches(states: Sequence[TrainState]) -> dict[int, Any]:
    """The validation batch of every member by the state's id; empty when it is not one for each, or too much."""
    sources = [state.validation_source for state in states]
    batches = {}
    for state, source in zip(states, sources, strict=True):
        if source is None or source.steps_per_epoch != 1:
            return {}
        batches[id(state)] = source.batch(0, 0)
    return batches if sum(len(batch[0]) for batch in batches.values()) <= MOST_ROWS else {}
