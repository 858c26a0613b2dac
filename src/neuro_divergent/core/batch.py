"""The input of a network: a batch of windows (Batch), and the sizes that a network is built for (InputSpec).

Letters: B windows, L lookback, H horizon, C channels (1 for univariate models, the number of series for
multivariate ones), F, X, S, K numbers of future, historical, static and categorical columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """A batch of windows. A field that the data does not have is None."""

    y: Tensor
    """[B, L, C] the target in the lookback; 0 where nothing was observed."""
    mask: Tensor | None = None
    """[B, L, C] bool, true where `y` was observed; None if all values were."""
    future: Tensor | None = None
    """[B, L+H, F] ([B, L+H, C, F] when multivariate) columns known ahead."""
    historical: Tensor | None = None
    """[B, L, X] ([B, L, C, X] when multivariate) columns known only up to the forecast origin."""
    static: Tensor | None = None
    """[B, S] ([B, C, S] when multivariate) one value per series."""
    categorical: Tensor | None = None
    """[B, L+H, K] ([B, L+H, C, K] when multivariate) int64 codes, 0 for unknown. Historical columns have code 0 in the
    horizon."""
    target: Tensor | None = None
    """[B, H, C] the values to forecast; None when forecasting."""
    target_mask: Tensor | None = None
    """[B, H, C] bool, true where the target counts; None if all values count."""
    weight: Tensor | None = None
    """[B, H, C] sample weight of each target value; None if all weights are equal."""
    series: Tensor | None = None
    """[B] int64 numbers of the series in the store ([C], all series, when multivariate)."""
    time: Tensor | None = None
    """[B] int64 position, within its series (or on the shared grid), of the first step of the horizon."""

    @property
    def size(self) -> int:
        """Number of windows."""
        return self.y.shape[0]

    @property
    def _names_channels(self) -> bool:
        """Whether `series` has one number per channel, as in a multivariate batch, and not one per window."""
        several = self.y.dim() == 3 and self.y.shape[2] > 1
        return self.series is not None and (several or len(self.series) != self.size)

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> Batch:
        """Return the batch on another device.

        Args:
            device: the device.
            dtype: precision of the floating-point fields; None leaves it unchanged.
        """

        def move(tensor: Tensor | None) -> Tensor | None:
            if tensor is None:
                return None
            return tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None, non_blocking=True)

        return Batch(*(move(tensor) for tensor in self))  # type: ignore[arg-type]  # y is never None

    def rows(self, start: int, stop: int) -> Batch:
        """Return the windows start : stop, as views."""
        whole = ("series",) if self._names_channels else ()
        return Batch(
            *(
                tensor if tensor is None or name in whole else tensor[start:stop]
                for name, tensor in zip(self._fields, self, strict=True)
            )  # type: ignore[arg-type]  # y is never None
        )

    def cut(self, size: int) -> list[Batch]:
        """Return the windows as batches of `size` windows, as views. The last batch may be smaller."""
        if self.size <= size:
            return [self]
        sizes = cut_sizes(self.size, size)
        whole = self._names_channels
        parts = [
            [tensor] * len(sizes)
            if tensor is None or (whole and tensor is self.series)
            else tensor.split_with_sizes(sizes)
            for tensor in self
        ]
        return [Batch(*fields) for fields in zip(*parts, strict=True)]


def cut_sizes(count: int, size: int) -> list[int]:
    """Return the group sizes if `count` items are cut into groups of `size`. The last group may be smaller.

    >>> cut_sizes(10, 4)
    [4, 4, 2]
    """
    return [size] * (count // size) + [count % size] * (count % size > 0)


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """The input and output sizes of a network."""

    horizon: int
    """Number of steps to forecast."""
    lookback: int
    """Number of steps that the network reads."""
    series: int = 1
    """Number of series of the table. A multivariate network has one channel for each."""
    future: int = 0
    """Number of columns known ahead."""
    historical: int = 0
    """Number of columns known only up to the forecast origin."""
    static: int = 0
    """Number of columns with one value per series."""
    categories: tuple[int, ...] = ()
    """For each categorical column, the number of its codes, including 0 for unknown."""
    anchored: bool = False
    """Whether a naive forecast is added to the output outside the network."""
    lags: tuple[int, ...] = ()
    """Lags of the target, in steps, that the network reads beside each step. Each is at most the lookback."""
    outputs: int = 1
    """Number of outputs per horizon step: 1 for a point, several for quantiles or distribution parameters."""


def rows(batch: Any) -> int:
    """Return the number of rows of a batch of tensors; -1 for another type of batch."""
    found = next((item for item in batch if isinstance(item, Tensor)), None) if isinstance(batch, tuple) else None
    return -1 if found is None else found.shape[0]
