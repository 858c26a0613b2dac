"""Hides rows of a table that have not arrived yet: the forecasts of a fold are made from such a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.data.features.features import history, parse_features
from neuro_divergent.data.store.fills import CODES, LOOKS_AHEAD, Bools, Codes, columns, fill, last_observed
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.predict.local_scaling import with_store

Ints = npt.NDArray[np.int64]


def without_rows(table: TimeSeriesDataFrame, begin: Ints, stop: Ints) -> TimeSeriesDataFrame:
    """The table with rows begin[s] to stop[s] (excluded) of each series hidden.

    The hidden targets are missing, and filled as `gaps` says. Columns that are not known ahead repeat the last row
    before (0 if there is none). Values that were filled from hidden rows are filled again. Features of the target are
    computed again. Columns known ahead do not change.
    """
    store, counts = table.store, np.maximum(stop - begin, 0)
    if not counts.any():
        return table
    series = np.repeat(np.arange(len(counts)), counts)
    inside = np.arange(len(series)) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = store.offsets[:-1][series] + begin[series] + inside
    before = np.where(begin[series] > 0, store.offsets[:-1][series] + begin[series] - 1, -1)
    mask = np.ones(len(store.y), dtype=bool) if store.mask is None else store.mask.copy()
    fills = np.zeros(len(store.y), dtype=np.int8) if store.fills is None else store.fills.copy()
    y = store.y.copy()
    mask[rows], y[rows], fills[rows] = False, 0, CODES.get(table.schema.gaps, 0)
    _fill_again(y, mask, fills, store, begin, counts)
    changes: dict[str, Any] = {"y": y, "mask": mask, "fills": fills if fills.any() else None}
    if store.historical is not None:
        changes |= _past_columns(store, rows, before, begin, counts)
        past = history(parse_features(table.schema.features), y, store.offsets, mask)
        if past.shape[1]:
            changes["historical"][:, -past.shape[1] :] = past
    if store.categorical is not None:
        names = list(store.categories)[: store.categorical.shape[1]]
        unknown = [place for place, name in enumerate(names) if name in table.schema.historical_categorical]
        codes = store.categorical.copy()
        codes[:, unknown] = _repeated(codes[:, unknown], rows, before)
        changes["categorical"] = codes
    return with_store(table, store.replace(**changes))


def _past_columns(store: SeriesStore, rows: Ints, before: Ints, begin: Ints, counts: Ints) -> dict[str, Any]:
    """The columns that are not known ahead, and how they are filled."""
    assert store.historical is not None
    block = _repeated(store.historical, rows, before)
    if store.historical_fills is None:
        return {"historical": block}
    fills = store.historical_fills.copy()
    for name, number, values, seen, codes in columns(store):
        if name == "historical_fills":
            there, column, how = seen.copy(), values.copy(), codes.copy()
            there[rows], how[rows] = False, CODES["forward"]
            _fill_again(column, there, how, store, begin, counts)
            block[:, number], fills[:, number] = column, how
    return {"historical": block, "historical_fills": fills}


def _fill_again(
    values: npt.NDArray[Any], seen: Bools, codes: Codes, store: SeriesStore, begin: Ints, counts: Ints
) -> None:
    """Fill a column again, in place, after the last value before the hidden rows: hidden values must not be used."""
    first, last = store.offsets[:-1], np.full(len(counts), len(seen))
    some = np.flatnonzero(counts > 0)
    last[some] = first[some] - 1
    later = some[begin[some] > 0]
    found = last_observed(seen, first[later] + begin[later] - 1, first[later])
    last[later] = np.where(found >= 0, found, first[later] - 1)
    row = np.arange(len(seen))
    hidden_from = np.repeat(first + begin, store.lengths)
    todo = (row > np.repeat(last, store.lengths)) & ((row >= hidden_from) | (np.abs(codes) >= LOOKS_AHEAD))
    again = np.where(todo, codes, 0).astype(np.int8)
    fill(values, seen, again, store.offsets)
    codes[todo] = again[todo]


def _repeated(block: npt.NDArray[Any], rows: Ints, before: Ints) -> npt.NDArray[Any]:
    """A copy of [N, C] with each of `rows` replaced by its row in `before`, or by 0 if that is -1."""
    block = block.copy()
    block[rows] = np.where(before[:, None] >= 0, block[before], 0)
    return block
