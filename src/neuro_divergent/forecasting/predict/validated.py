"""What a model was validated on, in words: whoever shows a figure of the validation says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.training.state.history import History

HELD_OUT = "held_out"
"""The event in the history of a training whose table ends with rows that it was not trained on: `rows` of each series,
in their order; `how` they were chosen ("given", "date", "series", "update"); for a date the `time` where they begin, as
text (in UTC where the table has a time zone) or as a whole number."""

TRAINED_BEFORE = "trained_before"
"""The event in the history of a training that began with the weights, or learned from the forecasts, of another model:
`until`, the first moment of each series of `ids` that the other one was not trained on. `dates` says what moments are:
microseconds, or the whole numbers of the table."""

How = Literal["given", "date", "series", "update"]
"""Held-out rows were given by the user, begin at one date for all series, are the end of each series, or the end of
the rows that an update brought."""

_GIVEN_ONLY = "validation_given"
"""The event of earlier versions, which noted only rows that were given."""


def held_out_event(history: History) -> dict[str, Any] | None:
    """What a training noted of the rows that it held out; None where it noted nothing."""
    return next(held_out_events(history), None)


def held_out_events(history: History) -> Iterator[dict[str, Any]]:
    """All such notes, the newest first."""
    for event in history.events:
        if event.get("event") in (HELD_OUT, _GIVEN_ONLY):
            yield {"how": "given", "time": None} | event


def validated_on(fitted: Forecaster) -> str:
    """Which rows a model was validated on; empty where it was not."""
    if not fitted.history.validation_loss:
        return ""
    noted = held_out_event(fitted.history)
    share = fitted.config.validation_split
    if noted is not None and noted["how"] == "given":
        return "the rows given for validation"
    if noted is not None and noted["how"] == "update":
        return "the last rows of the update"
    if noted is not None and noted["how"] == "date":
        cutoff = np.datetime64(noted["time"], "us") if isinstance(noted["time"], str) else noted["time"]
        time = fitted.data._stamps(np.array([cutoff]))[0]
        return f"the rows from {time} on, one cutoff for all series"
    each = "each series" if fitted.data.n_series > 1 else "the rows"
    return f"the last {100 * share:.0f} % of {each}" if isinstance(share, float) else ""
