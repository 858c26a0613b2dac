"""Values made up for what is absent, so that no row is filled with what came after the moment it is looked at.

A store keeps three things apart: what was observed (`mask`), how an absent value is to be filled (a code per row, the
policy), and the filled value itself, as it is known at the end of the series. Zero, forward and mean depend on earlier
rows only. Linear and backward also take the next observed value, which is allowed once it has been observed: a gap that
is closed is filled from both sides, and one that is still open repeats the value before it. So whoever cuts a store
(`reopen`) or looks at it from a row inside (data/windows/open_gaps.py) opens the gap again that lies there.
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
"""The number of each fill in a store; it is negative where there is nothing to fill with yet."""

LOOKS_AHEAD = CODES["linear"]
"""The fills from this number on take the next observed value."""

_PIECE = 1 << 24
"""How many rows of a file are checked at once."""

FILLED = {"fills": "y", "future_fills": "future", "historical_fills": "historical"}
"""The fields of a store that hold codes, and the values that they are about."""


def fill(values: npt.NDArray[Any], observed: Bools, codes: Codes, offsets: Ints) -> None:
    """Fill the rows with a code in place, as they are known at the end of their series; the sign says whether it could.

    | fill | value |
    |---|---|
    | zero | 0 |
    | forward | the last one observed before |
    | mean | the mean of those observed before |
    | linear | on the line between the last one before and the next one; without a next one the last one before |
    | backward | the next one; without a next one the last one before |
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
    """The mean of the observed values up to the given rows; of the same bits wherever the series is cut after them."""
    means = np.empty(len(last))
    series = np.searchsorted(offsets, last, side="right") - 1
    for number in np.unique(series):
        mine, begin = series == number, offsets[number]
        seen = observed[begin : offsets[number + 1]]
        sums = np.cumsum(np.where(seen, values[begin : offsets[number + 1]], 0).astype(np.float64))
        means[mine] = sums[last[mine] - begin] / np.cumsum(seen)[last[mine] - begin]
    return means


def columns(store: SeriesStore) -> Iterator[tuple[str, int, npt.NDArray[Any], Bools, Codes]]:
    """Every column with fills: the field of its codes, its number there, values, what was observed, codes."""
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
    """Open the gaps again in which the series of a cut end.

    Args:
        arrays: the fields of the cut, changed in place.
        store: what was cut.
        numbers: [S] which of its series are in the cut.
        rows: [N] which of its rows are in the cut.
        stop: [S] its row after the last one of each series in the cut.
    """
    if all(arrays.get(name) is None for name in FILLED):
        return
    lengths = np.diff(arrays["offsets"])
    begin, end = store.offsets[:-1][numbers], store.offsets[1:][numbers]
    inside = np.flatnonzero((stop < end) & (lengths > 0))  # at its end a series is filled as it is known there
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
    """The last observed row at or before each of some rows; -1 where none was since `begin`, where its series does."""
    found = rows.copy()
    going = np.flatnonzero(~seen[found])
    while len(going):
        found[going] = np.where(found[going] > begin[going], found[going] - 1, -1)
        going = going[(found[going] >= 0) & ~seen[found[going]]]
    return found


def carried(store: SeriesStore, rows: Ints, series: Ints) -> npt.NDArray[Any]:
    """[N, H, F] the columns known ahead at rows [N, H] of series [N], with nothing of what comes after each row."""
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
    """[N] where the target has a value that a model may be shown, observed or filled; None for everywhere."""
    if store.mask is None or store.fills is None:
        return store.mask
    shown: Bools = store.mask | (store.fills > 0)
    return None if shown.all() else shown


def hidden_count(store: SeriesStore) -> int:
    """How many targets have no value at all."""
    shown = shown_rows(store)
    return 0 if shown is None else len(shown) - int(np.count_nonzero(shown))


def wrong_fills(store: SeriesStore) -> str | None:
    """The rule that the codes of a store from a file break; None when they are as they were written."""
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
