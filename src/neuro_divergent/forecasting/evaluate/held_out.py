"""Forecasts of the rows that a model was not trained on. The metrics of the report come from them.

Letters: N forecasts, H steps, K columns of a forecast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.data.windows.grid import shifts_from_earliest
from neuro_divergent.forecasting.evaluate.residuals import Bias, Dependence, bias_of, dependence_of
from neuro_divergent.forecasting.evaluate.scores import (
    DEFAULT,
    Evaluation,
    HistoricalForecasts,
    Truth,
    scored,
    truth_of,
)
from neuro_divergent.forecasting.fit.training_rows import selection_rows, trained_rows
from neuro_divergent.forecasting.network.output_columns import point_column
from neuro_divergent.forecasting.predict.calibrate_intervals import corrected_by_halves, held_out_origins
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.forecasting.predict.kept import (
    NEIGHBOUR_SERIES,
    NEIGHBOURS,
    unseen_forecasts,
)
from neuro_divergent.forecasting.predict.kept import interval_levels as interval_levels
from neuro_divergent.forecasting.predict.kept import scored_columns as columns_of
from neuro_divergent.metrics.base import AnyMetric, metric_name
from neuro_divergent.metrics.by_name import METRICS, PROBABILISTIC

if TYPE_CHECKING:
    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEW_STRETCHES = 6
"""With at least this many blocks of h rows, the bias is tested over blocks of all series together."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Forecasts of held-out rows, with the actual values and the naive forecast."""

    truth: Truth
    found: HistoricalForecasts
    evaluation: Evaluation
    share: float
    """Share of the rows of the scored series that was held out."""
    neighbours: tuple[Floats, ...] = ()
    """For some series, the errors one step ahead at consecutive forecast origins."""

    @property
    def errors(self) -> Floats:
        """[N, H] actual value minus forecast; NaN where the actual value is missing."""
        return self.truth.actual - self.found.values[:, :, 0]

    @property
    def n_series(self) -> int:
        """How many series were scored."""
        return len(np.unique(self.truth.series))

    def by_step(self) -> pl.DataFrame:
        """The metrics at each step ahead, as a polars frame."""
        frame = self.evaluation.by_step
        if isinstance(frame, pl.DataFrame):
            return frame
        return pl.DataFrame(frame) if isinstance(frame, dict) else pl.from_dataframe(frame)

    def bias(self) -> Bias:
        """The bias of all forecasts. Errors within the same h rows, of all series together, count as one group.

        With fewer than FEW_STRETCHES such groups, each series has its own groups.
        """
        origins = self.truth.origins
        shifts, _ = shifts_from_earliest(origins.table.store)  # series that start between two steps are close enough
        moment = origins.time + origins.gap + shifts[origins.series]
        stretch = (moment.max() + origins.steps - 1 - (moment[:, None] + np.arange(origins.steps))) // origins.steps
        if len(np.unique(stretch[np.isfinite(self.errors)])) < FEW_STRETCHES:
            stretch = stretch + (int(stretch.max()) + 1) * origins.series[:, None]
        return bias_of(self.errors, self.truth.actual, stretch)

    def dependence(self, most: int) -> Dependence | None:
        """The autocorrelation of errors one step ahead, up to `most` lags; None if there are too few errors."""
        lags = min(most, max(map(len, self.neighbours), default=0) // 3)
        return dependence_of(self.neighbours, lags)

    def observed_shares(self) -> list[tuple[float, float]]:
        """For each probability level of the forecasts, the share of actual values at or below the forecast."""
        seen = np.isfinite(self.truth.actual)
        pairs = []
        for position, level in enumerate(self.found.columns.levels):
            if level is not None and seen.any():
                below = (self.truth.actual <= self.found.values[:, :, position])[seen]
                pairs.append((level, float(below.mean())))
        return sorted(pairs)


def held_out_forecasts(fitted: Forecaster) -> HeldOut | None:
    """Forecasts of the held-out rows of a model's training table; None if no rows were held out.

    Those of a refitted model are the kept ones of its selection run.
    """
    table = fitted.data
    return forecasts_between(fitted, table, selection_rows(fitted, table), table.store.lengths)


def _figures(fitted: Forecaster, found: HistoricalForecasts) -> list[AnyMetric] | None:
    """The common metrics (None), or those plus the user's own metrics of the training."""
    own = [item for item in fitted.config.metrics if metric_name(item) not in METRICS]
    common = DEFAULT if len(found.columns.names) > 1 else [name for name in DEFAULT if name not in PROBABILISTIC]
    return [*common, *own] if own else None


def forecasts_between(fitted: Forecaster, table: TimeSeriesDataFrame, first: Ints, last: Ints) -> HeldOut | None:
    """Forecasts of rows first to last of every series. The number of origins is limited, to stay quick.

    If the model's intervals were corrected by their errors on held-out rows, each half of these rows is corrected by
    the errors of the other half here, so that the coverage is that of rows that did not decide the correction.
    """
    lengths = table.store.lengths
    together = fitted.model.together
    origins = held_out_origins(fitted, table, first, last)
    trained = trained_rows(fitted, table)
    if fitted.kept is not None:
        origins = fitted.kept.scorable(origins, trained)
    if not len(origins):
        return None
    columns = columns_of(fitted)
    values = unseen_forecasts(fitted._without(bounds=True, calibration=True), origins, columns, trained)
    values = corrected_by_halves(fitted, origins, columns, values)
    known = np.flatnonzero(np.isfinite(values).any(axis=(1, 2)))  # not windows in neither half
    if not len(known):
        return None
    origins, found = origins.where(known), HistoricalForecasts(columns, values[known])
    truth, seen = truth_of(origins), np.unique(origins.series)
    return HeldOut(
        truth=truth,
        found=found,
        evaluation=scored(truth, {fitted.model.name: found}, _figures(fitted, found)),
        share=float((last - first)[seen].sum() / lengths[seen].sum()),
        neighbours=() if together else _neighbours(fitted, table, first, last),
    )


def _neighbours(fitted: Forecaster, table: TimeSeriesDataFrame, first: Ints, last: Ints) -> tuple[Floats, ...]:
    """Errors one step ahead at every forecast origin of a few series."""
    h = fitted.model.h
    few = np.argsort(first - last, kind="stable")[:NEIGHBOUR_SERIES]
    begin = last.copy()
    begin[few] = np.maximum(first[few], last[few] - h + 1 - NEIGHBOURS)
    origins, trained = Origins.windows(table, begin, last, steps=h, step_size=1), trained_rows(fitted, table)
    if fitted.kept is not None:
        origins = fitted.kept.scorable(origins, trained)
    points = unseen_forecasts(fitted, origins, point_column(fitted.model.name), trained)
    errors = origins.actual()[:, 0] - points[:, 0, 0]
    return tuple(errors[origins.series == number] for number in np.unique(origins.series))
