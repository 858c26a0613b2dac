"""Pictures of forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neuro_divergent.forecasting.network.output_columns import forecast_columns, point_column
from neuro_divergent.losses.probability_levels import Levels, level_tuple
from neuro_divergent.plotting.forecasts import SeriesPanel, forecast_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.evaluate.cross_validation import CrossValidation
    from neuro_divergent.forecasting.predict.forecaster import Forecaster


def forecasters_figure(forecasters: Sequence[Forecaster], series: int, level: Levels, future: Any = None) -> Figure:
    """The last stretch of some series with the forecasts of several models, the intervals those of the first."""
    first = max(forecasters, key=lambda forecaster: forecaster.model.input_size)
    h = min(forecaster.model.h for forecaster in forecasters)
    calibrated = forecasters[0].intervals is not None
    if level is None:
        level = _shown_levels(forecasters[0])
    ordered = sorted(level_tuple(level), reverse=True)
    whole = any(forecaster.model.together for forecaster in forecasters)
    data = first.table()
    shown = data if whole else data.select(data.ids[:series].tolist())
    columns = [
        forecast_columns(item.model.name, item.loss, ordered, None, calibrated=calibrated)
        if number == 0
        else point_column(item.model.name)
        for number, item in enumerate(forecasters)
    ]
    pairs = zip(forecasters, columns, strict=True)
    values = [item.forecast_values(shown, asked, future=future, h=h) for item, asked in pairs]
    panels = []
    for number in range(min(series, shown.n_series)):
        bands = [
            (f"{percent:g} %", values[0][number, :, 1 + 2 * position], values[0][number, :, 2 + 2 * position])
            for position, percent in enumerate(ordered)
        ]
        times, history = recent(shown, number, 4 * h)
        panels.append(
            SeriesPanel(
                title=str(shown.ids[number]),
                times=times,
                values=history,
                forecast_times=shown.times(number, int(shown.store.lengths[number]), h).to_list(),
                forecasts={
                    item.model.name: found[number, :, 0] for item, found in zip(forecasters, values, strict=True)
                },
                bands=bands,
            )
        )
    return forecast_figure(panels)


def _shown_levels(forecaster: Forecaster) -> list[float]:
    """The intervals that the model was trained for, at most two; 80 and 95 % where they were measured."""
    if not forecaster.loss.probabilistic:
        return [] if forecaster.intervals is None else [80.0, 95.0]
    shares = forecaster.loss.levels
    pairs = [share for share in shares if share < 0.5 and any(abs(1 - share - other) < 1e-6 for other in shares)]
    return [round(100 - 200 * share, 6) for share in sorted(pairs)[:2]]


def folds_figure(result: CrossValidation, series: int) -> Figure:
    """Some series with the forecasts of every fold, joined where folds follow each other."""
    data, truth = result.data, result.truth
    models = result.hindcasts
    panels = []
    for number in np.unique(truth.series)[:series]:
        some = np.flatnonzero(truth.series == number)
        begins = truth.time + truth.gap
        some = some[np.argsort(begins[some], kind="stable")]
        first = int(begins[some[0]])
        steps = truth.actual.shape[1]
        last = min(int(begins[some[-1]]) + steps, int(data.store.lengths[number]))
        lines = {name: np.full(last - first, np.nan) for name in models}
        for place in some:
            begin = int(begins[place]) - first
            width = min(steps, last - first - begin)
            for name, item in models.items():
                lines[name][begin : begin + width] = item.values[place, :width, 0]
        count = min(first, 2 * (last - first))
        times, values = recent(data, int(number), count + int(data.store.lengths[number]) - first)
        panels.append(
            SeriesPanel(
                title=str(data.ids[number]),
                times=times,
                values=values,
                forecast_times=data.times(int(number), first, last - first).to_list(),
                forecasts=lines,
            )
        )
    return forecast_figure(panels)


def recent(data: TimeSeriesDataFrame, number: int, count: int) -> tuple[list[object], np.ndarray]:
    """Times and values of the last rows of a series, missing values as NaN."""
    store = data.store
    length = int(store.lengths[number])
    count = min(count, length)
    last = int(store.offsets[number + 1])
    values = np.asarray(store.y[last - count : last], dtype=np.float64).copy()
    if store.mask is not None:
        values[~store.mask[last - count : last]] = np.nan
    return data.times(number, length - count, count).to_list(), values
