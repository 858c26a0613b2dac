"""Pictures of forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from neuro_divergent.forecasting.levels import forecast_columns
from neuro_divergent.plotting.forecasts import SeriesPanel, forecast_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuro_divergent.data.frame import TimeSeriesDataFrame
    from neuro_divergent.forecasting.forecaster import Forecaster


def forecaster_figure(forecaster: Forecaster, series: int, level: Sequence[float] | None) -> Figure:
    """The last stretch of some series with their forecasts, intervals where the loss gives them."""
    data, h = forecaster.data, forecaster.model.h
    if level is None:
        level = (80, 95) if forecaster.loss.probabilistic else ()
    ordered = sorted(level, reverse=True)
    columns = forecast_columns(forecaster.model.name, forecaster.loss, ordered, None)
    shown = data.select(data.ids[:series].tolist())
    values = forecaster.forecast_values(shown, columns)
    panels = []
    for number in range(shown.n_series):
        bands = [
            (f"{percent:g} %", values[number, :, 1 + 2 * position], values[number, :, 2 + 2 * position])
            for position, percent in enumerate(ordered)
        ]
        times, history = recent(shown, number, 4 * h)
        panels.append(
            SeriesPanel(
                title=str(shown.ids[number]),
                times=times,
                values=history,
                forecast_times=shown.times(number, int(shown.store.lengths[number]), h).to_list(),
                forecasts={forecaster.model.name: values[number, :, 0]},
                bands=bands,
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
