"""The columns of a table that a model takes."""

from __future__ import annotations

from typing import Any

from neuro_divergent.data.join import with_features
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.model.model import Model

_EMPTY: dict[str, dict[str, Any]] = {
    "future": {"future": None, "future_fills": None, "future_names": ()},
    "historical": {"historical": None, "historical_fills": None, "historical_names": ()},
    "static": {"static": None, "static_names": ()},
    "categorical": {"categorical": None, "static_categorical": None, "categories": {}},
}
"""Values of the fields of a store without the columns of a role."""


def with_calendar(model: Model, table: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
    """The table with the columns of the calendar that the model reads. Whole numbers have no calendar."""
    names = () if table.frequency.integer else model.calendar_read(table.freq)
    return with_features(table, names)


def columns_left_out(model: Model, store: SeriesStore) -> dict[str, tuple[str, ...]]:
    """By role, the columns of a store that the model cannot take."""
    can = model.capabilities
    names = {
        "future": () if can.future or store.future is None else store.future_names,
        "historical": () if can.historical or store.historical is None else store.historical_names,
        "static": () if can.static or store.static is None else store.static_names,
        "categorical": () if can.categorical else tuple(store.categories),
    }
    return {role: found for role, found in names.items() if found}


def taken_columns(model: Model, store: SeriesStore) -> SeriesStore:
    """The store without the columns that the model cannot take."""
    changes: dict[str, Any] = {}
    for role in columns_left_out(model, store):
        changes |= _EMPTY[role]
    return store.replace(**changes) if changes else store
