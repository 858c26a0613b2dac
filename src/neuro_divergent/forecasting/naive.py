"""The seasonal naive forecast: what every model is shown beside."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuro_divergent.data import seasonality
from neuro_divergent.data.store import SeriesStore


def season_of(store: SeriesStore) -> int:
    """The season that a naive forecast repeats: the strongest one that the data confirms, else 1 (the last value)."""
    found = seasonality.detect(store.y, store.offsets, store.mask, store.freq)
    return found[0] if found else 1


def seasonal_naive(store: SeriesStore, h: int, season: int) -> npt.NDArray[np.float64]:
    """[series, h] the last season repeated; a value that is missing there is taken from the season before.

    A series shorter than a season repeats what it has; one without any observed value gives NaN.
    """
    forecast = np.full((len(store.ids), h), np.nan)
    for number in range(len(store.ids)):
        first, last = int(store.offsets[number]), int(store.offsets[number + 1])
        y = np.asarray(store.y[first:last], dtype=np.float64)
        seen = np.ones(len(y), dtype=bool) if store.mask is None else np.asarray(store.mask[first:last])
        forecast[number] = _repeat(y, seen, h, min(season, max(1, len(y))))
    return forecast


def _repeat(y: npt.NDArray[np.float64], seen: npt.NDArray[np.bool_], h: int, season: int) -> npt.NDArray[np.float64]:
    pattern = np.full(season, np.nan)
    for back in range(1, len(y) // season + 1):
        stop = len(y) - (back - 1) * season
        part = np.where(seen[stop - season : stop], y[stop - season : stop], np.nan)
        pattern = np.where(np.isnan(pattern), part, pattern)
        if not np.isnan(pattern).any():
            break
    if np.isnan(pattern).any() and seen.any():
        pattern = np.where(np.isnan(pattern), y[seen][-1], pattern)
    return np.resize(pattern, h)


def naive_from(
    store: SeriesStore, series: npt.NDArray[np.int64], time: npt.NDArray[np.int64], h: int, season: int
) -> npt.NDArray[np.float64]:
    """[N, h] the seasonal naive forecast of series[i] from its rows before time[i]."""
    forecast = np.full((len(series), h), np.nan)
    for row, (number, rows) in enumerate(zip(series.tolist(), time.tolist(), strict=True)):
        first = int(store.offsets[number])
        begin = first + max(0, rows - 10 * season)  # the newest seasons are enough to find a value for each place
        if store.mask is not None and begin > first:
            newest = np.asarray(store.mask[begin : first + rows]).reshape(10, season)
            begin = begin if bool(newest.any(axis=0).all()) else first  # but after a long outage they are not
        y = np.asarray(store.y[begin : first + rows], dtype=np.float64)
        seen = np.ones(len(y), dtype=bool) if store.mask is None else np.asarray(store.mask[begin : first + rows])
        if len(y):
            forecast[row] = _repeat(y, seen, h, min(season, len(y)))
    return forecast
