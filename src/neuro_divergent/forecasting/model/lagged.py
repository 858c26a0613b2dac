"""The base class of models that read lags of the target beside each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from neuro_divergent.core.errors import Advice, ConfigError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.data.features.features import parse_features
from neuro_divergent.data.time.seasonality import usual_calendar
from neuro_divergent.forecasting.model.model import AnchorField, LagsField, Model

LEAST_WINDOWS = 160
"""With fewer training windows, a recurrent network with an anchor reads no lags. On monthly and quarterly series of 119
to 211 rows lags raised the error of LSTM and GRU by several percent (docs/accuracy.md)."""

CalendarField = Literal["auto"] | tuple[str, ...] | None


class LaggedModel(Model):
    """A model whose network reads, beside each step, the target one or more seasons before it.

    It also corrects a naive forecast unless told otherwise. On hourly, half-hourly and quarterly data both lowered the
    error (docs/accuracy.md).
    """

    before: ClassVar[Mapping[str, Any]] = {"lags": None, "calendar": None}

    anchor: Takes[AnchorField, Literal["last", "seasonal", "auto"] | Sequence[int] | None] = default("auto")
    """The naive forecast that the network corrects: none, the last value, the season, or season lengths. "auto" takes
    the seasons that the data shows, else the last value, and none if the model feeds its forecasts back."""
    lags: Takes[LagsField, Literal["auto"] | Sequence[int] | None] = default("auto")
    """Lags of the target that the network reads beside a step: "auto" for the seasons that fit into input_size (those
    that the data shows and, if it shows one, those usual at its frequency; none if the table is one short series), your
    own lags, or none. With lags only the last steps of the window are read one by one."""

    calendar: Takes[CalendarField, Literal["auto"] | Sequence[str] | None] = default("auto")
    """Columns of the calendar that the network reads beside the table's own: "auto" for hour and day of the week, where
    the time stamps are dates and the steps short enough; your own (names as in `features=`), or none."""

    @model_validator(mode="after")
    def _calendar_is_known_ahead(self) -> Self:
        names = self.calendar if isinstance(self.calendar, tuple) else ()
        for feature in parse_features(names):
            if feature.role != "future":
                raise ConfigError(
                    f"calendar must name columns that are known ahead, but got {feature.name!r}. Read the table with "
                    f"features=[{feature.name!r}]",
                    advice=[Advice("data.features", feature.name)],
                )
        return self

    @model_validator(mode="after")
    def _lags_of_what_is_seen(self) -> Self:
        if not isinstance(self.lags, tuple):
            return self
        if not self.sees_target:
            raise ConfigError(
                "lags are values of the target's past, which sees_target=False hides, but got "
                f"lags={list(self.lags)}. Set lags=None"
            )
        if not self.lags or len(set(self.lags)) < len(self.lags):
            raise ConfigError(f"lags must be distinct numbers of steps, or None, but got lags={list(self.lags)}")
        if max(self.lags) > self.input_size:
            raise ConfigError(
                f"a lag is read from the window, so it must not be longer than input_size={self.input_size}, but got "
                f"lags={list(self.lags)}. Raise input_size to {max(self.lags)}"
            )
        return self

    @property
    def lags_read(self) -> LagsField:
        """Lags of the target that the network reads beside each step."""
        return self.lags

    def lags_of(self, seasons: tuple[int, ...], windows: int) -> tuple[int, ...]:
        """The seasons; no lags for a recurrent network that has few windows to learn from, see LEAST_WINDOWS."""
        few = windows < LEAST_WINDOWS and self.group == "recurrent" and not self.feeds_back
        return () if few else seasons

    def calendar_read(self, freq: str) -> tuple[str, ...]:
        """Columns of the calendar that the network reads in a table of this frequency."""
        if self.calendar != "auto":
            return self.calendar or ()
        return usual_calendar(freq)

    def decided(self, lags: tuple[int, ...]) -> Self:
        """The same model with these lags, () for none, and no columns of the calendar beside the table's."""
        return self.replace(lags=lags or None, calendar=None)
