"""Gaps as they look from inside of a series: one that is not closed yet shows nothing of what comes after it.

A store is filled as it is known at the end of each series (data/store/fills.py). A window ends earlier: where its last
row lies in a gap, what was filled by looking ahead is replaced by the value before the gap.
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
    """The gaps of one column that were filled by looking ahead: a few numbers for each of them.

    Args:
        values: [N] the column, filled.
        seen: [N] what of it was observed.
        codes: [N] how the rest was filled.
        offsets: [S + 1] where its series begin and end.
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
        # A gap at the end of its series is never closed: it was filled without looking ahead.
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
        """Open the gaps again in which lookbacks end, in place.

        Args:
            values: [R, at least L] windows of the column.
            first: [R] the row of the store where each of them begins.
            lookback: L.
            shown: [R, L] which values a model may see: not those of a gap with nothing before it.
            inside: [R] whether the last row of the lookback belongs to the window's own series; None for all.
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
        """[R, H] values from the given rows on, in place: each with nothing of what comes after its own row."""
        rows = (first[:, None] + torch.arange(values.shape[1])).clamp_(0, len(self._ahead) - 1)
        gap, there = self._gap(rows)
        again = there & self._ahead[rows]
        values[again] = self._value[gap[again]]

    def _gap(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The gap of each row, and whether it lies in one."""
        gap = (torch.searchsorted(self._start, rows, right=True) - 1).clamp_(min=0)
        return gap, (rows >= self._start[gap]) & (rows < self._stop[gap])


def open_gaps(store: SeriesStore) -> dict[str, dict[int, OpenGaps]]:
    """For "fills", "future_fills" and "historical_fills", the gaps of each column that has some."""
    found: dict[str, dict[int, OpenGaps]] = {}
    for name, number, values, seen, codes in columns(store):
        gaps = OpenGaps(values, seen, codes, store.offsets) if bool((np.abs(codes) >= LOOKS_AHEAD).any()) else ()
        if gaps:
            found.setdefault(name, {})[number] = gaps
    return found
