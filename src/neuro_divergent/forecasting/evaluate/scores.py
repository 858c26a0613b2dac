"""Metrics of forecasts: per series, per step ahead and overall, always beside the seasonal naive forecast.

Letters: N forecasts, S series, H steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent import metrics
from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import ConfigError, DataError, UnknownNameError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.coverage import IntervalCoverage, measured_coverage
from neuro_divergent.forecasting.evaluate.seasonal_naive import naive_from, naive_scales, season_of
from neuro_divergent.forecasting.fit.training_rows import selection_rows, trained_rows
from neuro_divergent.forecasting.network.column_names import check_figure_names
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.ahead import checked_horizon
from neuro_divergent.forecasting.predict.historical import Origins, actual
from neuro_divergent.forecasting.predict.validated import BEFORE_REFIT
from neuro_divergent.losses.probability_levels import Levels
from neuro_divergent.metrics.base import AnyMetric, Metric, figure, named_metrics
from neuro_divergent.metrics.by_name import POINT, PROBABILISTIC

if TYPE_CHECKING:
    from neuro_divergent.forecasting.evaluate.errors import ForecastErrors
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Axis = int | tuple[int, ...] | None
Aggregate = Literal["pooled", "mean"]
"""One metric over the values of all series, or the mean of the metrics of the series."""

DEFAULT = ("mae", "rmse", "smape", "mase", "bias_percent", *PROBABILISTIC)


@dataclass(frozen=True)
class HistoricalForecasts:
    """Forecasts of one model (or the naive one) at many forecast origins."""

    columns: Columns
    values: Floats
    """[N, H, K]"""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The actual values at some forecast origins, and what is needed to score forecasts of them."""

    origins: Origins
    actual: Floats
    """[N, H] NaN where the value is missing."""
    naive: Floats
    """[N, H] the seasonal naive forecast from the same rows."""
    season: int

    @property
    def series(self) -> Ints:
        """[N] the series of each forecast."""
        return self.origins.series

    @property
    def time(self) -> Ints:
        """[N] the first row of each series that the forecast did not see."""
        return self.origins.time

    @property
    def gap(self) -> Ints:
        """[N] number of rows between the last row seen and the first row forecast."""
        return self.origins.gap

    @property
    def naive_name(self) -> str:
        """Name of the seasonal naive forecast."""
        return f"seasonal naive ({self.season})"

    def with_naive(self, found: dict[str, HistoricalForecasts]) -> dict[str, HistoricalForecasts]:
        """The forecasts of the models, followed by the seasonal naive forecast."""
        name = self.naive_name
        return found | {name: HistoricalForecasts(Columns((name,), (None,)), self.naive[:, :, None])}

    def scales(self, *, squared: bool) -> Floats:
        """[N, 1] in-sample error of the seasonal naive forecast, over the rows before the series' first forecast."""
        return (self._squared_scales if squared else self._absolute_scales)[self.series, None]

    @cached_property
    def _absolute_scales(self) -> Floats:
        return naive_scales(self.origins.table.store, _rows_before(self.origins), self.season, squared=False)

    @cached_property
    def _squared_scales(self) -> Floats:
        return naive_scales(self.origins.table.store, _rows_before(self.origins), self.season, squared=True)

    def last(self) -> Floats:
        """[N, 1] the value before the first step."""
        return actual(self.origins.table.store, self.series, self.time + self.gap - 1, 1)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Scores of forecasts. Frames have the type of the input (polars, pandas, ...)."""

    overall: Any
    """One row per model: every metric over all forecasts."""
    by_series: Any
    """One row per model and series; the model's name is in the column model (model_name if that names the series)."""
    by_step: Any
    """One row per model and step ahead."""
    frame: Any
    """The forecasts themselves: id, time, cutoff, actual value, a column per model and level."""
    season: int
    """The season of the naive forecast."""
    aggregate: Aggregate = "pooled"
    """How `overall` and `by_step` summarise the series."""
    table: pl.DataFrame = field(repr=False)
    """`overall` as a polars frame."""
    coverage: tuple[IntervalCoverage, ...] = field(repr=False, default=())
    """For each model and interval, how many actual values were inside. The widest interval comes first."""
    scored: tuple[Truth, Mapping[str, HistoricalForecasts]] | None = field(repr=False, default=None, compare=False)
    """The actual values and the forecasts, from which `errors` is computed."""

    @property
    def errors(self) -> ForecastErrors:
        """The errors by step ahead, series, hour, weekday, month and level, with plots; see `ForecastErrors`."""
        from neuro_divergent.forecasting.evaluate.errors import ForecastErrors

        assert self.scored is not None
        return ForecastErrors(truth=self.scored[0], found=self.scored[1])

    def __getitem__(self, key: tuple[str, str]) -> float:
        """The value of one metric: evaluation["NHITS", "mae"]."""
        name, metric = key
        row = self.table.filter(pl.col("model") == name)
        if not len(row) or metric not in row.columns:
            known = ", ".join([*self.table["model"], *self.table.columns[1:]])
            raise UnknownNameError(f"there is no metric {metric!r} of {name!r}. Known names are: {known}")
        return float(row[metric][0])

    def __repr__(self) -> str:
        how = "all values pooled" if self.aggregate == "pooled" else "mean of the series"
        return f"Evaluation(seasonal naive of {self.season}, {how})\n{self.table}"


