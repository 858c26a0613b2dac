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
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.forecasting.predict.kept import (
    MAX_MOMENTS,
    NEIGHBOUR_SERIES,
    NEIGHBOURS,
    KeptForecasts,
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

MAX_FORECASTS = 1500
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
    """Forecasts of rows first to last of every series. The number of origins is limited, to stay quick."""
    h, lengths = fitted.model.h, table.store.lengths
    counts = np.maximum(last - first - h + 1, 0)
    if not counts.sum():
        return None
    together = fitted.model.together
    most = MAX_MOMENTS if together else max(1, MAX_FORECASTS // max(1, int(np.count_nonzero(counts))))
    chosen = np.ones(len(counts), dtype=bool) if together else _evenly(counts)
    step = max(1, -(-int(counts.max()) // most)) if fitted.kept is None else fitted.kept.step
    first_used = np.where(chosen, first, last)
    origins = Origins.windows(table, first_used, last, steps=h, step_size=step, together=together)
    if not len(origins):
        return None
    columns, trained = columns_of(fitted), trained_rows(fitted, table)
    if fitted.kept is not None:
        origins = _with_kept(fitted.kept, origins, trained)
        if not len(origins):
            return None
    found = HistoricalForecasts(columns, unseen_forecasts(fitted, origins, columns, trained))
    truth, seen = truth_of(origins), np.unique(origins.series)
    return HeldOut(
        truth=truth,
        found=found,
        evaluation=scored(truth, {fitted.model.name: found}, _figures(fitted, found)),
        share=float((last - first)[seen].sum() / lengths[seen].sum()),
        neighbours=() if together else _neighbours(fitted, table, first, last),
    )


def _with_kept(kept: KeptForecasts, origins: Origins, trained: Ints) -> Origins:
    """The origins that a refitted model can be scored at: those of kept forecasts, and those after its last row."""
    return origins.where((kept.find(origins) >= 0) | (origins.time >= trained[origins.series]))


def _neighbours(fitted: Forecaster, table: TimeSeriesDataFrame, first: Ints, last: Ints) -> tuple[Floats, ...]:
    """Errors one step ahead at every forecast origin of a few series."""
    h = fitted.model.h
    few = np.argsort(first - last, kind="stable")[:NEIGHBOUR_SERIES]
    begin = last.copy()
    begin[few] = np.maximum(first[few], last[few] - h + 1 - NEIGHBOURS)
    origins, trained = Origins.windows(table, begin, last, steps=h, step_size=1), trained_rows(fitted, table)
    if fitted.kept is not None:
        origins = _with_kept(fitted.kept, origins, trained)
    points = unseen_forecasts(fitted, origins, point_column(fitted.model.name), trained)
    errors = origins.actual()[:, 0] - points[:, 0, 0]
    return tuple(errors[origins.series == number] for number in np.unique(origins.series))


def _evenly(counts: Ints) -> npt.NDArray[np.bool_]:
    """Which series to score: all of them, or MAX_FORECASTS evenly spaced ones."""
    possible = np.flatnonzero(counts)
    wanted = min(len(possible), MAX_FORECASTS)
    chosen = possible[np.linspace(0, len(possible) - 1, wanted).round().astype(np.int64)]
    return np.isin(np.arange(len(counts)), chosen)
