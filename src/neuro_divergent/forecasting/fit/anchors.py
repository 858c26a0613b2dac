"""The season lengths of a model's anchor, and the lags that its network reads, for a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.time import seasonality
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.anchor import remembered

Lengths = tuple[int, ...]


def anchor_and_lags(
    model: Model, store: SeriesStore, rows: npt.NDArray[np.int64] | None = None
) -> tuple[Lengths, Lengths]:
    """The season lengths of the model's anchor for this table, and the lags that its network reads.

    An anchor is () for none and (1,) for the last value. Lags are () for a network that reads none.

    Seasons are inferred from the first rows[s] rows of each series, the training rows; None for all rows.
    """
    seasons = cache(lambda: seasonality.detect(store.y, store.offsets, store.mask, store.freq, rows=rows))
    return _anchor(model, seasons), _lags(model, seasons, store, rows)


def _lags(
    model: Model, seasons: Callable[[], Lengths], store: SeriesStore, rows: npt.NDArray[np.int64] | None
) -> Lengths:
    wanted = model.lags_read
    if wanted != "auto":
        return wanted or ()
    shown = _fitting(model, seasons()) if model.sees_target else ()
    # Where the data shows one season, the network may use the others that are usual at this frequency.
    usual = seasonality.suggest(store.freq) if shown else ()
    more = tuple(length for length in usual if length not in shown and length <= model.input_size)
    rows = store.lengths if rows is None else rows
    windows = int(np.maximum(rows - model.input_size - model.h + 1, 0).sum())
    return model.lags_of(shown + more, windows)


def _anchor(model: Model, seasons: Callable[[], Lengths]) -> Lengths:
    wanted = model.anchor
    if wanted is None or (wanted == "auto" and (model.feeds_back or not model.sees_target)):
        return ()
    if wanted == "last":
        return (1,)
    if isinstance(wanted, tuple):
        too_long = [length for length in wanted if length > model.input_size]
        if too_long:
            raise DataError(
                "an anchor repeats a season of the window, so it must not be longer than "
                f"input_size={model.input_size}, but got anchor={list(wanted)}. Raise input_size to {max(wanted)}"
            )
        return wanted
    fitting = _fitting(model, seasons())
    if wanted == "seasonal" and not fitting:
        raise DataError(
            f"anchor='seasonal' needs a season that fits into input_size={model.input_size}, but the data shows "
            f"{list(seasons()) or 'none'}. Raise input_size, give the length (anchor=[24]) or use anchor='last'",
            advice=[Advice("model.anchor", "[24]"), Advice("model.anchor", "last")],
        )
    return fitting or (1,)


def _fitting(model: Model, found: Lengths) -> Lengths:
    """The strongest seasons that the window can hold; () if there is none."""
    fitting = tuple(length for length in found if length <= model.input_size)
    return remembered(fitting[:2], model.input_size) if fitting else ()
