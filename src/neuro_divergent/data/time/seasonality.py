"""Season lengths: suggested by the frequency, confirmed by the data.

A season of p steps is confirmed by an autocorrelation at lag p. It is measured on the change of the series from one
block of b steps to the next (b = 1: plain differences). Differencing removes trends and random walks. A block as long
as a shorter season removes that season. A block of a fraction of a long season reduces the noise.

Letters: S series, n steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.data.time.frequency import MICROSECONDS, Frequency

Doubles = npt.NDArray[np.float64]

MAX_SERIES = 200
"""Largest number of series that are analysed. They are spread evenly over the table, and always the same."""
MAX_STEPS = 4096
"""Largest number of last steps of each series that are analysed."""

_MINUTE, _HOUR, _DAY, _WEEK = (MICROSECONDS[unit] for unit in ("m", "h", "d", "w"))
_LONG, _BLOCKS_PER_SEASON = 48, 12  # a season above 48 steps is analysed in 12 blocks
_SEARCH_BLOCKS = {1: 0.12, 4: 0.3, 16: 0.3, 32: 0.3}  # block: weakest accepted season, as chance also makes peaks
_INDEPENDENT_SERIES = 25  # series of one table are correlated: more of them add no evidence
_WEAKEST = 0.08


def suggest(freq: str) -> tuple[int, ...]:
    """Return the usual season lengths, in steps, of data of this frequency, shortest first.

    >>> suggest("1h"), suggest("1d"), suggest("1mo"), suggest("1i")
    ((24, 168), (7, 365), (12,), ())
    """
    step = Frequency.parse(freq)
    if step.unit == "bd":
        return _whole([5 / step.count])
    if step.months:
        return _whole([12 / step.months])
    if step.microseconds == 0:
        return ()
    year = float(round(365.25 * _DAY / step.microseconds))
    if step.microseconds >= _WEEK:
        return _whole([year])
    if step.microseconds >= _DAY:
        return _whole([_WEEK / step.microseconds, year])
    cycles = [_DAY, _WEEK]
    if step.microseconds < 5 * _MINUTE:
        cycles = [_HOUR, _DAY, _WEEK]
    if step.microseconds < _MINUTE:
        cycles = [_MINUTE, _HOUR, _DAY]
    return _whole([cycle / step.microseconds for cycle in cycles])


def usual_calendar(freq: str) -> tuple[str, ...]:
    """Return the calendar features of the days and weeks in data of this frequency; () for whole numbers.

    >>> usual_calendar("1h"), usual_calendar("1d"), usual_calendar("1mo")
    (('hour', 'dayofweek'), ('dayofweek',), ())
    """
    step = Frequency.parse(freq)
    if step.months or not 0 < step.microseconds <= _DAY:
        return ("dayofweek",) if step.unit == "bd" and step.count == 1 else ()
    return ("hour", "dayofweek") if step.microseconds < _DAY else ("dayofweek",)


def detect(
    y: npt.NDArray[np.floating[Any]],
    offsets: npt.NDArray[np.int64],
    mask: npt.NDArray[np.bool_] | None = None,
    freq: str | None = None,
    max_series: int = MAX_SERIES,
    rows: npt.NDArray[np.int64] | None = None,
) -> tuple[int, ...]:
    """Return the season lengths that the data confirms, strongest first; () if there is none.

    Args:
        y: [N] all series, concatenated.
        offsets: [S + 1] series s is y[offsets[s] : offsets[s + 1]].
        mask: [N] true where y was observed; None if all values were.
        freq: the frequency in polars spelling, whose usual seasons are tried. For integer times or None, all lags are
            searched.
        max_series: largest number of series that are analysed.
        rows: [S] how many first rows of each series are analysed, such as the training rows; None for all.
    """
    bounds = list(pairwise(offsets.tolist()))
    if rows is not None:
        shown = zip(bounds, rows.tolist(), strict=True)
        bounds = [(first, min(first + count, last)) for (first, last), count in shown if count > 0]
    sample = _Sample(y, bounds, mask, max_series)
    if sample.length < 4:
        return ()
    if freq is None or Frequency.parse(freq).integer:
        found = _search(sample)
    else:
        found = _confirm(sample, suggest(freq))
    plain = sample.autocorrelation(1)
    return tuple(sorted(found, key=lambda season: -float(plain[season])))


def _whole(lengths: Iterable[float]) -> tuple[int, ...]:
    return tuple(int(length) for length in lengths if length >= 2 and length == int(length))


class _Sample:
    """Some of the series, right-aligned in one matrix, with gaps interpolated linearly."""

    def __init__(
        self,
        y: npt.NDArray[np.floating[Any]],
        bounds: list[tuple[int, int]],
        mask: npt.NDArray[np.bool_] | None,
        max_series: int,
    ) -> None:
        keep = np.unique(np.linspace(0, len(bounds) - 1, min(max_series, len(bounds))).round().astype(int))
        rows = [_observed(y[slice(*bounds[i])], None if mask is None else mask[slice(*bounds[i])]) for i in keep]
        rows = [row for row in rows if row.size >= 4 and np.ptp(row) > 0]
        self.lengths = np.array([row.size for row in rows])
        self.length = int(self.lengths.max(initial=0))
        self.values = np.zeros((len(rows), self.length))
        for i, row in enumerate(rows):
            self.values[i, self.length - row.size :] = row - row.mean()
        self._known: dict[tuple[int, bool], Doubles] = {}

    def autocorrelation(self, block: int, pooled: bool = False) -> Doubles:
        """[n] autocorrelation at each lag: the median over series at least two lags long, or that of their mean.

        It is 0 at lags for which no series is long enough.
        """
        key = (block, pooled)
        if key not in self._known:
            change, counts = self._change(block)
            if pooled:
                change, counts = change.mean(axis=0, keepdims=True), counts.max(keepdims=True)
            self._known[key] = _median_autocorrelation(change, counts, counts + 2 * block - 1)
        return self._known[key]

    def _change(self, block: int) -> tuple[Doubles, npt.NDArray[np.int64]]:
        """Mean of each block minus mean of the block before, standardised, and the number of blocks per series."""
        total = np.pad(self.values.cumsum(axis=1), ((0, 0), (2 * block, 0)))
        change = total[:, 2 * block :] - 2 * total[:, block:-block] + total[:, : -2 * block]
        counts = np.maximum(self.lengths - 2 * block + 1, 0)
        inside = np.arange(self.length) >= self.length - counts[:, None]
        change *= inside
        change -= change.sum(axis=1, keepdims=True) / np.maximum(counts, 1)[:, None]
        change *= inside
        size = np.sqrt((change**2).sum(axis=1, keepdims=True) / np.maximum(counts, 1)[:, None])
        return np.divide(change, size, out=np.zeros_like(change), where=size > 0), counts

    def threshold(self, lag: int, block: int, deviations: float, pooled: bool = False) -> float:
        """The bound that the autocorrelation of noise stays below at this lag, by Bartlett's formula."""
        long = self.lengths[self.lengths >= 2 * lag]
        if long.size == 0:
            return math.inf
        # Noise differenced over blocks correlates with itself at lags below two blocks, by known amounts.
        near = np.arange(1, 2 * block) / block
        shape = np.where(near < 1, 1 - 1.5 * near, -0.5 * (2 - near))
        error = math.sqrt((1 + 2 * float((shape**2).sum())) / max(float(np.median(long)) - lag, 1.0))
        return deviations * error / (1.0 if pooled else min(long.size, _INDEPENDENT_SERIES) ** 0.5)


