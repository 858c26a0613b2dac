"""How good forecasts are: per series, per step ahead and overall, always beside the seasonal naive forecast.

Letters: N forecasts, S series, H steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent import metrics
from neuro_divergent.core.errors import ConfigError, DataError, UnknownNameError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.seasonal_naive import naive_from, season_of
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.historical import Origins, actual
from neuro_divergent.metrics.base import AnyMetric, Metric, figure, named_metrics

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

POINT = ("mae", "mse", "rmse", "mape", "smape", "mase", "rmsse", "owa", "r2", "bias", "directional_accuracy")
PROBABILISTIC = ("pinball", "scaled_crps", "coverage", "interval_score")
DEFAULT = ("mae", "rmse", "smape", "mase", *PROBABILISTIC)


@dataclass(frozen=True)
class HistoricalForecasts:
    """Forecasts of one model (or the naive one) at many origins."""

    columns: Columns
    values: Floats
    """[N, H, K]"""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The actual values at some origins, and what is needed to score forecasts of them."""

    origins: Origins
    actual: Floats
    """[N, H] NaN where nothing was observed."""
    naive: Floats
    """[N, H] the seasonal naive forecast from the same rows."""
    season: int

    @property
    def series(self) -> Ints:
        """[N] the series of each forecast."""
        return self.origins.series

    @property
    def time(self) -> Ints:
        """[N] the first row of each series that was not seen."""
        return self.origins.time

    @property
    def gap(self) -> int:
        """Rows between the last one seen and the first one forecast."""
        return self.origins.gap

    @property
    def naive_name(self) -> str:
        """Name of the seasonal naive forecast."""
        return f"seasonal naive ({self.season})"

    def where(self, chosen: npt.NDArray[Any]) -> Truth:
        """The truth at some of the origins."""
        return replace(
            self, origins=self.origins.where(chosen), actual=self.actual[chosen], naive=self.naive[chosen]
        )  # fmt: skip

    def with_naive(self, found: dict[str, HistoricalForecasts]) -> dict[str, HistoricalForecasts]:
        """The forecasts of models, and the seasonal naive one after them."""
        name = self.naive_name
        return found | {name: HistoricalForecasts(Columns((name,), (None,)), self.naive[:, :, None])}

    def scales(self, *, squared: bool) -> Floats:
        """[N, 1] in-sample error of the seasonal naive forecast, over the rows before the series is first forecast."""
        store = self.origins.table.store
        scale = np.full((len(store.ids), 1), np.nan)
        for number in np.unique(self.series):
            stop = int(self.time[self.series == number].min())
            first = int(store.offsets[number])
            y = np.asarray(store.y[first : first + stop], dtype=np.float64)
            if store.mask is not None:
                y = np.where(store.mask[first : first + stop], y, np.nan)
            if len(y) > self.season:
                scale[number] = metrics.naive_scale(y, self.season, squared=squared)
        return scale[self.series]

    def last(self) -> Floats:
        """[N, 1] the value before the first step."""
        return actual(self.origins.table.store, self.series, self.time + self.gap - 1, 1)


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
    together = any(forecaster.model.together for forecaster in forecasters)
    origins = Origins.windows(table, first, steps=steps, step_size=step, together=together)
    if not len(origins):
        raise DataError(
            f"an evaluation needs {steps} rows after the first of a series, but the longest has {lengths.max()}"
        )
    found = {}
    for forecaster in forecasters:
        columns = forecaster.columns(level, quantiles)
        found[forecaster.model.name] = HistoricalForecasts(columns, origins.forecasts(forecaster, columns))
    return scored(truth_of(origins, season=season), found, metrics)


def truth_of(origins: Origins, *, season: int | None = None) -> Truth:
    """The actual values at some origins, and the seasonal naive forecasts of them."""
    store, gap = origins.table.store, origins.gap
    season = season_of(store) if season is None else season
    naive = naive_from(store, origins.series, origins.time, origins.steps + gap, season)[:, gap:]
    return Truth(origins=origins, actual=origins.actual(), naive=naive, season=season)


def scored(truth: Truth, found: dict[str, HistoricalForecasts], names: Sequence[AnyMetric] | None = None) -> Evaluation:
    """Scores of forecasts that are there already."""
    wanted, table = check_names(names), truth.origins.table
    everyone = truth.with_naive(found)
    given = names is not None
    overall = [{"model": name} | figures(truth, item, wanted, None, given) for name, item in everyone.items()]
    by_step, by_series = [], []
    for name, item in everyone.items():
        steps = figures(truth, item, wanted, 0, given)
        by_step.append(
            pl.DataFrame({"model": [name] * truth.actual.shape[1], "step": range(1, truth.actual.shape[1] + 1)} | steps)
        )
        by_series.append(_by_series(truth, name, item, wanted, given))
    frames = [pl.DataFrame(overall), pl.concat(by_series, how="diagonal"), pl.concat(by_step, how="diagonal")]
    columns = by_column(found) | {truth.naive_name: truth.naive}
    give = table.as_input_library
    return Evaluation(
        overall=give(frames[0]),
        by_series=give(frames[1]),
        by_step=give(frames[2]),
        frame=give(truth.origins.frame(columns)),
        season=truth.season,
        table=frames[0],
    )


def by_column(found: dict[str, HistoricalForecasts]) -> dict[str, Floats]:
    """[N, H] every column of the forecasts of some models, by its name."""
    return {
        name: item.values[:, :, position] for item in found.values() for position, name in enumerate(item.columns.names)
    }


def _by_series(
    truth: Truth, name: str, item: HistoricalForecasts, wanted: Mapping[str, Metric | None], given: bool
) -> pl.DataFrame:
    rows = []
    table = truth.origins.table
    id_col = table.schema.id_col
    label = "model" if id_col != "model" else "model_name"  # two columns of one name would be one
    for number in np.unique(truth.series):
        some = truth.series == number
        values = figures(truth.where(some), HistoricalForecasts(item.columns, item.values[some]), wanted, None, given)
        rows.append({label: name, id_col: table.ids[number].item()} | values)
    return pl.DataFrame(rows)


def check_names(wanted: Sequence[AnyMetric] | None) -> dict[str, Metric | None]:
    """The metrics by name; None stands for one of the library's own. A name that does not exist is refused."""
    return named_metrics(DEFAULT if wanted is None else wanted, (*POINT, *PROBABILISTIC))


def figures(
    truth: Truth, item: HistoricalForecasts, wanted: Mapping[str, Metric | None], axis: int | None, given: bool = True
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


def _probabilistic_figures(name: str, truth: Truth, item: HistoricalForecasts, axis: int | None) -> dict[str, Any]:
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
    together = forecaster.model.together
    origins = Origins.windows(table, np.ones_like(lengths), steps=h, step_size=step_size, together=together)
    if not len(origins):
        raise DataError(f"a forecast of h={h} steps inside the data needs {h + 1} rows, but the longest series has "
                        f"{int(lengths.max(initial=0))}")  # fmt: skip
    return origins.frame(by_column({"": HistoricalForecasts(columns, origins.forecasts(forecaster, columns))}))
