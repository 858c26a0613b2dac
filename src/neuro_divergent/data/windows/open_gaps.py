"""Imputed values without look-ahead: a window that ends inside a gap must not use the value after the gap.

A store is imputed with all rows of each series (data/store/fills.py). A window ends earlier. If its last row lies in
a gap, values that were imputed with the next observed value are replaced by the last value before the gap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuro_divergent.data.store.fills import LOOKS_AHEAD, columns
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.strided import shared_tensor


class OpenGaps:
    """The gaps of one column that were imputed with a later value; a few numbers per gap.

    Args:
        values: [N] the imputed column.
        seen: [N] which values were observed.
        codes: [N] how the other values were imputed.
        offsets: [S + 1] where the series begin and end.
    """

    def __init__(
        self,
        values: npt.NDArray[Any],
        seen: npt.NDArray[np.bool_],
        codes: npt.NDArray[np.int8],
        offsets: npt.NDArray[np.int64],
    ) -> None:
        first, last = np.concatenate(([True], seen[:-1])), np.concatenate((seen[1:], [True]))
        first[offsets[:-1]] = last[offsets[1:] - 1] = True
        start, stop = np.flatnonzero(~seen & first), np.flatnonzero(~seen & last) + 1
        ahead = np.abs(codes) >= LOOKS_AHEAD
        # A gap at the end of its series has no later value: it was imputed without look-ahead.
        kept = ~np.isin(stop, offsets)
        kept[kept] = np.logical_or.reduceat(ahead, start[kept]) if kept.any() else False
        start, stop = start[kept], stop[kept]
        known = ~np.isin(start, offsets)
        value = np.where(known, values[start - 1], 0).astype(values.dtype)
        self._start, self._stop, self._known, self._value = map(torch.from_numpy, (start, stop, known, value))
        self._ahead = shared_tensor(ahead)

    def __len__(self) -> int:
        return len(self._start)

    def open(self, values: Tensor, first: Tensor, lookback: int, shown: Tensor | None, inside: Tensor | None) -> None:
        """Remove later values, in place, from the gaps in which the lookback windows end.

        Args:
            values: [R, at least L] windows of the column.
            first: [R] the row of the store where each window begins.
            lookback: L.
            shown: [R, L] which values a model may see; set to false in a gap without a value before it.
            inside: [R] whether the last row of the lookback belongs to the series of the window; None for all.
        """
        gap, there = self._gap(first + (lookback - 1))
        which = torch.nonzero(there if inside is None else there & inside).squeeze(1)
        if not len(which):
            return
        gap, rows = gap[which], first[which, None] + torch.arange(lookback)
        again = (rows >= self._start[gap, None]) & self._ahead[rows.clamp(min=0)]
        values[which, :lookback] = torch.where(again, self._value[gap, None], values[which, :lookback])
        if shown is not None:
            shown[which] &= ~again | self._known[gap, None]

    def carry(self, values: Tensor, first: Tensor) -> None:
        """Remove later values, in place, from values [R, H] that begin at rows `first`: each step uses no later row."""
        rows = (first[:, None] + torch.arange(values.shape[1])).clamp_(0, len(self._ahead) - 1)
        gap, there = self._gap(rows)
        again = there & self._ahead[rows]
        values[again] = self._value[gap[again]]

    def _gap(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The last gap that begins at or before each row, and whether the row lies in that gap."""
        gap = (torch.searchsorted(self._start, rows, right=True) - 1).clamp_(min=0)
        return gap, (rows >= self._start[gap]) & (rows < self._stop[gap])


def open_gaps(store: SeriesStore) -> dict[str, dict[int, OpenGaps]]:
    """The gaps by field ("fills", "future_fills", "historical_fills") and column number; only columns with gaps."""
    found: dict[str, dict[int, OpenGaps]] = {}
    for name, number, values, seen, codes in columns(store):
        gaps = OpenGaps(values, seen, codes, store.offsets) if bool((np.abs(codes) >= LOOKS_AHEAD).any()) else ()
        if gaps:
            found.setdefault(name, {})[number] = gaps
    return found
