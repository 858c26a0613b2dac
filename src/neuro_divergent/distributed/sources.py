"""The rows of each batch that one process computes."""

from __future__ import annotations

from typing import Any, Protocol, cast, runtime_checkable

from torch import Tensor

from neuro_divergent.core.batch import Batch, rows
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.training.state.task import Source


@runtime_checkable
class Divisible(Protocol):
    """A source that can gather a part of a batch without the rest."""

    def part(self, first: int, count: int) -> Source | None:
        """The source of `count` rows of each batch, from row `first`; None if it can only gather whole batches."""
        ...


class Part:
    """Rows first : first + count of each batch. The last batch of an epoch may have fewer there, or none."""

    def __init__(self, source: Source, first: int, count: int) -> None:
        self.first, self.count = first, count
        self.steps_per_epoch = source.steps_per_epoch
        self._whole = source
        self._own = source.part(first, count) if isinstance(source, Divisible) else None

    def batch(self, epoch: int, step: int) -> Any:
        """The rows of one step."""
        if self._own is not None:
            if step < self._own.steps_per_epoch:
                return self._own.batch(epoch, step)
            return cut(self._own.batch(epoch, 0), 0, 0)
        return cut(self._whole.batch(epoch, step), self.first, self.first + self.count)

    def identity(self) -> Any:
        """What the whole source is."""
        describe = getattr(self._whole, "identity", None)
        return None if describe is None else describe()


def cut(batch: Any, first: int, last: int) -> Any:
    """Some rows of a batch of windows or arrays."""
    if isinstance(batch, Batch):
        return batch.rows(min(first, batch.size), min(last, batch.size))
    if isinstance(batch, tuple) and rows(batch) >= 0:
        cut_parts = (_rows(item, first, last) for item in batch)
        return cast(Any, type(batch))(*cut_parts) if hasattr(batch, "_fields") else tuple(cut_parts)
    raise ConfigError(
        f"several processes divide a batch by rows, so it must be a tuple of tensors, but got {type(batch).__name__}"
    )


def _rows(item: Any, first: int, last: int) -> Any:
    if isinstance(item, Tensor):
        return item[first:last]
    if isinstance(item, dict):
        return {name: value[first:last] for name, value in item.items()}
    return item
