"""How good forecasts are: per series, per step ahead and overall, always beside the seasonal naive forecast.

Letters: N forecasts, S series, H steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent import metrics
from neuro_divergent.core.errors import ConfigError, DataError, UnknownNameError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.seasonal_naive import naive_from, season_of
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.historical import actual, hindcast, long_frame, same_moments, window_places
from neuro_divergent.metrics.base import AnyMetric, Metric, figure, named_metrics

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

POINT = ("mae", "mse", "rmse", "mape", "smape", "mase", "rmsse", "owa", "r2", "bias", "directional_accuracy")
PROBABILISTIC = ("pinball", "scaled_crps", "coverage", "interval_score")
DEFAULT = ("mae", "rmse", "smape", "mase", *PROBABILISTIC)


@dataclass(frozen=True)
class Hindcasts:
    """Forecasts of one model (or the naive one) at many origins."""

    columns: Columns
    values: Floats
    """[N, H, K]"""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What the forecasts are compared with."""

    store: SeriesStore
    series: Ints
    """[N] the series of each forecast."""
    time: Ints
    """[N] the first row of each series that was not seen."""
    gap: int
    actual: Floats
    """[N, H] NaN where nothing was observed."""
    naive: Floats
    """[N, H] the seasonal naive forecast from the same rows."""
    season: int

    def scales(self, *, squared: bool) -> Floats:
        """[N, 1] in-sample error of the seasonal naive forecast, over the rows before the series is first forecast."""
        scale = np.full((len(self.store.ids), 1), np.nan)
        for number in np.unique(self.series):
            stop = int(self.time[self.series == number].min())
            first = int(self.store.offsets[number])
            y = np.asarray(self.store.y[first : first + stop], dtype=np.float64)
            if self.store.mask is not None:
                y = np.where(self.store.mask[first : first + stop], y, np.nan)
            if len(y) > self.season:
                scale[number] = metrics.naive_scale(y, self.season, squared=squared)
        return scale[self.series]

    def last(self) -> Floats:
        """[N, 1] the value before the first step."""
        return actual(self.store, self.series, self.time + self.gap - 1, 1)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Scores of forecasts; frames come in the library of the input."""

    overall: Any
    """One row per model: every metric over everything."""
    by_series: Any
    """One row per model and series; the model's name is in the column model (model_name if that names the series)."""
    by_step: Any
    """One row per model and step ahead."""
    frame: Any
    """The forecasts themselves: id, time, cutoff, actual value, a column per model and level."""
    season: int
    """The season of the naive forecast."""
    table: pl.DataFrame = field(repr=False)
    """`overall` as a polars frame."""

    def __getitem__(self, key: tuple[str, str]) -> float:
        """One figure: evaluation["NHITS", "mae"]."""
        name, metric = key
        row = self.table.filter(pl.col("model") == name)
        if not len(row) or metric not in row.columns:
            known = ", ".join([*self.table["model"], *self.table.columns[1:]])
            raise UnknownNameError(f"there is no figure {metric!r} of {name!r}; known are: {known}")
        return float(row[metric][0])

    def __repr__(self) -> str:
        return f"Evaluation(seasonal naive of {self.season})\n{self.table}"


