"""All windows of a store's column as one strided view. A batch is one row selection from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


class _Shared:
    """The memory of a read-only array, declared writable so that torch accepts it without a warning or a copy."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array
        self.__array_interface__ = dict(array.__array_interface__) | {"data": (array.ctypes.data, False)}


def shared_tensor(array: npt.NDArray[Any]) -> Tensor:
    """Return a tensor that shares the array's memory, also of a read-only memory map. Never write to it."""
    array = np.ascontiguousarray(array)
    if not array.flags.writeable and array.size:
        array = np.asarray(_Shared(array))
    return torch.from_numpy(array)


class Column:
    """All windows of `span` rows of an array [N] or [N, W], as a view of its memory."""

    def __init__(self, array: npt.NDArray[Any], span: int) -> None:
        tensor = shared_tensor(array)
        rows = int(tensor.shape[0])
        self.span = span
        self.width = 1 if tensor.ndim == 1 else int(tensor.shape[1])
        self._rows = tensor.view(rows, self.width)
        self.window_bytes = span * self.width * tensor.itemsize
        self._last = rows - span
        shape, stride = (max(self._last + 1, 0), span, self.width), (self.width, self.width, 1)
        self.windows = self._rows.as_strided(shape, stride) if self._last >= 0 else self._rows.new_empty(shape)
        """[N - span + 1, span, W] all windows."""

    def select(self, first: Tensor) -> Tensor:
        """[B, span, W] the windows with these first rows. All must lie inside the array."""
        return self.windows.index_select(0, first)

    def select_clipped(self, first: Tensor, keep: Tensor) -> Tensor:
        """Like `select`, for windows that reach outside of the array; 0 where `keep` [B, span] is false."""
        if self._last < 0:
            rows = self._picked(first)
        else:
            inside = first.clamp(0, self._last)
            rows = self.select(inside)
            far = torch.nonzero(first != inside).squeeze(1)
            if far.numel():
                rows[far] = self._picked(first[far])
        return rows.masked_fill_(~keep[:, :, None], 0)

    def _picked(self, first: Tensor) -> Tensor:
        return self._rows[(first[:, None] + torch.arange(self.span)).clamp_(0, len(self._rows) - 1)]
