"""Gather a batch from (series, position) pairs: one strided row selection per block of columns.

Letters: B windows, L lookback, H horizon, T = L + H, S series, W width of a block of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.index import Ints
from neuro_divergent.data.windows.open_gaps import open_gaps
from neuro_divergent.data.windows.strided import Column, shared_tensor


class Gather:
    """Views over the columns of a store. They are made once, and every batch is selected from them.

    Args:
        store: the series.
        lookback: number of rows before the position.
        horizon: number of rows from the position on.
        shifts: [S] where each series starts on the shared grid if a window holds all series; None if it holds one.
        historical_categorical: categorical columns whose codes are hidden (0) in the horizon.
    """

    def __init__(
        self,
        store: SeriesStore,
        lookback: int,
        horizon: int,
        *,
        shifts: Ints | None = None,
        historical_categorical: Sequence[str] = (),
    ) -> None:
        self._lookback, self._horizon, self._parts = lookback, horizon, (lookback, horizon)
        self._channels = None if shifts is None else len(shifts)
        self._begin, self._end = torch.tensor(store.offsets[:-1]), torch.tensor(store.offsets[1:])
        self._grid_row = self._begin if shifts is None else self._begin - torch.from_numpy(shifts)
        span = lookback + horizon
        self._y = Column(store.y, span)
        self._mask = None if store.mask is None else Column(store.mask, span)
        self._fills = None if store.fills is None else Column(store.fills, lookback)
        self._gaps = open_gaps(store)
        self.future = None if store.future is None else Column(store.future, span)
        self._historical = None if store.historical is None else Column(store.historical, lookback)
        self._weight = None if store.weight is None else Column(store.weight, horizon)
        self.codes = None if store.categorical is None else Column(store.categorical, span)
        self._static = None if store.static is None else shared_tensor(store.static)
        fixed = store.static_categorical
        self._fixed_codes = None if fixed is None else torch.from_numpy(fixed.astype(np.int64))
        varying = list(store.categories)[: 0 if self.codes is None else self.codes.width]
        unknown = [name for name in historical_categorical if name not in varying]
        if unknown:
            raise ConfigError(f"historical_categorical names time-varying categorical columns, but got {unknown}")
        others = (self._mask, self.future, self._historical, self._weight, self.codes, self._static, self._fixed_codes)
        columns = [self._y, *(column for column in others if isinstance(column, Column))]
        self.window_bytes = sum(column.window_bytes for column in columns) * (self._channels or 1)
        """Bytes of one window in memory."""
        self._only_target = shifts is None and all(column is None for column in others)
        self.hidden = [varying.index(name) for name in historical_categorical]
        self.known_ahead = tuple(name for name in varying if name not in historical_categorical)

    def gatherer(self, *, clipped: bool, partial_targets: bool) -> Callable[[Tensor, Tensor, Tensor], Batch]:
        """Return `batch` with its options bound, or a faster function if the store has only a target."""
        if clipped or not self._only_target:
            return partial(self.batch, clipped=clipped, partial_targets=partial_targets)
        select, split, parts = self._y.windows.index_select, torch.unsafe_split_with_sizes, self._parts

        def batch(series: Tensor, time: Tensor, start: Tensor) -> Batch:
            y, target = split(select(0, start), parts, 1)
            # The same as Batch(...), without a Python function call in between.
            return tuple.__new__(Batch, (y, None, None, None, None, None, target, None, None, series, time))

        return batch

    def batch(self, series: Tensor, time: Tensor, start: Tensor, *, clipped: bool, partial_targets: bool) -> Batch:
        """Return the batch of the windows at the given positions.

        Args:
            series: [B] series number of each window; ignored if a window holds all series.
            time: [B] position of the first horizon step.
            start: [B] row of the first lookback step: in the store, or on the shared grid if a window holds all
                series.
            clipped: whether windows may reach outside of their series. Values there are 0 and masked.
            partial_targets: whether horizons may also reach outside.
        """
        owner, first = (series, start) if self._channels is None else self._on_grid(self._channels, start)
        keep = self._inside(owner, first) if clipped else None
        if self._fills is None:
            y, target = self._shaped(self._y, first, keep).split_with_sizes(self._parts, 1)
            mask, target_mask = self._masks(first, keep, partial_targets)
        else:
            y, target, mask, target_mask = self._filled(self._fills, first, keep)
        return Batch(
            y=y,
            mask=mask,
            future=None if self.future is None else self._block(self.future, "future_fills", first, keep),
            historical=self._past(first, keep),
            static=None if self._static is None else self._static_rows(owner, len(time)),
            categorical=self._categories(owner, first, keep),
            target=target,
            target_mask=target_mask,
            weight=self._weights(first, keep),
            series=series if self._channels is None else torch.arange(self._channels),
            time=time,
        )

    def _on_grid(self, channels: int, start: Tensor) -> tuple[Tensor, Tensor]:
        """The series of each row of a selection, and its first row in the store."""
        return torch.arange(channels).repeat(len(start)), (start[:, None] + self._grid_row).reshape(-1)

    def _inside(self, owner: Tensor, first: Tensor) -> Tensor:
        """[B, T] whether each row of a window belongs to the series of that window."""
        rows = torch.arange(self._lookback + self._horizon)
        low, high = self._begin[owner] - first, self._end[owner] - first
        return (rows >= low[:, None]) & (rows < high[:, None])

    def _masks(self, first: Tensor, keep: Tensor | None, partial_targets: bool) -> tuple[Tensor | None, Tensor | None]:
        if self._mask is not None:  # rows outside of the series are 0, which means "not observed"
            past, ahead = self._shaped(self._mask, first, keep).split_with_sizes(self._parts, 1)
            return past, ahead
        if keep is None:
            return None, None
        past, ahead = self._layout(keep[:, :, None]).split_with_sizes(self._parts, 1)
        return past, ahead if partial_targets else None

    def _filled(self, fills: Column, first: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Lookback and targets with their masks. The lookback is imputed from earlier rows only, targets never are."""
        assert self._mask is not None
        rows, seen = self._selected(self._y, first, keep), self._selected(self._mask, first, keep)
        shown = seen[:, : self._lookback] | (self._selected(fills, first, keep) > 0)
        for gaps in self._gaps.get("fills", {}).values():
            gaps.open(rows[:, :, 0], first, self._lookback, shown[:, :, 0], self._last_inside(keep))
        rows[:, self._lookback :].masked_fill_(~seen[:, self._lookback :], 0)
        y, target = self._layout(rows).split_with_sizes(self._parts, 1)
        return y, target, self._layout(shown), self._layout(seen)[:, self._lookback :]

    def _last_inside(self, keep: Tensor | None) -> Tensor | None:
        return None if keep is None else keep[:, self._lookback - 1]

    def _past(self, first: Tensor, keep: Tensor | None) -> Tensor | None:
        if self._historical is None:
            return None
        return self._block(self._historical, "historical_fills", first, keep)

    def _block(self, column: Column, fills: str, first: Tensor, keep: Tensor | None) -> Tensor:
        """Columns beside the target, imputed without later values: as of the origin, and step by step after it."""
        rows = self._selected(column, first, keep)
        for number, gaps in self._gaps.get(fills, {}).items():
            gaps.open(rows[:, :, number], first, self._lookback, None, self._last_inside(keep))
            if column.span > self._lookback:
                gaps.carry(rows[:, self._lookback :, number], first + self._lookback)
        if self._gaps and keep is not None:
            rows.masked_fill_(~keep[:, : column.span, None], 0)
        return self._layout(rows, block=True)

    def _weights(self, first: Tensor, keep: Tensor | None) -> Tensor | None:
        if self._weight is None:
            return None
        ahead = None if keep is None else keep[:, self._lookback :]
        return self._shaped(self._weight, first + self._lookback, ahead)

    def _static_rows(self, owner: Tensor, count: int) -> Tensor:
        assert self._static is not None
        if self._channels is not None:
            return self._static.expand(count, *self._static.shape)
        return self._static.index_select(0, owner)

    def _categories(self, owner: Tensor, first: Tensor, keep: Tensor | None) -> Tensor | None:
        parts: list[Tensor] = []
        if self.codes is not None:
            codes = self._shaped(self.codes, first, keep, block=True).to(torch.int64)
            if self.hidden:
                codes[:, self._lookback :, ..., self.hidden] = 0
            parts.append(codes)
        if self._fixed_codes is not None:
            fixed = self._fixed_codes.index_select(0, owner)
            shape = (-1, 1, fixed.shape[1]) if self._channels is None else (-1, 1, self._channels, fixed.shape[1])
            fixed = fixed.view(shape)
            parts.append(fixed.expand(-1, self._lookback + self._horizon, *fixed.shape[2:]))
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def _shaped(self, column: Column, first: Tensor, keep: Tensor | None, *, block: bool = False) -> Tensor:
        return self._layout(self._selected(column, first, keep), block=block)

    def _selected(self, column: Column, first: Tensor, keep: Tensor | None) -> Tensor:
        """[R, span, W] of a column whose span is the lookback or the whole window."""
        return column.select(first) if keep is None else column.select_clipped(first, keep[:, : column.span])

    def _layout(self, rows: Tensor, *, block: bool = False) -> Tensor:
        """[B, span, W]; with the series as channels [B, span, S], and for a block of columns [B, span, S, W]."""
        if self._channels is None:
            return rows
        apart = rows.view(-1, self._channels, *rows.shape[1:]).transpose(1, 2)
        return apart if block else apart.squeeze(3)


def as_tensors(series: Ints, time: Ints, start: Ints) -> tuple[Tensor, Tensor, Tensor]:
    """Series, time and start as the tensors that `Gather.batch` takes."""
    return torch.from_numpy(series), torch.from_numpy(time), torch.from_numpy(start)


def write_horizon(block: Tensor, given: npt.NDArray[Any], lookback: int, *, multivariate: bool) -> Tensor:
    """Write columns [n, H, W] into the horizon of a gathered block, and return the part that was written."""
    part = block[:, lookback:, ..., : given.shape[2]]
    values = torch.tensor(given).to(block.dtype)
    return part.copy_(values.transpose(0, 1)[None] if multivariate else values)