def evaluate(
    forecasters: Sequence[Forecaster],
    table: TimeSeriesDataFrame,
    *,
    metrics: Sequence[AnyMetric] | None = None,
    level: Sequence[float] | None = None,
    quantiles: Sequence[float] | None = None,
    n_windows: int = 1,
    step_size: int | None = None,
    h: int | None = None,
    season: int | None = None,
) -> Evaluation:
    """Forecast the last windows of a table that the models were not trained on, and score them.

    Args:
        forecasters: fitted models.
        table: rows up to the end of what is to be forecast, lookback included.
        metrics: names of figures, `Metric` objects, or functions (actual, forecast) of tensors that give one number per
            target, whose mean is taken; None for the common figures. Those of intervals need levels.
        level: central intervals in percent whose coverage is of interest.
        quantiles: probabilities between 0 and 1.
        n_windows: how many horizons, counted from the end of each series.
        step_size: distance of two of them; None for h.
        h: steps to forecast; None for the models' horizon.
        season: of the naive forecast; None finds it in the data.
    """
    steps = h or min(forecaster.model.h for forecaster in forecasters)
    step = step_size or steps
    lengths = table.store.lengths
    first = lengths - steps - (n_windows - 1) * step
    series, time = window_places(lengths, first, lengths, steps, step)
    if any(forecaster.model.together for forecaster in forecasters):
        series, time = same_moments(table, series, time)
    if not len(series):
        raise DataError(
            f"an evaluation needs {steps} rows after the first of a series, but the longest has {lengths.max()}"
        )
    found = {}
    for forecaster in forecasters:
        columns = forecaster.columns(level, quantiles)
        values = hindcast(forecaster, table, series, time, columns, steps)
        found[forecaster.model.name] = Hindcasts(columns, values)
    truth = truth_of(table, series, time, steps, season=season)
    return scored(table, truth, found, metrics)


def truth_of(
    table: TimeSeriesDataFrame, series: Ints, time: Ints, steps: int, *, gap: int = 0, season: int | None = None
) -> Truth:
    """What happened at some origins, and what the seasonal naive forecast said."""
    season = season_of(table.store) if season is None else season
    naive = naive_from(table.store, series, time, steps + gap, season)[:, gap:]
    happened = actual(table.store, series, time + gap, steps)
    return Truth(
        store=table.store, series=series, time=time, gap=gap, actual=happened, naive=naive, season=season
    )  # fmt: skip


def scored(
    table: TimeSeriesDataFrame,
    truth: Truth,
    found: dict[str, Hindcasts],
    names: Sequence[AnyMetric] | None = None,
) -> Evaluation:
    """Scores of forecasts that are there already."""
    wanted = check_names(names)
    naive = f"seasonal naive ({truth.season})"
    everyone = found | {naive: Hindcasts(Columns((naive,), (None,)), truth.naive[:, :, None])}
    given = names is not None
    overall = [{"model": name} | figures(truth, item, wanted, None, given) for name, item in everyone.items()]
    by_step, by_series = [], []
    for name, item in everyone.items():
        steps = figures(truth, item, wanted, 0, given)
        by_step.append(
            pl.DataFrame({"model": [name] * truth.actual.shape[1], "step": range(1, truth.actual.shape[1] + 1)} | steps)
        )
        by_series.append(_by_series(table, truth, name, item, wanted, given))
    frames = [pl.DataFrame(overall), pl.concat(by_series, how="diagonal"), pl.concat(by_step, how="diagonal")]
    columns = {
        name: item.values[:, :, position] for item in found.values() for position, name in enumerate(item.columns.names)
    }
    long = long_frame(table, truth.series, truth.time, columns | {naive: truth.naive}, gap=truth.gap)
    give = table.as_input_library
    return Evaluation(
        overall=give(frames[0]),
        by_series=give(frames[1]),
        by_step=give(frames[2]),
        frame=give(long),
        season=truth.season,
        table=frames[0],
    )


def _by_series(
    table: TimeSeriesDataFrame,
    truth: Truth,
    name: str,
    item: Hindcasts,
    wanted: Mapping[str, Metric | None],
    given: bool,
) -> pl.DataFrame:
    rows = []
    id_col = table.schema.id_col
    label = "model" if id_col != "model" else "model_name"  # two columns of one name would be one
    for number in np.unique(truth.series):
        some = truth.series == number
        part = Truth(
            store=truth.store, series=truth.series[some], time=truth.time[some], gap=truth.gap,
            actual=truth.actual[some], naive=truth.naive[some], season=truth.season,
        )  # fmt: skip
        values = figures(part, Hindcasts(item.columns, item.values[some]), wanted, None, given)
        rows.append({label: name, id_col: table.ids[number].item()} | values)
    return pl.DataFrame(rows)


