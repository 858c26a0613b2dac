"""Describes the rows that a model was validated on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.training.state.history import History

HELD_OUT = "held_out"
"""History event: the table ends with rows that were not trained on. `rows` of each series, in their order; `how` they
were chosen ("given", "date", "series", "update"); their `share` of all rows, if known;
for a date the `time` where they begin, as text (in UTC if the table has a time zone) or as a whole number."""

TRAINED_BEFORE = "trained_before"
"""History event: the training began with the weights of another model, or learned from its forecasts. `until` is the
first time of each series of `ids` that the other model was not trained on. `dates` says whether times are microseconds,
or the whole numbers of the table."""

How = Literal["given", "date", "series", "update"]
"""Held-out rows were given by the user, begin at one date for all series, are the end of each series, or the end of
the rows that an update brought."""

_GIVEN_ONLY = "validation_given"
"""The event of earlier versions, which recorded only rows that were given."""


def held_out_event(history: History) -> dict[str, Any] | None:
    """The newest record of held-out rows; None without one."""
    return next(held_out_events(history), None)


def held_out_events(history: History) -> Iterator[dict[str, Any]]:
    """All records of held-out rows, the newest first."""
    for event in history.events:
        if event.get("event") in (HELD_OUT, _GIVEN_ONLY):
            yield {"how": "given", "time": None} | event


def validated_on(fitted: Forecaster) -> str:
    """Text that names the rows on which a model was validated; empty if it was not validated."""
    if not fitted.history.validation_loss:
        return ""
    noted = held_out_event(fitted.history)
    share = fitted.config.validation_split
    if noted is not None and isinstance(noted.get("share"), float):
        share = noted["share"]  # more than the configured one, if the horizon needs more rows
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