def evaluate(
    forecasters: Sequence[Forecaster],
    table: TimeSeriesDataFrame,
    *,
    metrics: Sequence[AnyMetric] | None = None,
    level: Levels = None,
    quantiles: Levels = None,
    n_windows: int = 1,
    step_size: int | None = None,
    h: int | None = None,
    season: int | None = None,
    aggregate: Aggregate = "pooled",
) -> Evaluation:
    """Forecast the last windows of a table that the models were not trained on, and return the scores.

    Args:
        forecasters: fitted models.
        table: rows up to the end of the last horizon to forecast, with the lookback before it.
        metrics: names of metrics, `Metric` objects, or functions (actual, forecast) of tensors that return one number
            per target, of which the mean is taken; None for the common metrics. Metrics of intervals need levels.
        level: central intervals in percent to forecast and score.
        quantiles: probabilities between 0 and 1.
        n_windows: how many horizons, counted from the end of each series.
        step_size: number of rows from one window to the next; None for h.
        h: steps to forecast; None for the models' horizon.
        season: season length of the naive forecast; None infers it from the data.
        aggregate: how `overall` and `by_step` summarise the series. "pooled" computes one metric over the values of all
            series: RMSE and RMSSE take the root once, after the mean. "mean" computes the metric of each series, and
            then the mean of these. A series without the metric (MASE of a constant history) is left out.
    """
    check_aggregate(aggregate)
    steps = checked_horizon(h, min(forecaster.model.h for forecaster in forecasters))
    step = steps if step_size is None else at_least_one("step_size", step_size)
    n_windows = at_least_one("n_windows", n_windows)
    lengths = table.store.lengths
    first = lengths - steps - (n_windows - 1) * step
    together = any(forecaster.model.together for forecaster in forecasters)
    origins = Origins.windows(table, first, steps=steps, step_size=step, together=together)
    if not len(origins):
        raise DataError(
            f"an evaluation needs {steps} rows after the first of a series, but the longest has {lengths.max()}"
        )
    found = {}
    for forecaster in forecasters:
        columns = forecaster.columns(level, quantiles)
        found[forecaster.model.name] = HistoricalForecasts(columns, _unseen(forecaster, origins, columns))
    return scored(truth_of(origins, season=season), found, metrics, aggregate)


def _unseen(fitted: Forecaster, origins: Origins, columns: Columns) -> Floats:
    """[N, H, K] forecasts. Rows that only a refit was trained on are scored by the forecasts from before it."""
    table = origins.table
    if fitted.kept is None:
        return origins.forecasts(fitted, columns)
    own = fitted.in_own_codes(table)
    trained, selected = trained_rows(fitted, own), selection_rows(fitted, own)
    learned = (origins.time < trained[origins.series]) & (origins.time + origins.steps > selected[origins.series])
    if not learned.any():
        return origins.forecasts(fitted, columns)
    values = np.full((len(origins), origins.steps, len(columns.names)), np.nan)
    values[~learned] = origins.where(~learned).forecasts(fitted, columns)
    values[learned] = fitted.kept.take(fitted, origins.where(learned), columns)
    lacking = learned & np.isnan(values).all(axis=(1, 2))
    if lacking.any():
        number = int(np.flatnonzero(lacking)[0])
        moment = table.times(int(origins.series[number]), int(origins.time[number]), 1)[0]
        raise DataError(
            f"a model is scored on rows that it was not trained on, but the refit of {fitted.model.name} was trained "
            f"on the rows from {moment} of series {table.ids[origins.series[number]].item()!r}, and the selection run "
            "kept no such forecast of them. Give later rows, ask for fewer windows or other levels, or train with "
            "refit=None"
        )
    log.warning("%s: %s", fitted.model.name, BEFORE_REFIT)
    return values


