"""The settings of an AutoForecaster."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.executors.workers import check_executor
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.core.registry import closest
from neuro_divergent.forecasting.evaluate.scores import check_names
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.metrics.base import MetricField, metric_name
from neuro_divergent.search.amounts import Duration
from neuro_divergent.search.auto.portfolio import Preset, check_named

if TYPE_CHECKING:
    from neuro_divergent.search.auto.result import AutoResult


def _preset(value: Any) -> Any:
    names = list(get_args(Preset))
    if value in names:
        return value
    near = closest(str(value), names) or names
    raise ConfigError(
        f"preset must be {', '.join(map(repr, names[:-1]))} or {names[-1]!r}, but got preset={value!r}. Did you mean "
        f"{' or '.join(near)}?"
    )


def _several(value: Any) -> Any:
    if value is None:
        return None
    given = (value,) if isinstance(value, str | Description | type) else tuple(value)
    return tuple(one.kind if isinstance(one, type) and issubclass(one, Model) else one for one in given)


def _callbacks(value: Any) -> Any:
    given = (value,) if callable(value) else tuple(value)
    for one in given:
        if not callable(one):
            raise ConfigError(f"callbacks must be functions of a row of the leaderboard, but got {one!r}")
    return given


def _levels(value: Any) -> Any:
    given = (value,) if isinstance(value, int | float) else tuple(value)
    for one in given:
        if isinstance(one, bool) or not isinstance(one, int | float) or not 0 < one < 100:
            raise ConfigError(f"level must be percentages between 0 and 100, such as [80, 95], but got {one!r}")
    return tuple(float(one) for one in given)


class AutoForecaster(Description):
    """Finds a good forecast by itself: a portfolio of models, an ensemble, and a search, in a given time.

    `fit(data)` trains the models that suit the table, the most promising first, without the last windows of every
    series. An ensemble is chosen on the first of these windows and scored on the later ones, which decide nothing.
    The chosen models are then trained on all rows.
    """

    writes: ClassVar[tuple[str, ...]] = ("directory",)

    h: Annotated[int, Field(ge=1, kw_only=False)]
    """The horizon: how many steps ahead are forecast."""
    preset: Annotated[Preset, BeforeValidator(_preset)] = "medium"
    """How many models are tried: "fast" three, "medium" seven, "best" thirteen and then a search of the best model's
    settings. The other presets search, too, if time is left."""
    time_limit: Takes[Duration, str | float] = default(600.0)
    """Time for everything: seconds, or a text such as "10min". It is exceeded by at most 5 %."""
    metric: Takes[MetricField, Any] = default("mase")
    """The metric of `evaluate` that decides: its name, a `Metric`, or a function. A metric of intervals or quantiles
    trains quantiles."""
    level: Annotated[tuple[float, ...], BeforeValidator(_levels)] = (80.0, 95.0)
    """Central intervals in percent that are reported, and trained if the metric needs them."""
    intervals: PredictionIntervals | Literal["auto"] | None = "auto"
    """How the errors on held-out windows become intervals. "auto" pools all series where one has few windows. None for
    no intervals. If the metric needs quantiles, they are trained and corrected instead."""
    include: Takes[Annotated[tuple[Any, ...] | None, BeforeValidator(_several)], Any] = default(None)
    """Models to train instead of the portfolio: names, families (mlp, recurrent, convolutional, transformer, other) or
    descriptions such as nd.NHITS(h=24, input_size=168). The naive forecasts are always there."""
    exclude: Takes[Annotated[tuple[Any, ...], BeforeValidator(_several)], Any] = default(())
    """Models to leave out: names, families or descriptions."""
    n_windows: Literal["auto"] | Annotated[int, Field(ge=2)] = "auto"
    """Held-out windows of each series. The last third of them (at least one) only scores; the others choose. "auto"
    takes two and one of many series, and more of few long ones."""
    search: bool = True
    """Search settings of the best model with the time that is left; it needs the extra `search`."""
    calendar: bool = True
    """Give models columns of the calendar (hour, day of the week, day of the year) that suit the frequency of a table
    with dates, unless it has features."""
    n_jobs: int = 1
    """Models trained at the same time, each in a process of its own with one thread; -1 for one per core."""
    seed: int = 1
    """Seed of all trainings and of the search."""
    directory: Takes[Path | None, str | os.PathLike[str] | None] = default(None)
    """Where the work is saved, so that it can go on after a crash: fit(data, resume="auto"). None uses a temporary
    directory."""
    callbacks: Annotated[tuple[Any, ...], BeforeValidator(_callbacks)] = ()
    """Functions of a row of the leaderboard (a dict), called after each model. A function that returns True ends the
    trainings; the ensemble is then made of what there is."""
    progress: bool | Literal["auto"] = "auto"
    """A progress line; "auto" shows it on a terminal only."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        check_executor(None, self.n_jobs)
        check_names([self.metric])
        if self.metric_name.partition("-")[0] == "coverage":
            raise ConfigError(
                "metric must say how good a forecast is, but a coverage can be right with useless intervals. Use "
                "metric='scaled_crps', 'pinball' or 'interval_score'"
            )
        if self.include is not None and not self.include:
            raise ConfigError("include must name a model, but got an empty list. Leave it out for the portfolio")
        check_named((*(self.include or ()), *self.exclude))
        for one in self.include or ():
            if getattr(one, "h", self.h) != self.h and not isinstance(one, type):
                raise ConfigError(f"included models must have h={self.h}, but {one.kind} has h={one.h}")
        return self

    @property
    def metric_name(self) -> str:
        """The name of the metric that decides."""
        return metric_name(self.metric)

    def fit(self, data: Any, *, resume: str | None = None, **columns: Any) -> AutoResult:
        """Train the models on a table, choose, and return the fitted result.

        Args:
            data: a TimeSeriesDataFrame, or any frame that `from_frame` takes.
            resume: "auto" goes on in the directory, or begins if there is nothing: finished models are not trained
                again, and the time that was used before counts.
            columns: arguments of `from_frame` when `data` is a plain frame.
        """
        begun = time.perf_counter()  # imports take time, too
        from neuro_divergent.search.auto.run import run_auto

        return run_auto(self, data, resume, columns, begun)
