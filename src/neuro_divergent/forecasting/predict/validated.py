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

REFIT_EVENT = "refit"
"""History event: after the training that the history is about, the weights were trained on all rows. `how` ("all" or
"fine_tune"), and the `epochs`, `steps`, first `learning_rate` and `train_loss` of that second training."""

_OLD_REFIT = "refit_on_all"
"""The event of earlier versions, whose history is about the second training."""

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


def refit_event(history: History) -> dict[str, Any] | None:
    """The record of a training on all rows after the first one; None without one."""
    return next((event for event in history.events if event.get("event") in (REFIT_EVENT, _OLD_REFIT)), None)


def refit_words(history: History) -> str:
    """Text that describes the training on all rows; empty without one."""
    event = refit_event(history)
    if event is None:
        return ""
    if event.get("how") != "fine_tune":
        return f"refit on all rows: {event['epochs']} epoch{'s' * (event['epochs'] != 1)}"
    return (
        f"refit on all rows: {event['steps']} step{'s' * (event['steps'] != 1)} from the best weights, at a learning "
        f"rate of at most {event['learning_rate']:.3g}"
    )


BEFORE_REFIT = "scores of the selection run, before the refit on all rows"
"""What the metrics of a refitted model are: its network has seen the held-out rows by now."""


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
