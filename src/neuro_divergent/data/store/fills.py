"""Imputation of missing values without look-ahead: an imputed row uses only what was observed at the forecast origin.

A store has three fields for this: which values were observed (`mask`), how each missing value is imputed (a code per
row, the policy), and the imputed value, computed with all rows of the series. Zero, forward and mean depend on earlier
rows only. Linear and backward also use the next observed value. That is allowed once this value has been observed:
a closed gap is imputed from both sides, an open gap repeats the value before it. If a store is cut (`reopen`), or read
up to a row inside (data/windows/open_gaps.py), a gap at that row is open again and is imputed as such.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from neuro_divergent.data.store.store import SeriesStore

Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int8]
Ints = npt.NDArray[np.int64]

CODES = {"zero": 1, "forward": 2, "mean": 3, "linear": 4, "backward": 5}
"""The code of each fill method in a store. It is negative if no value is available yet."""

LOOKS_AHEAD = CODES["linear"]
"""Methods with this code or a larger one use the next observed value."""

_PIECE = 1 << 24
"""Rows of a file that are checked at once."""

FILLED = {"fills": "y", "future_fills": "future", "historical_fills": "historical"}
"""The code fields of a store, and the value field of each."""


def fill(values: npt.NDArray[Any], observed: Bools, codes: Codes, offsets: Ints) -> None:
    """Impute, in place, the rows with a code, using all rows of their series. A negative code marks a failure.

    | fill | value |
    |---|---|
    | zero | 0 |
    | forward | the last observed value before |
    | mean | the mean of the observed values before |
    | linear | on the line between the last value before and the next value; without a next value, as forward |
    | backward | the next observed value; without a next value, as forward |
    """
    rows = np.flatnonzero(codes)
    series = np.searchsorted(offsets, rows, side="right") - 1
    before, after = _last_before(observed, rows), _first_after(observed, rows)
    has_before, has_after = before >= offsets[series], after < offsets[series + 1]
    method = np.abs(codes[rows])
    made, known = values[np.where(has_before, before, 0)], has_before.copy()
    known |= (method == CODES["zero"]) | ((method == CODES["backward"]) & has_after)
    made[method == CODES["zero"]] = 0
    back = (method == CODES["backward"]) & has_after
    made[back] = values[after[back]]
    line = (method == CODES["linear"]) & has_before & has_after
    left, right = before[line], after[line]
    share = (rows[line] - left) / (right - left)
    made[line] = values[left] * (1 - share) + values[right] * share
    average = (method == CODES["mean"]) & has_before
    made[average] = _means(values, observed, before[average], offsets)
    values[rows] = np.where(known, made, 0)
    codes[rows] = np.where(known, method, -method)


def _last_before(observed: Bools, rows: Ints) -> Ints:
    last = np.where(observed, np.arange(len(observed)), -1)
    return np.asarray(np.maximum.accumulate(last)[rows], dtype=np.int64)


def _first_after(observed: Bools, rows: Ints) -> Ints:
    following = np.where(observed, np.arange(len(observed)), len(observed))
    return np.asarray(np.minimum.accumulate(following[::-1])[::-1][rows], dtype=np.int64)


def _means(values: npt.NDArray[Any], observed: Bools, last: Ints, offsets: Ints) -> npt.NDArray[np.float64]:
    """The mean of the observed values up to the given rows. Later rows do not change its bits."""
    means = np.empty(len(last))
    series = np.searchsorted(offsets, last, side="right") - 1
    for number in np.unique(series):
        mine, begin = series == number, offsets[number]
        seen = observed[begin : offsets[number + 1]]
        sums = np.cumsum(np.where(seen, values[begin : offsets[number + 1]], 0).astype(np.float64))
        means[mine] = sums[last[mine] - begin] / np.cumsum(seen)[last[mine] - begin]
    return means


def columns(store: SeriesStore) -> Iterator[tuple[str, int, npt.NDArray[Any], Bools, Codes]]:
    """Yield every column with fill codes: field of the codes, column number, values, observed mask, codes."""
    for name, field in FILLED.items():
        codes, values = getattr(store, name), getattr(store, field)
        if codes is None:
            continue
        codes, values = (array.reshape(len(array), -1) for array in (codes, values))
        for number in range(codes.shape[1]):
            seen = store.mask if name == "fills" else codes[:, number] == 0
            assert seen is not None
            yield name, number, values[:, number], seen, codes[:, number]


def reopen(arrays: dict[str, Any], store: SeriesStore, numbers: Ints, rows: Ints, stop: Ints) -> None:
    """Remove later values from the gaps in which the series of a cut end.

    Args:
        arrays: the fields of the cut, changed in place.
        store: the store before the cut.
        numbers: [S] which of its series are in the cut.
        rows: [N] which of its rows are in the cut.
        stop: [S] its row after the last one of each series in the cut.
    """
    if all(arrays.get(name) is None for name in FILLED):
        return
    lengths = np.diff(arrays["offsets"])
    begin, end = store.offsets[:-1][numbers], store.offsets[1:][numbers]
    inside = np.flatnonzero((stop < end) & (lengths > 0))  # a series that keeps its last row needs no change
    for name, number, values, seen, codes in columns(store):
        open_there = inside[~seen[stop[inside] - 1]]
        last = np.full(len(stop), len(seen))
        last[open_there] = last_observed(seen, stop[open_there] - 1, begin[open_there])
        last = np.repeat(last, lengths)
        again = np.flatnonzero((rows > last) & (np.abs(codes[rows]) >= LOOKS_AHEAD))
        known, method = last[again] >= 0, np.abs(codes[rows[again]])
        for key, new in (
            (FILLED[name], np.where(known, values[last[again]], 0)),
            (name, np.where(known, method, -method)),
        ):
            arrays[key].reshape(len(rows), -1)[again, number] = new
    for name in FILLED:
        if arrays.get(name) is not None and not arrays[name].any():
            arrays[name] = None


def last_observed(seen: Bools, rows: Ints, begin: Ints) -> Ints:
    """The last observed row at or before each row; -1 if there is none since `begin`, the first row of its series."""
    found = rows.copy()
    going = np.flatnonzero(~seen[found])
    while len(going):
        found[going] = np.where(found[going] > begin[going], found[going] - 1, -1)
        going = going[(found[going] >= 0) & ~seen[found[going]]]
    return found


def carried(store: SeriesStore, rows: Ints, series: Ints) -> npt.NDArray[Any]:
    """[N, H, F] the columns known ahead at rows [N, H] of series [N], imputed without values after each row."""
    assert store.future is not None
    values = store.future[rows]
    begin = np.broadcast_to(store.offsets[:-1][series, None], rows.shape)
    for name, number, column, seen, codes in columns(store):
        again = np.abs(codes[rows]) >= LOOKS_AHEAD
        if name == "future_fills" and again.any():
            last = last_observed(seen, rows[again], begin[again])
            values[again, number] = np.where(last >= 0, column[last], 0)
    return values


def shown_rows(store: SeriesStore) -> Bools | None:
    """[N] where the target has a value, observed or imputed, that a model may read; None if everywhere."""
    if store.mask is None or store.fills is None:
        return store.mask
    shown: Bools = store.mask | (store.fills > 0)
    return None if shown.all() else shown


def hidden_count(store: SeriesStore) -> int:
    """Number of targets that are neither observed nor imputed."""
    shown = shown_rows(store)
    return 0 if shown is None else len(shown) - int(np.count_nonzero(shown))


def wrong_fills(store: SeriesStore) -> str | None:
    """The rule that the fill codes of a store from a file break; None if they are valid."""
    for name, field in FILLED.items():
        codes, values = getattr(store, name), getattr(store, field)
        if codes is None:
            continue
        if codes.dtype != np.int8 or values is None or (name == "fills") != (codes.ndim == 1):
            return f"{name} must be whole numbers for {field}"
        pieces = [slice(first, first + _PIECE) for first in range(0, len(codes), _PIECE)]
        if name == "fills" and (store.mask is None or any(codes[some][store.mask[some]].any() for some in pieces)):
            return "only what was not observed is filled"
        if codes.ndim == 2 and codes.shape[1] > values.shape[1]:
            return f"{name} must have at most the columns of {field}"
        if any(not -len(CODES) <= int(codes[some].min()) <= int(codes[some].max()) <= len(CODES) for some in pieces):
            return f"{name} must hold the numbers of fills"
    return None