def truth_of(origins: Origins, *, season: int | None = None, seen: TimeSeriesDataFrame | None = None) -> Truth:
    """The actual values at some forecast origins, and the seasonal naive forecasts of them.

    Args:
        origins: where the forecasts start.
        season: season length of the naive forecast; None infers it from the rows before each series' first forecast.
        seen: the table that the forecasts see, if it is not the table of the origins (rows of a gap are hidden).
    """
    store = (seen or origins.table).store
    season = season_of(store, _rows_before(origins)) if season is None else season
    naive = np.full((len(origins), origins.steps), np.nan)
    for gap in np.unique(origins.gap).tolist():
        some = origins.gap == gap
        steps = origins.steps + gap
        naive[some] = naive_from(store, origins.series[some], origins.time[some], steps, season)[:, gap:]
    return Truth(origins=origins, actual=origins.actual(), naive=naive, season=season)


def _rows_before(origins: Origins) -> Ints:
    """[S] how many rows of each series lie before its first forecast; 0 for a series without a forecast."""
    first = np.full(origins.table.n_series, np.iinfo(np.int64).max)
    np.minimum.at(first, origins.series, origins.time)
    return np.where(first < np.iinfo(np.int64).max, first, 0)


def scored(
    truth: Truth,
    found: dict[str, HistoricalForecasts],
    names: Sequence[AnyMetric] | None = None,
    aggregate: Aggregate = "pooled",
) -> Evaluation:
    """Scores of existing forecasts."""
    check_aggregate(aggregate)
    given = names is not None
    wanted = check_names(names)
    table, steps = truth.origins.table, range(1, truth.actual.shape[1] + 1)
    check_figure_names(table.schema, wanted)
    overall, by_series, by_step = [], [], []
    for name, item in truth.with_naive(found).items():
        own = series_figures(truth, item, wanted, given)
        by_series.append(_by_series(truth, name, own))
        overall.append({"model": name} | overall_figures(truth, item, wanted, given, aggregate, own))
        ahead = figures(truth, item, wanted, 0, given)
        if aggregate == "mean":
            ahead = _means(truth, item, series_figures(truth, item, wanted, given, each_step=True))
        by_step.append(pl.DataFrame({"model": [name] * len(steps), "step": steps} | ahead))
    frames = [pl.DataFrame(overall), pl.concat(by_series, how="diagonal"), pl.concat(by_step, how="diagonal")]
    columns = by_column(found) | {truth.naive_name: truth.naive}
    give = table.as_input_library
    return Evaluation(
        overall=give(frames[0]),
        by_series=give(frames[1]),
        by_step=give(frames[2]),
        frame=give(truth.origins.frame(columns)),
        season=truth.season,
        aggregate=aggregate,
        table=frames[0],
        scored=(truth, found),
        coverage=tuple(
            interval
            for name, item in found.items()
            for interval in measured_coverage(name, truth.actual, item.columns, item.values)
        ),
    )


def by_column(found: dict[str, HistoricalForecasts]) -> dict[str, Floats]:
    """[N, H] every column of the models' forecasts, by column name."""
    return {
        name: item.values[:, :, position] for item in found.values() for position, name in enumerate(item.columns.names)
    }


def overall_figures(
    truth: Truth,
    item: HistoricalForecasts,
    wanted: Mapping[str, Metric | None],
    given: bool,
    aggregate: Aggregate,
    own: dict[str, Floats] | None = None,
) -> dict[str, float]:
    """One value per metric. `own` are the metrics of each series, if they were computed before."""
    if aggregate == "pooled":
        return figures(truth, item, wanted, None, given)
    each = series_figures(truth, item, wanted, given) if own is None else own
    return {name: float(value) for name, value in _means(truth, item, each).items()}


def _means(truth: Truth, item: HistoricalForecasts, each: dict[str, Floats]) -> dict[str, Any]:
    """The mean over the series that have the metric. NaN if a forecast is missing: it must not improve the score."""
    silent = bool((np.isnan(item.values).any(axis=2) & ~np.isnan(truth.actual)).any())
    result = {}
    for name, values in each.items():
        known = ~np.isnan(values)
        count = known.sum(axis=0)
        mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(count, 1)
        result[name] = np.where((count == 0) | silent, np.nan, mean)
    return result


def series_figures(
    truth: Truth,
    item: HistoricalForecasts,
    wanted: Mapping[str, Metric | None],
    given: bool,
    *,
    each_step: bool = False,
) -> dict[str, Floats]:
    """[S] every metric of each forecast series, in the order of their numbers; or [S, H], for each step ahead.

    Series with the same number of forecasts are computed together. The work grows with the number of series.
    """
    order = np.argsort(truth.series, kind="stable")
    numbers, first, counts = np.unique(truth.series[order], return_index=True, return_counts=True)
    result: dict[str, Floats] = {}
    shape = (len(numbers), truth.actual.shape[1]) if each_step else (len(numbers),)
    for count in np.unique(counts):
        some = np.flatnonzero(counts == count)
        rows = order[first[some, None] + np.arange(count)]  # [S, n] the forecasts of each series
        found = figures(truth, item, wanted, 1 if each_step else (1, 2), given, rows)
        for name, values in found.items():
            result.setdefault(name, np.full(shape, np.nan))[some] = values
    return result


