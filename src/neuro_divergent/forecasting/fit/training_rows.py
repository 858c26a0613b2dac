"""Which rows a model was trained on: whoever judges it looks only at those after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows import split as splits

if TYPE_CHECKING:
    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.model.model import Model
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.training.config.training_config import TrainingConfig
    from neuro_divergent.training.state.history import History

Ints = npt.NDArray[np.int64]

VALIDATION_GIVEN = "validation_given"
"""The event in the history of a training whose table ends with validation rows that no split of it would find:
`rows` of each series, in their order."""


def note_validation(history: History, rows: Ints) -> None:
    """Write down how many rows at the end of each series of a table are for validation."""
    history.events.insert(0, {"step": 0, "epoch": 0, "event": VALIDATION_GIVEN, "rows": rows.tolist()})


def training_rows(model: Model, store: SeriesStore, config: TrainingConfig) -> Ints:
    """[S] how many first rows of each series a configuration trains on; those after them are for validation."""
    share = config.validation_split
    if share == "auto":
        share = config.resolved(model.recipe(len(store.y))).validation_split
    if not isinstance(share, float):
        return store.lengths
    return splits.split_by_time(store, share, model.h, lookback=model.input_size).train[1]


def trained_rows(fitted: Forecaster, table: TimeSeriesDataFrame) -> Ints:
    """[S] how many first rows of each series of a table a model was trained on; none of a series it does not know.

    The end of the training is found by its time, because a table may reach further than the model's own, or less far.
    """
    own, store = fitted.data.store, table.store
    if not fitted.has_context:  # its rows are gone, and with them the time of the last one
        return store.lengths
    end = fitted.data.frequency.advance(own.start, _own_rows(fitted), own.time_zone)
    number = {name: position for position, name in enumerate(own.ids.tolist())}
    known = np.array([number.get(name, -1) for name in store.ids.tolist()], dtype=np.int64)
    return splits.rows_before(store, np.where(known >= 0, end[known], store.start))


def _own_rows(fitted: Forecaster) -> Ints:
    store = fitted.data.store
    if fitted.config.refit_on_all:
        return store.lengths
    given = [event["rows"] for event in fitted.history.events if event.get("event") == VALIDATION_GIVEN]
    if given:
        # Counted from the end, because a model that was saved has kept the end of its table only.
        return store.lengths - np.array(given[0], dtype=np.int64)
    # Of such a rest the split takes less than it took of the whole: what it calls held back was.
    return training_rows(fitted.model, store, fitted.config)
