"""Scores of a portfolio on held-out windows.

Letters: M members, N windows, H steps, K columns of a forecast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from neuro_divergent.forecasting.evaluate.scores import (
    HistoricalForecasts,
    Truth,
    check_names,
    overall_figures,
    truth_of,
)
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.metrics.base import AnyMetric, badness

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEW_SERIES = 8
"""With fewer series the guard of the ensemble divides the windows by time, not by series."""


@dataclass(frozen=True)
class Scorer:
    """Scores forecasts of some windows with one metric."""

    origins: Origins
    season: int
    metric: AnyMetric
    columns: Columns

    @cached_property
    def truth(self) -> Truth:
        """The actual values of the windows."""
        truth = truth_of(self.origins, season=self.season)
        truth.scales(squared=False), truth.scales(squared=True)
        return truth

    def value(self, forecasts: Floats) -> float:
        """The metric of forecasts [N, H, K]; the mean over its levels, if it has one for each."""
        return self._value(self.truth, forecasts)

    def badness(self, forecasts: Floats, some: Ints | None = None) -> float:
        """The metric as a number that is smaller for better forecasts, of all windows or of some."""
        truth = self.truth if some is None else self._some(some)
        return badness(self.named, self._value(truth, forecasts))

    def worse(self, value: float) -> float:
        """A value of the metric as a number that is smaller for better forecasts."""
        return badness(self.named, value)

    @cached_property
    def named(self) -> str:
        """The name of the metric as `badness` knows it."""
        return next(iter(check_names([self.metric])))

    @cached_property
    def groups(self) -> Ints:
        """[N] the group of each window, for the guard of the ensemble: its series, or its time."""
        series = np.unique(self.origins.series)
        if len(series) >= FEW_SERIES:
            return np.asarray(self.origins.series)
        counted = self.origins.table.store.lengths[self.origins.series] - self.origins.time
        return np.asarray(np.unique(counted, return_inverse=True)[1], dtype=np.int64)

    @cached_property
    def moments(self) -> int:
        """How many windows lie one after the other in time."""
        return int(np.bincount(self.origins.series).max())

    def _value(self, truth: Truth, forecasts: Floats) -> float:
        item = HistoricalForecasts(self.columns, forecasts)
        found = overall_figures(truth, item, check_names([self.metric]), True, "pooled")
        name = self.named
        own = [
            value if name != "coverage" else badness(key, value)
            for key, value in found.items()
            if key == name or key.startswith(f"{name}-")
        ]
        return float(np.mean(own)) if own else math.nan

    def _some(self, some: Ints) -> Truth:
        key = some.tobytes()
        if key not in self._parts:
            truth = self.truth
            part = replace(truth, origins=self.origins.where(some), actual=truth.actual[some], naive=truth.naive[some])
            for name in ("_absolute_scales", "_squared_scales"):  # those of all windows: they belong to the series
                part.__dict__[name] = getattr(truth, name)
            self._parts[key] = part
        return self._parts[key]

    @cached_property
    def _parts(self) -> dict[bytes, Truth]:
        return {}
