"""Scales series one by one, before training and around every forecast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.config import given_back, reference
from neuro_divergent.data.scaling.per_series import SeriesScaler, series_scaler
from neuro_divergent.data.schema.load_report import DataReport
from neuro_divergent.data.store.fills import shown_rows
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame


class LocalScaling:
    """The scaler of every training series. A new series is scaled by the rows from which it may be forecast."""

    def __init__(self, how: str | SeriesScaler, scaler: SeriesScaler, ids: npt.NDArray[np.generic]) -> None:
        self.how, self.scaler, self.ids = how, scaler, ids
        """The requested scaler (a name or an object), the fitted scaler, and the names of its series."""

    @classmethod
    def fit(
        cls, how: str | SeriesScaler, table: TimeSeriesDataFrame, until: npt.NDArray[np.int64], *, least: int = 1
    ) -> LocalScaling:
        """Fit the scaler on the first `until` rows of each series: it must not see held-out rows.

        A series with fewer than `least` such rows, or without an observed value, is not trained on and counts as new.
        """
        store, some = table.store, _measurable(table, until, least)
        scaler = series_scaler(how).fit(store.y, store.offsets, store.mask, until[some], store.ids, some)
        return cls(how, scaler, store.ids[some])

    def including(self, table: TimeSeriesDataFrame, until: npt.NDArray[np.int64], *, least: int = 1) -> LocalScaling:
        """The scaling with the new series of a table, fitted on their first `until` rows; `least` as in `fit`."""
        known, names = set(self.ids.tolist()), table.ids.tolist()
        new = _measurable(table, until, least)
        new = new[[names[place] not in known for place in new.tolist()]]
        found = self.of(table, new, until[new]).to_arrays()
        arrays = {name: np.concatenate([array, found[name]]) for name, array in self.scaler.to_arrays().items()}
        ids = np.array([*self.ids.tolist(), *table.ids[new].tolist()], dtype=object)  # tables may differ in type
        return LocalScaling(self.how, series_scaler(self.how).from_arrays(arrays), ids)

    def of(
        self,
        table: TimeSeriesDataFrame,
        series: npt.NDArray[np.int64] | None = None,
        until: npt.NDArray[np.int64] | None = None,
    ) -> SeriesScaler:
        """The scaler of series [N] of a table (None: all). New series are fitted on their first until[i] rows."""
        store = table.store
        series = np.arange(table.n_series) if series is None else series
        number = {name: position for position, name in enumerate(self.ids.tolist())}
        rows = np.array([number.get(name, -1) for name in store.ids.tolist()], dtype=np.int64)[series]
        state, new = {name: array[rows] for name, array in self.scaler.to_arrays().items()}, np.flatnonzero(rows < 0)
        if len(new):
            seen = None if until is None else until[new]
            fresh = series_scaler(self.how).fit(store.y, store.offsets, store.mask, seen, store.ids, series[new])
            for name, array in fresh.to_arrays().items():
                state[name][new] = array
        return series_scaler(self.how).from_arrays(state)

    def scaled(self, table: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
        """The table with its target scaled."""
        return with_store(table, self.scaled_store(table))

    def scaled_store(self, table: TimeSeriesDataFrame) -> SeriesStore:
        """The store of a table with its target scaled."""
        store = table.store
        return store.replace(y=self.of(table).transform_flat(store.y, store.offsets, shown_rows(store)))

    def original(self, values: npt.NDArray[np.float64], table: TimeSeriesDataFrame) -> npt.NDArray[np.float64]:
        """Forecasts [S, ...] of the series of a table in original units."""
        return np.asarray(self.of(table).inverse(values, np.arange(table.n_series)), dtype=np.float64)

    def facts(self) -> dict[str, Any]:
        """Plain data for a file."""
        name = self.how if isinstance(self.how, str) else {"reference": reference(self.how)}
        return {"name": name, "ids": self.ids.tolist()}

    @classmethod
    def from_parts(
        cls,
        facts: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
        using: Mapping[str, Any] | None = None,
    ) -> LocalScaling:
        """The inverse of `facts` and the scaler's arrays. `using` has scalers that the file names by reference."""
        how = given_back(facts["name"], using or {})
        return cls(how, series_scaler(how).from_arrays(arrays), np.array(facts["ids"], dtype=object))


def _measurable(table: TimeSeriesDataFrame, until: npt.NDArray[np.int64], least: int) -> npt.NDArray[np.int64]:
    """The series with at least `least` rows among their first `until`, one of them observed."""
    store = table.store
    observed = until
    if store.mask is not None:
        before = np.append(0, np.cumsum(store.mask))
        observed = before[store.offsets[:-1] + until] - before[store.offsets[:-1]]
    return np.flatnonzero((until >= least) & (observed > 0))


def with_store(table: TimeSeriesDataFrame, store: SeriesStore) -> TimeSeriesDataFrame:
    """A table like another one, over another store."""
    report = DataReport(rows_read=len(store.y), rows_stored=len(store.y), n_series=len(store.ids), freq=store.freq)
    return TimeSeriesDataFrame(store, table.schema, report, library=table.library)
