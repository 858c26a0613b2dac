"""The index of all valid windows: intervals (runs) of valid positions, and the lookup of a window by its number.

A window is identified by its series and by the position, within the series, of its first horizon step. The valid
positions of a series form one interval, or several where too many values are missing. The index keeps one entry per
interval and never builds a list of windows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import ConfigError

Ints = npt.NDArray[np.int64]

SPAN = 1 << 22
"""Rows of a mask that are read at once. The search for valid windows therefore needs bounded memory."""

_BUCKETS_PER_RUN = 8
_BUCKETS = 1 << 16
_FEW = 64
"""With at least this many buckets per run, few buckets hold numbers of two runs."""

_MANY = 8192
"""Above this many numbers, arithmetic in narrow integers is faster than table lookup; below, call overhead decides."""


@dataclass(frozen=True, kw_only=True)
class WindowIndex:
    """Runs of valid starts: run r holds the positions first[r] + k * step of one series, for k in range(count[r])."""

    series: Ints
    """[R] the series of each run, ascending."""
    first: Ints
    """[R] the first position of each run."""
    bounds: Ints
    """[R + 1] run r holds the window numbers bounds[r] : bounds[r + 1]."""
    step: int
    origin: Ints
    """[R] the position of number 0, extrapolated from the run."""
    row: Ints
    """[R] the row of that position in the store, plus the offset of `shifted`."""
    dense: bool
    """Whether run r belongs to series r for all runs."""
    guide: npt.NDArray[np.int16] | npt.NDArray[np.int32]
    """For each bucket of 2 ** shift numbers, the run of its first number; R (no run) where a search is needed."""
    shift: int
    even: int
    """Numbers per run if all runs have the same size and are equally far apart; else 0."""
    word: Any
    """Integer type of the position arithmetic: int32 where it is wide enough (it takes half the time), else int64."""
    exact: bool
    """True if `guide` covers only buckets of a single run. False if it also covers buckets of two adjacent runs."""
    unknown: bool
    """Whether `guide` leaves some buckets to a search."""
    ends: Ints
    """[R + 1] the number after the last one of each run, and a sentinel (the largest int64)."""

    @classmethod
    def of(cls, series: Ints, first: Ints, count: Ints, *, step: int, offsets: Ints) -> WindowIndex:
        """Index the runs that have at least one position. `offsets` are the first rows of the series in the store."""
        some = count > 0
        series, first, count = series[some], first[some], count[some]
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(count, dtype=np.int64)])
        total, runs = int(bounds[-1]), len(count)
        shift = max(0, total.bit_length() - max(_BUCKETS_PER_RUN * runs, _BUCKETS).bit_length())
        heads = np.arange((total >> shift) + 1, dtype=np.int64) << shift
        guide, last = (_run_of(bounds, ends) for ends in (heads, np.minimum(heads + (1 << shift), total) - 1))
        exact = len(heads) >= _FEW * runs
        unknown = last - guide > (0 if exact else 1)
        known = np.where(unknown, runs, guide)
        origin = first - bounds[:-1] * step
        row = offsets[series] + origin
        dense = bool(np.array_equal(series, np.arange(runs)))
        return cls(
            series=series,
            first=first,
            bounds=bounds,
            step=step,
            origin=origin,
            row=row,
            dense=dense,
            guide=known.astype(np.int16) if runs < 1 << 15 else known.astype(np.int32),
            shift=shift,
            even=int(count[0]) if runs > 1 and dense and all(map(_regular, (bounds, origin, row))) else 0,
            word=np.int32 if int(offsets[-1]) < 1 << 30 else np.int64,
            exact=exact,
            unknown=bool(unknown.any()),
            ends=np.append(bounds[1:], np.iinfo(np.int64).max),
        )

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def shifted(self, rows: int) -> WindowIndex:
        """The same windows with `rows` added to each row. `where` needs the index before this shift."""
        return replace(self, row=self.row + rows)

    def locate(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the series of each window number, its position in the series, and its row in the store."""
        if numbers.size and int(numbers.view(np.uint64).max()) >= len(self):  # negative numbers are huge as uint64
            low, high = int(numbers.min()), int(numbers.max())
            raise ConfigError(f"window numbers go from 0 to {len(self) - 1}, but got {low} to {high}")
        if self.even and numbers.size > _MANY:
            return self._computed(numbers)
        distance = numbers if self.step == 1 else numbers * self.step
        if len(self.first) == 1:
            return np.full_like(numbers, self.series[0]), distance + self.origin[0], distance + self.row[0]
        run = self._run(numbers)
        # All indices are in range; mode="clip" is the fastest way to look them up.
        time, row = self.origin.take(run, mode="clip"), self.row.take(run, mode="clip")
        time += distance
        row += distance
        return run if self.dense else self.series.take(run), time, row

    def _computed(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """The result of `locate` for equal runs: a few multiplications instead of table lookups."""
        distance: npt.NDArray[Any] = numbers.astype(self.word)
        run = distance // self.word(self.even)
        if self.step != 1:
            distance *= self.word(self.step)
        places = []
        for table in (self.origin, self.row):
            place = run * self.word(table[1] - table[0])
            place += distance
            place += self.word(table[0])
            places.append(place.astype(np.int64))
        return run.astype(np.int64), places[0], places[1]

    def _run(self, numbers: Ints) -> Ints:
        """The run of each number."""
        if self.even:
            return numbers // self.even
        # A binary search over 100,000 runs costs more than the gather itself. The guide gives the run, or (unless it
        # is exact) the run before it. Only numbers in buckets that the guide does not cover are searched.
        guided = self.guide.take(numbers >> self.shift if self.shift else numbers, mode="clip")
        run = guided.astype(np.int64)
        if not self.exact:
            run += self.ends.take(run, mode="clip") <= numbers
        if self.unknown:
            many = np.flatnonzero(guided == len(self.first))
            run[many] = np.searchsorted(self.bounds, numbers[many], side="right") - 1
        return run

    def boundaries(self, series: int) -> Ints:
        """[series + 1] windows of series s have the numbers boundaries[s] : boundaries[s + 1]."""
        return self.bounds[np.searchsorted(self.series, np.arange(series + 1))]

    def where(
        self,
        observed: npt.NDArray[np.bool_] | Ints,
        offsets: Ints,
        *,
        lookback: int,
        horizon: int,
        need: tuple[float, float],
    ) -> WindowIndex:
        """Return the windows with at least need[0] observations in the lookback and need[1] in the horizon."""
        parts: list[tuple[Ints, Ints, Ints]] = []
        number, total = 0, len(self)
        while number < total:
            stop = self._reach(number, offsets)
            series, time, row = self.locate(np.arange(number, stop))
            begin = offsets[series]
            low = max(int(row[0]) - lookback, 0)
            seen = np.concatenate(
                [np.zeros(1, np.int64), np.cumsum(observed[low : int(row[-1]) + horizon], dtype=np.int64)]
            )
            past = seen[row - low] - seen[np.maximum(row - lookback, begin) - low]
            ahead = seen[row + horizon - low] - seen[row - low]
            parts.append(_runs(series, time, (past >= need[0]) & (ahead >= need[1]), self.step))
            number = stop
        if not parts:
            return self
        series, first, count = (np.concatenate(column) for column in zip(*parts, strict=True))
        return WindowIndex.of(series, first, count, step=self.step, offsets=offsets)

    def _reach(self, number: int, offsets: Ints) -> int:
        """The number after the last window that starts within SPAN rows of the given one."""
        limit = int(self.locate(np.array([number]))[2][0]) + SPAN
        run = int(np.searchsorted(offsets[self.series] + self.first, limit)) - 1
        inside = -(-(limit - int(offsets[self.series[run]] + self.first[run])) // self.step)
        return min(int(self.bounds[run]) + inside, int(self.bounds[run + 1]))


def _run_of(bounds: Ints, numbers: Ints) -> Ints:
    """The run that holds each number; the last run for numbers beyond all runs."""
    return np.minimum(np.searchsorted(bounds, numbers, side="right") - 1, max(len(bounds) - 2, 0))


def _regular(values: Ints) -> bool:
    """Whether all neighbours are equally far apart."""
    steps = np.diff(values)
    return bool((steps == steps[0]).all())


def _runs(series: Ints, time: Ints, valid: npt.NDArray[np.bool_], step: int) -> tuple[Ints, Ints, Ints]:
    """Consecutive valid positions of one series as (series, first, count)."""
    series, time = series[valid], time[valid]
    if not series.size:
        return series, time, np.zeros(0, np.int64)
    breaks = (np.diff(series) != 0) | (np.diff(time) != step)
    heads = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(breaks) + 1])
    return series[heads], time[heads], np.diff(np.append(heads, series.size))


def spread(first: Ints, last: Ints, step: int) -> tuple[Ints, Ints]:
    """First position and count of every step-th position of [first, last], counted from the end."""
    room = last - first
    return first + np.where(room >= 0, room % step, 0), np.where(room >= 0, room // step + 1, 0)
