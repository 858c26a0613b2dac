"""Training and validation as row ranges of each series, for `Windows(target_range=...)`.

A window belongs to the side that contains its whole horizon; its lookback may reach across the cut. No training window
contains a row at or after the cut. If each series is cut separately, a series that is too short for both sides is
used for training only, and is counted in `too_short`. A cut at one date is the same for all series: a series that ends
before it has no validation rows, and a series that begins after it has no training rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.core.seeding import numpy_generator
from neuro_divergent.data.store.store import SeriesStore

Ints = npt.NDArray[np.int64]
RowRange = tuple[Ints, Ints]


@dataclass(frozen=True, kw_only=True)
class Split:
    """The rows in which the horizons of training and validation windows may lie. Unpacks as (train, validation)."""

    train: RowRange
    """First [S] and last [S] (excluded) row of the training side."""
    validation: RowRange
    """First [S] and last [S] (excluded) row of the validation side; empty for series used for training only."""
    too_short: int = 0
    """Number of series that are too short for both sides."""

    def __iter__(self) -> Any:
        return iter((self.train, self.validation))


def split_by_time(store: SeriesStore, share: float, horizon: int, *, lookback: int = 1) -> Split:
    """Hold out the last share of each series' rows for validation, at least one horizon.

    Args:
        store: the series.
        share: share of the rows to hold out, in (0, 1).
        horizon: horizon of the windows.
        lookback: number of rows that a training window needs before its horizon.
    """
    _check_share(share)
    # The product may lie a little above a whole number in floating point; rounding up must not hold out a row more.
    last = np.ceil(store.lengths * share - 1e-9).astype(np.int64)
    return _cut(store, store.lengths - np.maximum(last, horizon), horizon, lookback)


def split_at_cutoff(store: SeriesStore, share: float, horizon: int, *, lookback: int = 1) -> Split:
    """Hold out all rows from the common cutoff on. The arguments are those of `split_by_time`.

    If no series has a training window before the cutoff, nothing is held out.
    """
    lengths = store.lengths
    cut = rows_before(store, common_cutoff(store, share, horizon))
    if not bool((cut >= lookback + horizon).any()):
        cut = lengths
    late = int(((cut < lookback + horizon) & (cut < lengths)).sum())
    return Split(train=(np.zeros_like(lengths), cut), validation=(cut, lengths), too_short=late)


def common_cutoff(store: SeriesStore, share: float, horizon: int) -> Any:
    """Return the latest time with at least a share of all rows, and one horizon of the newest series, at or after it.

    If all series have the same time stamps, these are the rows that `split_by_time` holds out.
    """
    _check_share(share)
    lengths = store.lengths
    newest = int(np.argmax(store.times(lengths)))
    # Each series may be rounded as in `split_by_time`.
    wanted = share * len(store.y) - 1e-9 * len(lengths)

    def time(steps: int) -> Any:
        return store.times(np.array([lengths[newest] - steps]), np.array([newest]))[0]

    def enough(steps: int) -> bool:
        return len(store.y) - int(rows_before(store, time(steps)).sum()) >= wanted

    if bool((store.start == store.start[0]).all() and (lengths == lengths[0]).all()):
        return time(max(int(np.ceil(lengths[0] * share - 1e-9)), horizon))
    low, high = horizon - 1, horizon
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return time(high)


def common_dates(store: SeriesStore) -> bool:
    """Whether there are several series with real time stamps. Integer times of two series need not be comparable."""
    return len(store.ids) > 1 and store.start.dtype.kind == "M"


def split_last(store: SeriesStore, steps: int, *, horizon: int = 1, lookback: int = 1) -> Split:
    """Hold out the last `steps` rows of each series for validation."""
    if steps < horizon:
        raise ConfigError(f"steps must be at least the horizon, but got {steps=} and {horizon=}")
    return _cut(store, store.lengths - steps, horizon, lookback)


def split_by_date(store: SeriesStore, when: Any, *, horizon: int = 1, lookback: int = 1) -> Split:
    """Hold out all rows from one time on, the same for all series.

    Args:
        store: the series.
        when: the first time of the validation side: a datetime, its text, or a whole number for integer times. It is
            in UTC when the store has a time zone.
        horizon: horizon of the windows.
        lookback: number of rows that a training window needs before its horizon.
    """
    time = _time(store, when)
    return _cut(store, rows_before(store, time), horizon, lookback)


def split_by_series(store: SeriesStore, share: float, seed: int = 0) -> Split:
    """Hold out a share of the series, drawn by the seed, with all their rows."""
    count = len(store.ids)
    _check_share(share)
    if count < 2:
        raise DataError(f"a split by series needs at least 2 series, but got {count}. Split by time instead.")
    chosen = np.zeros(count, dtype=bool)
    size = min(max(1, round(count * share)), count - 1)
    chosen[numpy_generator(seed, "split").permutation(count)[:size]] = True
    zero, lengths = np.zeros(count, np.int64), store.lengths
    return Split(train=(zero, np.where(chosen, 0, lengths)), validation=(zero, np.where(chosen, lengths, 0)))


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise ConfigError(f"share must be between 0 and 1, but got share={share}")


def _cut(store: SeriesStore, cut: Ints, horizon: int, lookback: int) -> Split:
    lengths = store.lengths
    both = (cut >= lookback + horizon) & (lengths - cut >= horizon)
    # A series that ends before the cut has no validation rows; it does not count as too short.
    short = int((~both & (cut < lengths)).sum())
    cut = np.where(both, cut, lengths)
    return Split(train=(np.zeros_like(lengths), cut), validation=(cut, lengths), too_short=short)


def _time(store: SeriesStore, when: Any) -> Any:
    integers = store.start.dtype.kind != "M"
    if integers != (isinstance(when, int | np.integer) and not isinstance(when, bool)):
        held = "whole numbers" if integers else "time stamps"
        raise ConfigError(f"the times of this table are {held}, but got when={when!r}")
    if integers:
        return int(when)
    try:
        offset = when.utcoffset() if getattr(when, "tzinfo", None) is not None else None
        plain = when if offset is None else (when - offset).replace(tzinfo=None)
        return np.datetime64(plain, "us")
    except (ValueError, TypeError):
        raise ConfigError(f"when must be a time such as '2024-01-31', but got when={when!r}") from None


def rows_before(store: SeriesStore, time: Any) -> Ints:
    """[S] how many rows of each series lie before a time (one for all series, or [S]), found by bisection."""
    lengths = store.lengths
    low, high = np.zeros_like(lengths), lengths.copy()
    while bool((low < high).any()):
        middle = (low + high) // 2
        before = store.times(middle) < time
        low, high = np.where(before & (low < high), middle + 1, low), np.where(before, high, np.minimum(high, middle))
    return low