def _median_autocorrelation(change: Doubles, counts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Doubles:
    n = change.shape[1]
    spectrum = np.fft.rfft(change, 1 << (2 * n - 1).bit_length(), axis=1)
    sums = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n]
    lags = np.arange(n)
    enough = (lengths[:, None] >= 2 * lags) & (counts[:, None] > lags) & (sums[:, :1] > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = sums / sums[:, :1] * counts[:, None] / (counts[:, None] - lags)
    found[~enough] = np.nan
    known = enough.any(axis=0)
    result = np.zeros(n)
    result[known] = np.nanmedian(found[:, known], axis=0)
    return result


def _observed(y: npt.NDArray[np.floating[Any]], mask: npt.NDArray[np.bool_] | None) -> Doubles:
    values = y[-MAX_STEPS:].astype(np.float64)
    seen = np.isfinite(values) if mask is None else mask[-MAX_STEPS:] & np.isfinite(values)
    if seen.all():
        return values
    steps = np.flatnonzero(seen)
    if steps.size < 2:
        return values[:0]
    inside = np.arange(steps[0], steps[-1] + 1)
    return np.interp(inside, steps, values[steps])


def _confirm(sample: _Sample, candidates: Iterable[int]) -> list[int]:
    """The candidates, shortest first, that have a peak after shorter seasons are removed."""
    found: list[int] = []
    for season in candidates:
        shorter = max((other for other in found if 3 * other <= season), default=0)
        block = season // _BLOCKS_PER_SEASON if season > _LONG else 1
        block = max(round(block / shorter), 1) * shorter if shorter else block
        # A season that is too weak in single noisy series may be clear in their mean.
        if any(_peaks(sample, season, block, 3.0, pooled=pooled) for pooled in (False, True)):
            found.append(season)
    return found


def _peaks(
    sample: _Sample, season: int, block: int, deviations: float, *, pooled: bool = False, weakest: float = _WEAKEST
) -> bool:
    if 2 * season > sample.length:
        return False
    correlation = sample.autocorrelation(block, pooled)
    aside = max(block, season // 8)
    here, before = correlation[season], correlation[season - aside]
    after = correlation[min(season + aside, sample.length - 1)]
    return bool(here > max(before, after, weakest, sample.threshold(season, block, deviations, pooled)))


def _search(sample: _Sample) -> list[int]:
    """The season with the clearest peak, its best divisor, and a longer season built of it."""
    for block, weakest in _SEARCH_BLOCKS.items():
        base = _best_lag(sample, block, _repeating(sample, block), share=0.75, weakest=weakest)
        if base:
            break
    else:
        return []
    correlation = sample.autocorrelation(1)
    divisors = [lag for lag in _repeating(sample, 1, base) if base % lag == 0 and lag < base]
    divisors = [lag for lag in divisors if 2 * correlation[lag] > correlation[base]]
    shorter = _best_lag(sample, 1, divisors, share=0.75, weakest=weakest) if block == 1 else 0
    longer = _best_lag(sample, base, range(3 * base, sample.length // 2 + 1, base), share=0.5, weakest=_WEAKEST)
    return [season for season in (shorter, base, longer) if season]


def _repeating(sample: _Sample, block: int, until: int = 0) -> list[int]:
    """Lags with the highest autocorrelation within a block on either side that also persists at their multiples.

    The multiples are checked for block 1 only. They matter beside a longer smooth season: differenced noise has a low
    autocorrelation at lag 1, which leaves a peak at lag 2 without peaks at 4, 6 and 8.
    """
    correlation = sample.autocorrelation(block)
    lags = np.arange(2 * block, sample.length // 2 + 1)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(correlation, block), 2 * block + 1).max(axis=1)
    summits = lags[correlation[lags] >= around[lags]].tolist()
    if block > 1:
        return [int(lag) for lag in summits]
    last = sample.length // 2
    ends = [min(max(4 * lag, until), last) + 1 for lag in summits]
    return [
        lag for lag, end in zip(summits, ends, strict=True) if 2 * correlation[lag:end:lag].min() >= correlation[lag]
    ]


def _best_lag(sample: _Sample, block: int, lags: Iterable[int], *, share: float, weakest: float) -> int:
    """The shortest lag whose peak reaches a share of the highest peak; 0 if no peak exceeds the noise."""
    correlation = sample.autocorrelation(block)
    peaks = [lag for lag in lags if _peaks(sample, lag, block, 4.0, weakest=weakest)]
    highest = max((correlation[lag] for lag in peaks), default=0.0)
    return min((lag for lag in peaks if correlation[lag] >= share * highest), default=0)