def _by_series(truth: Truth, name: str, own: dict[str, Floats]) -> pl.DataFrame:
    table = truth.origins.table
    id_col = table.schema.id_col
    label = "model" if id_col != "model" else "model_name"  # a frame cannot have two columns of one name
    ids = table.ids[np.unique(truth.series)].tolist()
    return pl.DataFrame({label: [name] * len(ids), id_col: ids} | own)


def check_aggregate(aggregate: str) -> None:
    """Refuse an unknown way of summarising series."""
    if aggregate not in get_args(Aggregate):
        raise ConfigError(f"aggregate must be 'pooled' or 'mean', but got aggregate={aggregate!r}")


def check_names(wanted: Sequence[AnyMetric] | None) -> dict[str, Metric | None]:
    """The metrics by name; None stands for a metric of the library. An unknown name is refused."""
    return named_metrics(DEFAULT if wanted is None else wanted, (*POINT, *PROBABILISTIC))


def figures(
    truth: Truth,
    item: HistoricalForecasts,
    wanted: Mapping[str, Metric | None],
    axis: Axis,
    given: bool = True,
    rows: Ints | None = None,
) -> dict[str, Any]:
    """Every metric along an axis of [N, H]. Metrics of intervals have one value per level.

    With `rows` [S, n] the arrays are [S, n, H]: the forecasts with these numbers.
    """
    chosen: Any = slice(None) if rows is None else rows
    values = item.values[chosen]
    result: dict[str, Any] = {}
    for name, own in wanted.items():
        if own is not None:
            result[name] = figure(own, truth.actual[chosen], values[..., 0], axis)
        elif name in POINT:
            result[name] = _point_figure(name, truth, values[..., 0], axis, chosen)
        elif len(item.columns.names) > 1:
            result |= _probabilistic_figures(name, truth.actual[chosen], item.columns, values, axis)
        elif given and "naive" not in item.columns.names[0]:
            raise ConfigError(f"{name} is a metric of intervals or quantiles: give level= or quantiles=")
    return result


def _point_figure(name: str, truth: Truth, forecast: Floats, axis: Axis, chosen: Any) -> Any:
    function: Callable[..., Any] = metrics.METRICS[name]
    actual = truth.actual[chosen]
    if name in ("mase", "rmsse"):
        return function(actual, forecast, scale=truth.scales(squared=name == "rmsse")[chosen], axis=axis)
    if name == "owa":
        scale = truth.scales(squared=False)[chosen]
        return function(actual, forecast, truth.naive[chosen], scale=scale, axis=axis)
    if name == "directional_accuracy":
        return function(actual, forecast, last=truth.last()[chosen], axis=axis)
    return function(actual, forecast, axis=axis)


def _probabilistic_figures(name: str, actual: Floats, columns: Columns, values: Floats, axis: Axis) -> dict[str, Any]:
    at = {
        round(float(level), 9): values[..., position]
        for position, level in enumerate(columns.levels)
        if level is not None
    }
    shares = sorted(at)
    if name == "scaled_crps":
        stacked = np.stack([at[share] for share in shares], axis=-1)
        return {name: metrics.scaled_crps(actual, stacked, levels=shares, axis=axis)}
    if name == "pinball":
        losses = [metrics.pinball(actual, at[share], q=share, axis=axis) for share in shares]
        return {name: np.mean(losses, axis=0) if axis is not None else float(np.mean(losses))}
    result: dict[str, Any] = {}
    for share in shares:
        other = round(1 - share, 9)
        if share >= 0.5 or other not in at:
            continue
        percent = round(100 - 200 * share, 6)
        extra = {"level": percent} if name == "interval_score" else {}
        result[f"{name}-{percent:g}"] = metrics.METRICS[name](actual, at[share], at[other], **extra, axis=axis)
    return result


def insample(forecaster: Forecaster, table: TimeSeriesDataFrame, step_size: int, columns: Columns) -> pl.DataFrame:
    """Forecasts from every step_size-th row of a table, counted from its end, with the actual values."""
    step_size = at_least_one("step_size", step_size)
    h, lengths = forecaster.model.h, table.store.lengths
    together = forecaster.model.together
    origins = Origins.windows(table, np.ones_like(lengths), steps=h, step_size=step_size, together=together)
    if not len(origins):
        raise DataError(f"a forecast of h={h} steps inside the data needs {h + 1} rows, but the longest series has "
                        f"{int(lengths.max(initial=0))}")  # fmt: skip
    return origins.frame(by_column({"": HistoricalForecasts(columns, origins.forecasts(forecaster, columns))}))
