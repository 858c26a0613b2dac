"""Batches for a training loop of one's own: over arrays, or over the windows of series."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.samplers import Sequential, Shuffled
from neuro_divergent.data.windows.windows import Windows


class DataLoader:
    """Batches of rows or of windows, in an order that seed and epoch decide.

    Over arrays it gives tuples of tensors, one for each array. Over a table, a store or `Windows` it gives `Batch`es
    with their targets. Each iteration is one epoch and draws the next order; `batches(epoch)` gives any of them again.

    >>> loader = DataLoader([[1.0], [2.0], [3.0]], [10, 20, 30], batch_size=2, shuffle=False)
    >>> [(x.flatten().tolist(), y.tolist()) for x, y in loader]
    [([1.0, 2.0], [10, 20]), ([3.0], [30])]

    Args:
        data: arrays with as many rows each (x, y, ...); or one table, store or `Windows`.
        batch_size: rows or windows per batch.
        shuffle: draw them in a random order; False keeps their own.
        seed: key of the order.
        drop_last: leave out the last, smaller batch of an epoch.
        lookback: for a table, the rows that a window shows.
        horizon: for a table, the rows that it is to forecast.
    """

    def __init__(
        self,
        *data: Any,
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int = 1,
        drop_last: bool = False,
        lookback: int | None = None,
        horizon: int | None = None,
    ) -> None:
        if not data:
            raise ConfigError("a DataLoader needs something to load: arrays, a table or Windows")
        self.windows = _windows(data, lookback, horizon)
        self._arrays = () if self.windows is not None else _tensors(data)
        count = len(self._arrays[0]) if self.windows is None else len(self.windows)
        kind = Shuffled if shuffle else Sequential
        self.sampler = kind(count, batch_size, seed=seed, drop_last=drop_last)
        self.epoch = 0
        """The epoch that the next iteration gives."""

    def __len__(self) -> int:
        return self.sampler.steps_per_epoch

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return self.batches(epoch)

    def batches(self, epoch: int = 0) -> Iterator[Any]:
        """The batches of one epoch: the same for the same seed and epoch."""
        if self.windows is not None:
            gathered = self.windows.batches(self.sampler)
            return (gathered(epoch, step) for step in range(len(self)))
        return (self._rows(self.sampler.numbers(epoch, step)) for step in range(len(self)))

    def _rows(self, numbers: Any) -> tuple[Tensor, ...]:
        chosen = torch.from_numpy(np.array(numbers))
        return tuple(array.index_select(0, chosen) for array in self._arrays)


def _windows(data: tuple[Any, ...], lookback: int | None, horizon: int | None) -> Windows | None:
    """The windows of a table or a store; None for arrays."""
    first = data[0]
    store = first if isinstance(first, SeriesStore) else getattr(first, "store", None)
    if isinstance(first, Windows):
        if (lookback, horizon) != (None, None):
            raise ConfigError("Windows have their sizes already. Leave lookback and horizon out")
        return first
    if not isinstance(store, SeriesStore):
        if (lookback, horizon) != (None, None):
            raise ConfigError(
                f"lookback and horizon cut windows from a TimeSeriesDataFrame, but got {type(first).__name__}. Read it "
                "with nd.TimeSeriesDataFrame.from_frame"
            )
        return None
    if lookback is None or horizon is None or len(data) > 1:
        raise ConfigError("windows of a table need their sizes: DataLoader(table, lookback=24, horizon=12)")
    return Windows(store, lookback=lookback, horizon=horizon)


def _tensors(data: tuple[Any, ...]) -> tuple[Tensor, ...]:
    found = []
    for part in data:
        array = part.to_numpy() if hasattr(part, "to_numpy") else part
        try:
            found.append(torch.as_tensor(np.array(array) if not isinstance(array, Tensor) else array))
        except (TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"a DataLoader loads arrays of numbers, but got {type(part).__name__}: {error}") from None
    counts = {len(array) if array.ndim else 0 for array in found}
    if len(counts) != 1 or counts == {0}:
        raise DataError(f"all arrays must have the same number of rows, at least one, but got {sorted(counts)}")
    return tuple(found)
