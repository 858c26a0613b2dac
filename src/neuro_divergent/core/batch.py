"""What flows from the data path into a network: one batch of windows, and the sizes that a network is built for.

Letters: B windows, L lookback, H horizon, C channels (1 for univariate models, the number of series for
multivariate ones), F, X, S, K numbers of future, historical, static and categorical columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """A batch of windows in fixed fields, exportable; a field that the data does not have is None."""

    y: Tensor
    """[B, L, C] the target's past; 0 where nothing was observed."""
    mask: Tensor | None = None
    """[B, L, C] bool, true where `y` was observed; None when everything was."""
    future: Tensor | None = None
    """[B, L+H, F] ([B, L+H, C, F] when multivariate) columns known ahead."""
    historical: Tensor | None = None
    """[B, L, X] ([B, L, C, X] when multivariate) columns known only up to now."""
    static: Tensor | None = None
    """[B, S] ([B, C, S] when multivariate) one value per series."""
    categorical: Tensor | None = None
    """[B, L+H, K] ([B, L+H, C, K]) int64 codes, 0 for unknown and for a historical column's horizon."""
    target: Tensor | None = None
    """[B, H, C] what is to be forecast; None when forecasting."""
    target_mask: Tensor | None = None
    """[B, H, C] bool, true where the target counts; None when all of it does."""
    weight: Tensor | None = None
    """[B, H, C] importance of each target value; None when equal."""
    series: Tensor | None = None
    """[B] (all of them, [C], when multivariate) int64 numbers of the series in the store."""
    time: Tensor | None = None
    """[B] int64 position, within its series (or on the shared grid), of the first step of the horizon."""

    @property
    def size(self) -> int:
        """How many windows."""
        return self.y.shape[0]

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> Batch:
        """The batch on another device; floating-point fields in another precision if asked."""

        def move(tensor: Tensor | None) -> Tensor | None:
            if tensor is None:
                return None
            return tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None, non_blocking=True)

        return Batch(*(move(tensor) for tensor in self))  # type: ignore[arg-type]  # y is never None

    def rows(self, start: int, stop: int) -> Batch:
        """Some of the windows, as views."""
        # In a multivariate batch `series` names the channels, not the windows.
        whole = ("series",) if self.series is not None and len(self.series) != self.size else ()
        return Batch(
            *(
                tensor if tensor is None or name in whole else tensor[start:stop]
                for name, tensor in zip(self._fields, self, strict=True)
            )  # type: ignore[arg-type]  # y is never None
        )

    def cut(self, size: int) -> list[Batch]:
        """The windows in batches of a size, the last one with what is left, as views."""
        if self.size <= size:
            return [self]
        sizes = cut_sizes(self.size, size)
        whole = self.series is not None and len(self.series) != self.size
        parts = [
            [tensor] * len(sizes)
            if tensor is None or (whole and tensor is self.series)
            else tensor.split_with_sizes(sizes)
            for tensor in self
        ]
        return [Batch(*fields) for fields in zip(*parts, strict=True)]


def cut_sizes(count: int, size: int) -> list[int]:
    """How many of `count` things are in each group of a size, the last one with what is left.

    >>> cut_sizes(10, 4)
    [4, 4, 2]
    """
    return [size] * (count // size) + [count % size] * (count % size > 0)


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """The sizes that a network is built for."""

    horizon: int
    lookback: int
    series: int = 1
    """How many series the table has; a multivariate network has one channel for each."""
    future: int = 0
    """Number of columns known ahead."""
    historical: int = 0
    """Number of columns known only up to now."""
    static: int = 0
    """Number of columns with one value per series."""
    categories: tuple[int, ...] = ()
    """For each categorical column, how many codes it has, the unknown one (0) included."""
    anchored: bool = False
    """Whether a naive forecast is added to the output outside the network."""
    outputs: int = 1
    """What the loss asks per step: 1 for a point, several for quantiles or distribution parameters."""


def rows(batch: Any) -> int:
    """How many rows a batch of tensors has; -1 for another kind of batch."""
    found = next((item for item in batch if isinstance(item, Tensor)), None) if isinstance(batch, tuple) else None
    return -1 if found is None else found.shape[0]
