"""Calendar and target features as columns of a store, and their continuation into the horizon."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import DataError
from neuro_divergent.data.features.features import calendar, history, parse_features
from neuro_divergent.data.schema.load_report import listing
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.store import SeriesStore


def add_features(store: SeriesStore, schema: DataSchema, times: pl.Series) -> tuple[SeriesStore, DataSchema]:
    """Return the store with the schema's features as further columns, and the schema with the time span of the data."""
    features = parse_features(schema.features)
    if schema.span is None:  # otherwise the schema is that of a trained model, whose names are fixed
        _check_names([column for feature in features for column in feature.columns], schema)
    if schema.span is None and len(times):
        physical = times.to_physical()
        schema = schema.replace(span=(int(physical.min()), int(physical.max())))  # type: ignore[arg-type]
    ahead = horizon_features(store, schema, times)
    past = history(features, store.y, store.offsets, store.mask)
    names = {
        role: tuple(column for feature in features if feature.role == role for column in feature.columns)
        for role in ("future", "historical")
    }
    store = replace(
        store,
        future=_beside(store.future, ahead, store.y.dtype),
        historical=_beside(store.historical, past, store.y.dtype),
        future_names=(*store.future_names, *names["future"]),
        historical_names=(*store.historical_names, *names["historical"]),
    )
    return store, schema


def _check_names(columns: list[str], schema: DataSchema) -> None:
    """Refuse a feature with the name of a column of the table."""
    single = (schema.id_col, schema.time_col, schema.target_col, schema.weight, schema.available_mask)
    taken = {*single, *schema.future, *schema.historical, *schema.static, *schema.static_table, *schema.categorical}
    clash = [name for name in columns if name in taken]
    if clash:
        raise DataError(
            f"a feature must not have the name of a column of the table, but got {listing(clash)} as both. Rename the "
            "column, or leave the feature out."
        )


def span_in(schema: DataSchema, time_type: str) -> tuple[int, int] | None:
    """The time span of a schema, converted to the unit of another type of time stamps."""
    known = {"date": 86_400 * 10**9, "datetime[ms": 10**6, "datetime[us": 10**3, "datetime[ns": 1}
    old, new = ((known.get(label[:11]) if label else None) for label in (schema.time_type, time_type))
    if schema.span is None or old is None or new is None or old == new:
        return schema.span
    return schema.span[0] * old // new, schema.span[1] * old // new


def horizon_features(store: SeriesStore, schema: DataSchema, times: pl.Series) -> npt.NDArray[np.float32]:
    """[T, columns] the calendar features of these times."""
    span = None
    if schema.span is not None and len(times):
        ends = pl.Series(schema.span, dtype=pl.Int64).cast(times.dtype)
        span = (ends[0], ends[1])
    return calendar(schema.features, times, freq=store.freq, span=span)


def _beside(
    block: npt.NDArray[Any] | None, added: npt.NDArray[Any], dtype: np.dtype[Any]
) -> npt.NDArray[np.floating] | None:
    if added.shape[1] == 0:
        return block
    added = added.astype(dtype, copy=False)
    return added if block is None else np.concatenate([block, added], axis=1)
