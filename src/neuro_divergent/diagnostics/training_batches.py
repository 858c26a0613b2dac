"""Batches of the training windows of a fitted model, from its own rows or from a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import DataError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.samplers import Sequential
from neuro_divergent.data.windows.windows import Windows
from neuro_divergent.forecasting.fit.training_rows import trained_rows
from neuro_divergent.forecasting.network.columns_taken import taken_columns

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

MOST_WINDOWS = 2048
BATCH = 256


def training_batches(fitted: Forecaster, data: Any = None, most: int = MOST_WINDOWS) -> Iterator[Batch]:
    """At most about `most` windows, evenly spread, as batches on the model's device and in its precision.

    Args:
        fitted: the model.
        data: a table; None for the rows that the model keeps. Of these, only windows that it was trained on are used if
            there are any; a loaded model keeps its last rows only, and uses them.
        most: limit of the number of windows.
    """
    windows = _windows(fitted, data, most)
    weight = next(fitted.module.parameters(), None)
    batch_of = windows.batches(Sequential(len(windows), BATCH))
    for number in range(-(-len(windows) // BATCH)):
        batch = batch_of(0, number)
        yield batch if weight is None else batch.to(weight.device, weight.dtype)


def _windows(fitted: Forecaster, data: Any, most: int) -> Windows:
    model, table = fitted.model, fitted.data if data is None else fitted.in_own_codes(fitted.table(data))
    if not fitted.has_context and data is None:
        raise DataError("the model was saved without rows (context=False): give the table it was trained on as data=")
    scaled = table if fitted.local is None else fitted.local.scaled(table)
    lengths = table.store.lengths
    for until in (trained_rows(fitted, table), lengths) if data is None else (lengths,):
        windows = _between(fitted, scaled, until)
        if len(windows):
            return windows if len(windows) <= most else _between(fitted, scaled, until, -(-len(windows) // most))
    raise DataError(
        f"a window has input_size={model.input_size} and h={model.h} rows, but the longest of the rows at hand has "
        f"{int(lengths.max(initial=0))}. Give the table that the model was trained on as data="
    )


def _between(fitted: Forecaster, table: TimeSeriesDataFrame, until: Any, step: int = 1) -> Windows:
    model, store = fitted.model, taken_columns(fitted.model, table.store)
    return Windows(
        store,
        lookback=model.input_size,
        horizon=model.h,
        step=step,
        target_range=(np.zeros_like(until), until),
        multivariate=model.capabilities.multivariate,
        short="pad",
        historical_categorical=tuple(n for n in table.schema.historical_categorical if n in store.categories),
    )
