"""The seasonal naive forecast, against a loop that goes back one season after the other."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.forecasting.evaluate.seasonal_naive import naive_from, seasonal_naive


def store_of(seen):
    """Series whose values are 1, 2, 3, …, observed where `seen` says."""
    lengths = [len(row) for row in seen]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    mask = np.concatenate(seen).astype(bool)
    y = np.where(mask, np.arange(1, len(mask) + 1), 0).astype(np.float32)
    ids = np.array([f"s{number}" for number in range(len(seen))])
    start = np.zeros(len(seen), dtype=np.int64)
    return SeriesStore(ids=ids, offsets=offsets, y=y, start=start, freq="1i", mask=None if mask.all() else mask)


def by_loop(store, number, rows, h, season):
    """Row `rows` of a series is the first one forecast: the newest season, its gaps filled from the ones before."""
    if not rows:
        return np.full(h, np.nan)
    first = store.offsets[number]
    y = store.y[first : first + rows].astype(np.float64)
    seen = np.ones(rows, dtype=bool) if store.mask is None else store.mask[first : first + rows]
    season = min(season, rows)
    pattern = np.full(season, np.nan)
    for back in range(1, rows // season + 1):
        stop = rows - (back - 1) * season
        part = np.where(seen[stop - season : stop], y[stop - season : stop], np.nan)
        pattern = np.where(np.isnan(pattern), part, pattern)
    if seen.any():
        pattern = np.where(np.isnan(pattern), y[seen][-1], pattern)
    return np.resize(pattern, h)


@settings(max_examples=300, deadline=None)
@given(
    seen=st.lists(st.lists(st.booleans(), min_size=1, max_size=40), min_size=1, max_size=4),
    never=st.integers(0, 6),
    season=st.integers(1, 12),
    h=st.integers(1, 15),
    origins=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=12),
)
def test_every_origin_repeats_the_newest_value_of_each_place_in_the_season(seen, never, season, h, origins):
    """Some places are never observed; origins come in any order, some before a whole season or before any row."""
    seen = [[value and row % season != never for row, value in enumerate(rows)] for rows in seen]
    store = store_of(seen)
    series = np.array([number % len(seen) for number, _ in origins], dtype=np.int64)
    time = np.array([min(rows, len(seen[number % len(seen)])) for number, rows in origins], dtype=np.int64)
    found = naive_from(store, series, time, h, season)
    assert found.shape == (len(origins), h)
    for row, (number, rows) in enumerate(zip(series, time, strict=True)):
        np.testing.assert_array_equal(found[row], by_loop(store, number, rows, h, season))
    ends = [by_loop(store, number, len(rows), h, season) for number, rows in enumerate(seen)]
    np.testing.assert_array_equal(seasonal_naive(store, h, season), np.array(ends))


def test_a_week_with_closed_sundays_by_hand():
    """The values are 1 … 21; every seventh row is closed, and the last open one, 20, stands for it."""
    store = store_of([[row % 7 != 6 for row in range(21)]])
    assert seasonal_naive(store, 8, 7)[0].tolist() == [15, 16, 17, 18, 19, 20, 20, 15]
