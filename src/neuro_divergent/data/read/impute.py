"""Making up values that are absent, series by series, by the method that was asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]


def fill(
    values: npt.NDArray[Any], observed: Bools, wanted: Bools, offsets: npt.NDArray[np.int64], method: str
) -> Bools:
    """Fill `wanted` rows of `values` in place; gives the rows that now have a value.

    A row with nothing before it (after it, for backward) stays as it is.
    """
    if method == "zero":
        values[wanted] = 0
        return wanted
    rows = np.flatnonzero(wanted)
    series = np.searchsorted(offsets, rows, side="right") - 1
    if method == "mean":
        return _mean(values, observed, rows, series, offsets)
    before = _last_before(observed, rows)
    after = _first_after(observed, rows)
    has_before, has_after = before >= offsets[series], after < offsets[series + 1]
    done = np.zeros(len(values), dtype=bool)
    if method == "forward":
        good = has_before
        values[rows[good]] = values[before[good]]
    elif method == "backward":
        good = has_after
        values[rows[good]] = values[after[good]]
    else:
        good = has_before & has_after
        left, right, at = before[good], after[good], rows[good]
        share = (at - left) / (right - left)
        values[at] = values[left] * (1 - share) + values[right] * share
    done[rows[good]] = True
    return done


def _last_before(observed: Bools, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    last = np.where(observed, np.arange(len(observed)), -1)
    return np.asarray(np.maximum.accumulate(last)[rows], dtype=np.int64)


def _first_after(observed: Bools, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    following = np.where(observed, np.arange(len(observed)), len(observed))
    return np.asarray(np.minimum.accumulate(following[::-1])[::-1][rows], dtype=np.int64)


def _mean(
    values: npt.NDArray[Any],
    observed: Bools,
    rows: npt.NDArray[np.int64],
    series: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
) -> Bools:
    counts = np.add.reduceat(observed.astype(np.int64), offsets[:-1])
    sums = np.add.reduceat(np.where(observed, values, 0).astype(np.float64), offsets[:-1])
    good = counts[series] > 0
    values[rows[good]] = (sums / np.maximum(counts, 1))[series[good]]
    done = np.zeros(len(values), dtype=bool)
    done[rows[good]] = True
    return done
