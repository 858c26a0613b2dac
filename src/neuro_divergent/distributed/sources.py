"""The rows of each batch that one process computes."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

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


class Shards(NamedTuple):
    """The shards of each batch that one process computes: `own` of `total` from number `first`."""

    first: int
    own: int
    total: int


class Given(NamedTuple):
    """What a process got of a batch."""

    shard_rows: int
    """Rows of a full shard."""
    empty: bool
    """Whether none of the rows are its own."""


class Part:
    """The rows of some shards of each batch. The last batch of an epoch may have fewer there, or none.

    Args:
        source: the whole batches.
        shards: which shards are those of this process.
        size: rows of a full batch. A source that cannot be divided may have other batches: each is divided evenly.
        never_empty: where there are none, give one row that counts nothing, for a process that must take part.
    """

    def __init__(self, source: Source, shards: Shards, size: int, *, never_empty: bool = False) -> None:
        self.steps_per_epoch = source.steps_per_epoch
        self._whole, self._shards, self._size = source, shards, size
        self._never_empty = never_empty
        self._given: dict[tuple[int, int], Given] = {}
        self._divisible = isinstance(source, Divisible)
        first, last = self._rows(size)
        self._own = source.part(first, last - first) if isinstance(source, Divisible) else None

    def batch(self, epoch: int, step: int) -> Any:
        """The rows of one step."""
        if self._own is not None and step < self._own.steps_per_epoch:
            return self._own.batch(epoch, step)
        if self._own is not None and not self._never_empty:
            return cut(self._own.batch(epoch, 0), 0, 0)
        batch = self._whole.batch(epoch, step)
        size = self._size if self._divisible else rows(batch)
        found = cut(batch, *self._rows(size))
        empty = rows(found) == 0
        self._given[epoch, step] = Given(-(-size // self._shards.total), empty)
        return cut(batch, 0, 1) if empty and self._never_empty else found

    def given(self, epoch: int, step: int) -> Given:
        """What was given for a step; asked once, after its batch."""
        return self._given.pop((epoch, step), Given(-(-self._size // self._shards.total), empty=False))

    def _rows(self, size: int) -> tuple[int, int]:
        each = -(-size // self._shards.total)
        return self._shards.first * each, (self._shards.first + self._shards.own) * each

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
