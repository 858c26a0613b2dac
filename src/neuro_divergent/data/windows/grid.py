"""The shared time grid of several series. The windows of a multivariate model are positions on this grid."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.index import Ints


def grid_shifts(store: SeriesStore) -> Ints:
    """[S] the position of each series' first row on the grid that starts with the earliest series."""
    start = store.start
    if len(start) == 0 or bool((start == start[0]).all()):
        return np.zeros(len(start), np.int64)
    shifts, on_grid = shifts_from_earliest(store)
    if not on_grid.all():
        earliest = int(np.argmin(start))
        odd = int(np.argmin(on_grid))
        raise DataError(
            f"the series of a multivariate model share one time grid of steps {store.freq!r}, but series "
            f"{str(store.ids[odd])!r} starts at {start[odd]}, between the steps of series "
            f"{str(store.ids[earliest])!r}, which starts at {start[earliest]}. "
            "Shift its time stamps, or use a univariate model."
        )
    return np.asarray(shifts, dtype=np.int64)


def shifts_from_earliest(store: SeriesStore) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """[S] how many steps after the earliest series each series starts, and whether its start is on that grid."""
    earliest = np.full(len(store.start), np.argmin(store.start))
    return store.rows_at(store.start, earliest)


def grid_range(first: Ints, last: Ints, lengths: Ints, shifts: Ints) -> tuple[Ints, Ints]:
    """First and last (excluded) position of the grid that lie inside the range of every series with a range.

    A range that begins or ends with its series restricts nothing on that side.
    """
    used = last > first
    low, high = used & (first > 0), used & (last < lengths)
    if not used.all() and not (low.any() or high.any()):
        raise ConfigError(
            "a multivariate model needs all series in every window, but the target range leaves "
            f"{int((~used).sum())} of them out. Split by time or by date instead of by series."
        )
    begin = np.max((first + shifts)[low], initial=0)
    end = np.min((last + shifts)[high], initial=int((lengths + shifts).max(initial=0)))
    return np.array([begin]), np.array([end])


def seen_on_grid(store: SeriesStore, shifts: Ints, length: int) -> Ints:
    """[length] how many series were observed at each position of the grid."""
    seen = np.zeros(length, np.int64)
    for shift, begin, end in zip(shifts, store.offsets, store.offsets[1:], strict=False):
        seen[shift : shift + end - begin] += 1 if store.mask is None else store.mask[begin:end]
    return seen
