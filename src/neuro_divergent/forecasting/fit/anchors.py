"""The season lengths of a model's anchor for a table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.time import seasonality
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.anchor import remembered


def anchor_lengths(model: Model, store: SeriesStore, rows: npt.NDArray[np.int64] | None = None) -> tuple[int, ...]:
    """The season lengths of the model's anchor for this table; () for no anchor, (1,) for the last value.

    Seasons are inferred from the first rows[s] rows of each series, the training rows; None for all rows.
    """
    wanted = model.anchor
    if wanted is None:
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
    found = seasonality.detect(store.y, store.offsets, store.mask, store.freq, rows=rows)
    fitting = tuple(length for length in found if length <= model.input_size)
    if wanted == "seasonal" and not fitting:
        raise DataError(
            f"anchor='seasonal' needs a season that fits into input_size={model.input_size}, but the data shows "
            f"{list(found) or 'none'}. Raise input_size, give the length (anchor=[24]) or use anchor='last'",
            advice=[Advice("model.anchor", "[24]"), Advice("model.anchor", "last")],
        )
    return remembered(fitting[:2], model.input_size) if fitting else (1,)
