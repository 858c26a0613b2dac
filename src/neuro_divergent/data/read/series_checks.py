"""Checks of whole series: constant, without any target, too short."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.schema.load_report import DataReport, listing
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.fills import hidden_count, reopen
from neuro_divergent.data.store.store import ROW_ARRAYS, SERIES_ARRAYS, SeriesStore


def check_series(
    store: SeriesStore, schema: DataSchema, report: DataReport, known: Collection[object] = ()
) -> SeriesStore:
    """Find constant and empty series, and keep, drop or refuse them as the schema says.

    Known series are not checked: they were checked when they were complete, and perhaps only their end is here.
    """
    constant, empty = constant_and_empty(store)
    if report.merged_targets:  # they change only in digits that float32 cannot store
        constant &= ~np.isin(store.ids, list(report.merged_targets))
    report.constant_series = tuple(store.ids[constant].tolist())
    report.all_missing_series = tuple(store.ids[empty].tolist())
    new, keep = np.ones((2, len(store.ids)), dtype=bool)
    if known:
        new = np.array([name not in known for name in store.ids.tolist()])
    for found, policy, what in ((constant, schema.constant, "constant"), (empty, schema.all_missing, "all_missing")):
        which = found & new
        if policy == "error" and which.any():
            names = listing(store.ids[which].tolist())
            rule = "change" if what == "constant" else "have at least one target"
            raise DataError(
                f"series must {rule} in column {schema.target_col!r}, but got {int(which.sum()):,} that do not: "
                f"{names}. "
                f'Remove them, or say {what}="keep" or {what}="drop".',
                advice=[Advice(f"data.{what}", "keep"), Advice(f"data.{what}", "drop")],
            )
        if policy == "drop":
            keep &= ~which
    if not keep.all():
        report.dropped_series += tuple(store.ids[~keep].tolist())
        store = select_series(store, np.flatnonzero(keep))
    if schema.min_length is not None:
        store = ensure_length(store, np.where(new[keep], schema.min_length, 0), schema.short, report)
    report.n_series, report.rows_stored = len(store.ids), len(store.y)
    report.masked = hidden_count(store)
    return store


def constant_and_empty(store: SeriesStore) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """[S] series of at least two targets that are all equal, and series without any target."""
    first = store.offsets[:-1]
    if store.mask is None:
        low, high = np.minimum.reduceat(store.y, first), np.maximum.reduceat(store.y, first)
        return (low == high) & (store.lengths > 1), np.zeros(len(first), dtype=bool)
    low = np.minimum.reduceat(np.where(store.mask, store.y, np.inf), first)
    high = np.maximum.reduceat(np.where(store.mask, store.y, -np.inf), first)
    counts = np.add.reduceat(store.mask.astype(np.int64), first)
    return (low == high) & (counts > 1), counts == 0


def ensure_length(
    store: SeriesStore, length: int | npt.NDArray[np.int64], short: str, report: DataReport
) -> SeriesStore:
    """Refuse, drop or pad the series with fewer rows than `length` (one number, or one per series)."""
    lacking = np.maximum(length - store.lengths, 0)
    names = tuple(store.ids[lacking > 0].tolist())
    report.short_series = names
    if not names:
        return store
    if short == "error":
        raise DataError(
            f"every series must have at least {np.max(length)} rows, but {len(names):,} "
            f"{'is' if len(names) == 1 else 'are'} shorter: {listing(names, 20)}. "
            'Say short="drop" or short="pad", or ask for shorter windows.',
            advice=[Advice("data.short", "drop"), Advice("data.short", "pad")],
        )
    if short == "drop":
        report.dropped_series += names
        return select_series(store, np.flatnonzero(lacking == 0))
    report.padded_rows = int(lacking.sum())
    return _pad(store, lacking)


def select_series(store: SeriesStore, numbers: npt.NDArray[np.int64]) -> SeriesStore:
    """A store of some of the series, in the order of their numbers."""
    if not len(numbers):
        raise DataError("a table needs at least one series, but no series is left.")
    return cut_rows(store, numbers, store.offsets[:-1][numbers], store.offsets[1:][numbers])


def cut_rows(
    store: SeriesStore, numbers: npt.NDArray[np.int64], begin: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]
) -> SeriesStore:
    """A store of rows begin[i] : stop[i] of series numbers[i]. No value is filled from later rows."""
    lengths = stop - begin
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    rows = np.repeat(begin - offsets[:-1], lengths) + np.arange(offsets[-1])
    changes: dict[str, Any] = {"offsets": offsets}
    for name in ROW_ARRAYS:
        array = getattr(store, name)
        changes[name] = None if array is None else array[rows]
    for name in SERIES_ARRAYS:
        array = getattr(store, name)
        changes[name] = None if array is None else array[numbers]
    reopen(changes, store, numbers, rows, stop)
    skipped = begin - store.offsets[:-1][numbers]
    if skipped.any():
        changes |= store.starting_at(skipped, numbers)
    return replace(store, **_plain_mask(changes))


def _plain_mask(changes: dict[str, Any]) -> dict[str, Any]:
    if changes["mask"] is not None and bool(changes["mask"].all()):
        changes["mask"] = None
    return changes


def _pad(store: SeriesStore, lacking: npt.NDArray[np.int64]) -> SeriesStore:
    lengths = store.lengths + lacking
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    rows = np.repeat(offsets[:-1] + lacking - store.offsets[:-1], store.lengths) + np.arange(len(store.y))
    changes: dict[str, Any] = {"offsets": offsets}
    for name in ROW_ARRAYS:
        array = getattr(store, name)
        if name == "mask" and array is None:
            array = np.ones(len(store.y), dtype=bool)
        if array is not None:
            changes[name] = np.zeros((int(offsets[-1]), *array.shape[1:]), dtype=array.dtype)
            changes[name][rows] = array
    changes |= store.starting_at(-lacking)
    return replace(store, **changes)