def check_names(wanted: Sequence[AnyMetric] | None) -> dict[str, Metric | None]:
    """The metrics by name; None stands for one of the library's own. A name that does not exist is refused."""
    return named_metrics(DEFAULT if wanted is None else wanted, (*POINT, *PROBABILISTIC))


def figures(
    truth: Truth, item: Hindcasts, wanted: Mapping[str, Metric | None], axis: int | None, given: bool = True
) -> dict[str, Any]:
    """Every figure along an axis of [N, H]; those of intervals once per level."""
    result: dict[str, Any] = {}
    for name, own in wanted.items():
        if own is not None:
            result[name] = figure(own, truth.actual, item.values[:, :, 0], axis)
        elif name in POINT:
            result[name] = _point_figure(name, truth, item.values[:, :, 0], axis)
        elif len(item.columns.names) > 1:
            result |= _probabilistic_figures(name, truth, item, axis)
        elif given and "naive" not in item.columns.names[0]:
            raise ConfigError(f"{name} is a figure of intervals or quantiles: ask for them with level= or quantiles=")
    return result


def _point_figure(name: str, truth: Truth, forecast: Floats, axis: int | None) -> Any:
    function: Callable[..., Any] = metrics.METRICS[name]
    if name in ("mase", "rmsse"):
        return function(truth.actual, forecast, scale=truth.scales(squared=name == "rmsse"), axis=axis)
    if name == "owa":
        return function(truth.actual, forecast, truth.naive, scale=truth.scales(squared=False), axis=axis)
    if name == "directional_accuracy":
        return function(truth.actual, forecast, last=truth.last(), axis=axis)
    return function(truth.actual, forecast, axis=axis)


def _probabilistic_figures(name: str, truth: Truth, item: Hindcasts, axis: int | None) -> dict[str, Any]:
    levels = np.array([np.nan if level is None else level for level in item.columns.levels])
    at = {
        round(float(level), 9): item.values[:, :, position] for position, level in enumerate(levels) if level == level
    }
    shares = sorted(at)
    if name == "scaled_crps":
        stacked = np.stack([at[share] for share in shares], axis=-1)
        return {name: metrics.scaled_crps(truth.actual, stacked, levels=shares, axis=axis)}
    if name == "pinball":
        losses = [metrics.pinball(truth.actual, at[share], q=share, axis=axis) for share in shares]
        return {name: np.mean(losses, axis=0) if axis is not None else float(np.mean(losses))}
    result: dict[str, Any] = {}
    for share in shares:
        other = round(1 - share, 9)
        if share >= 0.5 or other not in at:
            continue
        percent = round(100 - 200 * share, 6)
        extra = {"level": percent} if name == "interval_score" else {}
        result[f"{name}-{percent:g}"] = metrics.METRICS[name](truth.actual, at[share], at[other], **extra, axis=axis)
    return result


def insample(forecaster: Forecaster, table: TimeSeriesDataFrame, step_size: int, columns: Columns) -> pl.DataFrame:
    """Forecasts from every step_size-th row of a table, counted from its end, beside the truth."""
    if step_size < 1:
        raise ConfigError(f"step_size must be at least 1, but got step_size={step_size}")
    h, lengths = forecaster.model.h, table.store.lengths
    series, time = window_places(lengths, np.ones_like(lengths), lengths, h, step_size)
    if forecaster.model.together:
        series, time = same_moments(table, series, time)
    if not len(series):
        raise DataError(f"a forecast of h={h} steps inside the data needs {h + 1} rows, but the longest series has "
                        f"{int(lengths.max(initial=0))}")  # fmt: skip
    values = hindcast(forecaster, table, series, time, columns, h)
    return long_frame(table, series, time, {name: values[:, :, i] for i, name in enumerate(columns.names)})
