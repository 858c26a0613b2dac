"""Infer the frequency of a table from its time stamps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuro_divergent.data.time.frequency import (
    MICROSECONDS,
    Frequency,
    Times,
    is_month_end,
    to_local,
    weekday,
)

DAY = MICROSECONDS["d"]


def infer(times: Times, first: npt.NDArray[np.int64], zone: str | None = None) -> Frequency | None:
    """Return the frequency of sorted time stamps without duplicates; None if no series has two rows.

    Args:
        times: datetime64 (UTC when there is a zone) or whole numbers, series after series.
        first: the row in which each series starts.
        zone: the time zone whose wall clock days and longer steps follow.
    """
    inner = np.ones(len(times), dtype=bool)
    inner[first] = False
    if not inner.any():
        return None
    if times.dtype.kind != "M":
        return Frequency(_common_step(np.diff(times)[inner[1:]]), "i")
    if zone is None:
        return _infer_naive(times, inner, first)
    on_clock = _infer_naive(to_local(times, zone), inner, first)
    return on_clock if on_clock.on_wall_clock else _infer_naive(times, inner, first)


def _infer_naive(times: Times, inner: npt.NDArray[np.bool_], first: npt.NDArray[np.int64]) -> Frequency:
    unit = MICROSECONDS["d"] if np.datetime_data(times.dtype)[0] == "D" else 1
    gaps = np.diff(times)[inner[1:]].astype(np.int64)
    smallest = int(gaps.min()) * unit
    if smallest >= 28 * DAY:
        monthly = _infer_months(times, inner, first)
        if monthly is not None:
            return monthly
    step = _common_step(gaps) * unit
    if step == DAY and _is_business(times, gaps * unit):
        return Frequency(1, "bd")
    return Frequency.of_microseconds(step)


def _infer_months(times: Times, inner: npt.NDArray[np.bool_], first: npt.NDArray[np.int64]) -> Frequency | None:
    """A frequency in months if all stamps have the same time of day, and each series the same day of the month.

    The last day of a short month counts as any day that the month does not have. None if the stamps do not match.
    """
    days = times.astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    of_month = (days - months.astype("datetime64[D]")).astype(np.int64)
    of_day = times - days
    last = is_month_end(days)
    ends = bool(last.all())
    if of_day.min() != of_day.max():
        return None
    if not ends and of_month.min() != of_month.max():
        usual = np.repeat(np.maximum.reduceat(of_month, first), np.diff(np.append(first, len(times))))
        if not ((of_month == usual) | last).all():
            return None
    gaps = np.diff(months)[inner[1:]].astype(np.int64)
    return Frequency.of_months(_common_step(gaps), end=ends)


def _is_business(times: Times, gaps: npt.NDArray[np.int64]) -> bool:
    return bool((gaps > DAY).any() and (weekday(times) < 5).all())


def _common_step(gaps: npt.NDArray[np.generic]) -> int:
    """The most common distance, or the greatest common divisor if it is only a few times smaller."""
    smallest, largest = int(gaps.min()), int(gaps.max())
    if smallest == largest:
        return smallest
    values, counts = np.unique(gaps, return_counts=True)
    commonest = int(values[np.argmax(counts)])
    divisor = int(np.gcd.reduce(values.astype(np.int64)))
    # A divisor far below every distance means irregular stamps, and a grid with far too many rows.
    return divisor if divisor * 4 >= min(commonest, smallest) else commonest
