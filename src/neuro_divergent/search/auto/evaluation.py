"""Scores and pictures of a fitted AutoForecaster.

Letters: N windows, H steps, K columns of a forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import DataError
from neuro_divergent.forecasting.evaluate.scores import Evaluation, HistoricalForecasts, check_names, scored, truth_of
from neuro_divergent.forecasting.fit.training_rows import selection_rows, trained_rows
from neuro_divergent.forecasting.network.output_columns import Columns, named_columns, point_column
from neuro_divergent.forecasting.plots import recent
from neuro_divergent.forecasting.predict.ahead import checked_horizon
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.forecasting.predict.kept import unseen_forecasts
from neuro_divergent.losses.probability_levels import Levels, level_tuple
from neuro_divergent.metrics.base import AnyMetric
from neuro_divergent.metrics.by_name import PROBABILISTIC
from neuro_divergent.plotting.forecasts import SeriesPanel, forecast_figure
from neuro_divergent.search.auto.naive import is_naive

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.evaluate.scores import Aggregate
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.search.auto.result import AutoResult

Floats = npt.NDArray[np.float64]


def evaluate(
    result: AutoResult,
    data: Any,
    *,
    metrics: Sequence[AnyMetric] | None = None,
    level: Levels = None,
    n_windows: int = 1,
    step_size: int | None = None,
    h: int | None = None,
    season: int | None = None,
    aggregate: Aggregate = "pooled",
) -> Evaluation:
    """Forecast the last windows of a table, and score the ensemble beside its members and the naive forecast."""
    steps = checked_horizon(h, result.h)
    step = steps if step_size is None else at_least_one("step_size", step_size)
    table = max(result.members, key=lambda member: member.model.input_size).table(data)
    first = table.store.lengths - steps - (at_least_one("n_windows", n_windows) - 1) * step
    together = any(member.model.together for member in result.members)
    origins = Origins.windows(table, first, steps=steps, step_size=step, together=together)
    if not len(origins):
        raise DataError(f"an evaluation needs {steps} rows after the first of a series, but got fewer")
    levels = level_tuple(level)
    own = result._probabilistic
    asks_intervals = any(name in PROBABILISTIC for name in (() if metrics is None else check_names(metrics)))
    parts, found = [], dict[str, HistoricalForecasts]()
    for member in result.members:
        columns = member.columns(levels) if own else point_column(member.model.name)
        values = _unseen(member, origins, columns)
        parts.append(values)
        if own or not asks_intervals:  # members have no intervals of their own
            found.setdefault(member.model.name, HistoricalForecasts(columns, values))
    combined = result.combined(np.stack(parts))
    columns = member.columns(levels) if own else named_columns(result.name, levels or (), ())
    if own:
        columns = Columns(tuple(result.name + name.removeprefix(member.model.name) for name in columns.names),
                          columns.levels)  # fmt: skip
    else:
        combined = result._around(combined, table, columns, origins.series, origins.time)
    found = {result.name: HistoricalForecasts(columns, combined)} | found
    return scored(truth_of(origins, season=season), found, metrics, aggregate)


def _unseen(member: Forecaster, origins: Origins, columns: Columns) -> Floats:
    """[N, H, K] forecasts by weights that had not seen the rows."""
    if is_naive(member):
        return origins.forecasts(member, columns)
    table = member.in_own_codes(origins.table)
    trained, selected = trained_rows(member, table), selection_rows(member, table)
    learned = (origins.time < trained[origins.series]) & (origins.time + origins.steps > selected[origins.series])
    if (origins.time < selected[origins.series]).any():
        raise DataError(
            f"a forecast is scored on rows that no member was trained on, but {member.model.name} was trained on some "
            "of these. Give later rows, or ask for fewer windows"
        )
    values = unseen_forecasts(member, origins, columns, trained) \
        if learned.any() else origins.forecasts(member, columns)  # fmt: skip
    if np.isnan(values).all(axis=(1, 2)).any():
        raise DataError(
            f"a forecast is scored on rows that no member was trained on, but {member.model.name} was trained on all "
            "rows of the table, and kept no forecast of some windows from before. Give later rows"
        )
    return values


def figure(result: AutoResult, series: int, level: Levels, future: Any = None) -> Figure:
    """The last rows of some series with the forecast and its intervals."""
    table, _, values = forecasts_of(result, series, level, future)
    ordered = sorted(level_tuple(level) or (), reverse=True)
    panels = []
    for number in range(min(series, table.n_series)):
        bands = [
            (f"{percent:g} %", values[number, :, 1 + 2 * place], values[number, :, 2 + 2 * place])
            for place, percent in enumerate(ordered)
        ]
        times, history = recent(table, number, 4 * result.h)
        panels.append(
            SeriesPanel(
                title=str(table.ids[number]),
                times=times,
                values=history,
                forecast_times=table.times(number, int(table.store.lengths[number]), result.h).to_list(),
                forecasts={result.name: values[number, :, 0]},
                bands=bands,
            )
        )
    return forecast_figure(panels)


def forecasts_of(
    result: AutoResult, series: int, level: Levels, future: Any = None
) -> tuple[TimeSeriesDataFrame, Columns, Floats]:
    """The table of the first series, the columns, and the forecasts [S, H, K] of them, the widest interval first."""
    ordered = tuple(sorted(level_tuple(level) or (), reverse=True))
    data = result.data
    together = any(member.model.together for member in result.members)
    shown = data if together else data.select(data.ids[:series].tolist())
    if result._probabilistic:
        asked = [member.columns(ordered or None) for member in result.members]
        table, columns, values = result._values(result.members, asked, shown, future, result.h)
        return table, columns, values
    return result._with_intervals(result.members, shown, future, ordered, None, result.h, None)
