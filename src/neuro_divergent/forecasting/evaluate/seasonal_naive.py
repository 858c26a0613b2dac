"""The seasonal naive forecast, with which every model is compared."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.time import seasonality
from neuro_divergent.forecasting.predict.historical import by_series


def season_of(store: SeriesStore, rows: npt.NDArray[np.int64] | None = None) -> int:
    """The season length of the naive forecast: the strongest season that the data confirms, else 1 (the last value).

    Only the first rows[s] rows of each series are used; None for all.
    """
    found = seasonality.detect(store.y, store.offsets, store.mask, store.freq, rows=rows)
    return found[0] if found else 1


def seasonal_naive(store: SeriesStore, h: int, season: int) -> npt.NDArray[np.float64]:
    """[series, h] the last season, repeated. A missing value is taken from the season before.

    A series shorter than a season repeats what it has. A series without an observed value gives NaN.
    """
    return naive_from(store, np.arange(len(store.ids)), store.lengths, h, season)


def naive_scales(
    store: SeriesStore, stop: npt.NDArray[np.int64], season: int, *, squared: bool
) -> npt.NDArray[np.float64]:
    """[S] mean absolute (or squared) error of the seasonal naive forecast inside the first stop[i] rows of each series.

    NaN for a series without two observed values a season apart. Series are computed in blocks.
    """
    result = np.full(len(stop), np.nan)
    for some in _blocks(stop):
        pairs = np.maximum(stop[some] - season, 0)
        own = np.repeat(np.arange(len(pairs)), pairs)
        later = np.arange(len(own)) - np.repeat(np.cumsum(pairs) - pairs, pairs) + season
        rows = store.offsets[:-1][some][own] + later
        error = np.asarray(store.y[rows], dtype=np.float64) - np.asarray(store.y[rows - season], dtype=np.float64)
        if store.mask is not None:
            seen = store.mask[rows] & store.mask[rows - season]
            own, error = own[seen], error[seen]
        total = np.bincount(own, np.square(error) if squared else np.abs(error), minlength=len(pairs))
        count = np.bincount(own, minlength=len(pairs))
        result[some] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return result


def _blocks(rows: npt.NDArray[np.int64], most: int = 1 << 21) -> list[slice]:
    """Blocks of series with about `most` rows each."""
    block = np.cumsum(rows) // most
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(rows)]
    return [slice(first, last) for first, last in pairwise(edges)]


def naive_from(
    store: SeriesStore, series: npt.NDArray[np.int64], time: npt.NDArray[np.int64], h: int, season: int
) -> npt.NDArray[np.float64]:
    """[N, h] the seasonal naive forecast of series[i] from its rows before time[i]."""
    period = np.clip(time, 1, season)
    rows = (time - period)[:, None] + np.arange(h) % period[:, None]
    first = store.offsets[:-1][series]
    if store.mask is not None:
        gaps = np.flatnonzero((time > 0) & ~store.mask[first[:, None] + rows].all(axis=1))
        for own in by_series(series[gaps]):
            some = gaps[own]
            begin = first[some[0]]
            seen = np.asarray(store.mask[begin : begin + time[some].max()])
            rows[some] = _observed(rows[some], seen, time[some], season)
    values = np.asarray(store.y[np.maximum(first[:, None] + rows, 0)], dtype=np.float64)
    return np.where(rows >= 0, values, np.nan)


def _observed(
    rows: npt.NDArray[np.int64], seen: npt.NDArray[np.bool_], time: npt.NDArray[np.int64], season: int
) -> npt.NDArray[np.int64]:
    """For rows [N, h] of one series, the newest observed rows that lie whole seasons before them; -1 if there is none.

    Only whole seasons before time[i] count. If none of them has a value, the last observed row before time[i] is used.
    One pass over the series finds the newest observed row of each seasonal position, for all origins together. A search
    per origin would scan the whole history for a position that is never observed (closed Sundays, nights).
    """
    number = np.where(seen, np.arange(len(seen)), -1)
    last = np.maximum.accumulate(number)[time - 1]
    padded = np.append(number, np.full(-len(number) % season, -1))
    found = np.maximum.accumulate(padded.reshape(-1, season), axis=0).reshape(-1)[rows]
    return np.where(found >= (time % np.minimum(time, season))[:, None], found, last[:, None])
