"""Which rows a model was trained on. Evaluation uses only rows after them.

Rows that may have been trained on count as trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from neuro_divergent.data.agreement import check_together, names_of
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows import split as splits
from neuro_divergent.forecasting.predict.ahead import context_rows
from neuro_divergent.forecasting.predict.validated import HELD_OUT, TRAINED_BEFORE, How, held_out_event, refit_event

if TYPE_CHECKING:
    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.model.model import Model
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.training.config.training_config import TrainingConfig
    from neuro_divergent.training.state.history import History

Ints = npt.NDArray[np.int64]


def note_held_out(history: History, rows: Ints, how: How, time: Any = None, share: float | None = None) -> None:
    """Record how many rows at the end of each series were held out, and how they were chosen.

    Args:
        history: the history of the training.
        rows: [S] the number of held-out rows, in the order of the series.
        how: one of the values of `How`.
        time: the time where they begin, if they were chosen by date.
        share: the share of the rows of all series that they are, if known.
    """
    plain = str(time) if isinstance(time, np.datetime64) else None if time is None else int(time)
    event = {"event": HELD_OUT, "rows": rows.tolist(), "how": how, "time": plain, "share": share}
    history.events.insert(0, {"step": 0, "epoch": 0} | event)


def note_parent(fitted: Forecaster, parent: Forecaster) -> None:
    """Record on which rows the parent of a model was trained."""
    ends = _ends(parent)
    dates = parent.data.store.start.dtype.kind == "M"
    event = {"event": TRAINED_BEFORE, "ids": list(ends), "until": list(ends.values()), "dates": dates}
    fitted.history.events.insert(0, {"step": 0, "epoch": 0} | event)


def split_rule(store: SeriesStore, config: TrainingConfig) -> Literal["date", "series"]:
    """Whether the held-out rows of all series begin at one time, or are the end of each series."""
    if config.split_by == "auto":
        return "date" if splits.common_dates(store) else "series"
    return config.split_by


def held_out_share(model: Model, store: SeriesStore, config: TrainingConfig) -> float | None:
    """The share of the rows that a configuration holds out; None for none."""
    share = config.validation_split
    if share == "auto":
        share = config.resolved(model.recipe(len(store.y))).validation_split
    return share if isinstance(share, float) else None


def training_rows(model: Model, store: SeriesStore, config: TrainingConfig) -> Ints:
    """[S] how many first rows of each series a configuration trains on. The rows after them are for validation."""
    share = held_out_share(model, store, config)
    if share is None:
        return store.lengths
    cut = splits.split_at_cutoff if split_rule(store, config) == "date" else splits.split_by_time
    return cut(store, share, model.h, lookback=model.input_size).train[1]


def rows_to_train(model: Model) -> int:
    """The minimum number of training rows with which a series is in a training window, padded windows included.

    A multivariate model sees every row.
    """
    return 1 if model.capabilities.multivariate else model.h + 1


def unseen_from(members: Sequence[Forecaster], table: TimeSeriesDataFrame) -> Ints:
    """[S] the first row of each series of a table that none of the models was trained on, nor on any later row.

    For a refitted model that is the first row after its selection run: `Forecaster.kept` has forecasts from there on.
    """
    for member, name in zip(members, names_of([member.model.name for member in members]), strict=True):
        check_together(member.data, table, "clock", (name, "the table"))
    return np.asarray(np.max([selection_rows(member, table) for member in members], axis=0))


def selection_rows(fitted: Forecaster, table: TimeSeriesDataFrame) -> Ints:
    """[S] like `trained_rows`, before the refit of a model that kept the forecasts of its selection run."""
    return trained_rows(fitted, table, before_refit=fitted.kept is not None)


def trained_rows(fitted: Forecaster, table: TimeSeriesDataFrame, *, before_refit: bool = False) -> Ints:
    """[S] how many first rows of each series of a table a model was trained on; 0 for a series that it does not know.

    The end of the training is found by its time: the table may end later or earlier than the model's own table. With
    `before_refit` the rows that only a refit was trained on do not count.
    """
    store, ends = table.store, _ends(fitted, before_refit)
    nothing = _ticks(store.start)
    until = np.array([ends.get(name, nothing[i]) for i, name in enumerate(store.ids.tolist())], dtype=np.int64)
    return splits.rows_before(store, until.astype(store.start.dtype))


def _ends(fitted: Forecaster, before_refit: bool = False) -> dict[Any, int]:
    """By series, the first time that neither the model nor its parents were trained on."""
    own = fitted.data.store
    ticks = _ticks(own.times(_own_rows(fitted, before_refit)))
    ends = dict(zip(own.ids.tolist(), ticks.tolist(), strict=True))
    for event in (event for event in fitted.history.events if event.get("event") == TRAINED_BEFORE):
        if event["dates"] == (own.start.dtype.kind == "M"):  # a table with another kind of time has other rows
            for name, until in zip(event["ids"], event["until"], strict=True):
                ends[name] = max(until, ends.get(name, until))
    return ends


def _own_rows(fitted: Forecaster, before_refit: bool) -> Ints:
    """[S] how many first rows of its own table a model was trained on."""
    store = fitted.data.store
    if not fitted.has_context:
        # At least one of the recorded rows is there, so the table ended within that many rows. An update may have added
        # rows.
        return np.maximum(store.lengths, context_rows(fitted.model, fitted.data.schema))
    given = held_out_event(fitted.history)
    refitted = refit_event(fitted.history) is not None and not before_refit
    if refitted or given is None or len(given["rows"]) != len(store.ids):
        return store.lengths
    # Counted from the end, because a saved model has only the end of its table.
    return store.lengths - np.array(given["rows"], dtype=np.int64)


def _ticks(times: npt.NDArray[Any]) -> Ints:
    return np.asarray(times.astype("datetime64[us]") if times.dtype.kind == "M" else times).astype(np.int64)
