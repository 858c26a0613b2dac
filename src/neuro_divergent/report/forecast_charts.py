"""Charts of forecasts: after the end of the table, of held-out rows, and of one test of a cross-validation.

Letters: H steps, K columns of a forecast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import DataError
from neuro_divergent.forecasting.evaluate.held_out import HeldOut
from neuro_divergent.forecasting.evaluate.scores import check_names, series_figures, truth_of
from neuro_divergent.forecasting.fit.training_rows import trained_rows
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.forecasting.predict.kept import scored_columns as columns_of
from neuro_divergent.forecasting.predict.kept import unseen_forecasts
from neuro_divergent.plotting.style import COLOURS
from neuro_divergent.report.chart import Chart, Trace
from neuro_divergent.report.page import Choice
from neuro_divergent.report.sections import NAIVE, figure

if TYPE_CHECKING:
    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.network.output_columns import Columns
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_SERIES = 40
MAX_ROWS = 300
"""So many rows of a series are drawn with their forecasts."""
MAX_WINDOWS = 6
EXTREMES = 5
"""So many of the worst and of the best series are named."""


def bands(columns: Columns, x: Sequence[Any], values: Floats, colour: str = COLOURS[0]) -> list[Trace]:
    """The intervals among the columns of forecasts [H, K] as bands, the widest first."""
    at = {round(level, 9): place for place, level in enumerate(columns.levels) if level is not None}
    pairs = [(share, at[round(1 - share, 9)]) for share in sorted(at) if share < 0.5 and round(1 - share, 9) in at]
    return [
        Trace(
            name=f"{100 - 200 * share:g} %", x=x, y=values[:, upper], low=values[:, at[share]], kind="band",
            opacity=0.18 + 0.12 * depth, colour=colour,
        )
        for depth, (share, upper) in enumerate(pairs)
    ]  # fmt: skip


def rows_of(data: TimeSeriesDataFrame, number: int, first: int, last: int) -> tuple[list[Any], Floats]:
    """Times and values of rows first to last of a series, missing values as NaN."""
    store = data.store
    begin = int(store.offsets[number])
    values = np.asarray(store.y[begin + first : begin + last], dtype=np.float64).copy()
    if store.mask is not None:
        values[~store.mask[begin + first : begin + last]] = np.nan
    return data.times(number, first, last - first).to_list(), values


def future_charts(fitted: Forecaster, future: Any = None) -> tuple[Iterator[Choice], str]:
    """The forecast of some series after their end, and a sentence that says what is shown.

    Where the model needs columns known ahead and `future` does not give them, the last h rows of the table stand in:
    they are forecast from the rows before them, with the columns that the table has there.
    """
    data, h, columns = fitted.data, fitted.model.h, columns_of(fitted)
    # A model that sees all series at once has to be given all of them.
    shown = data if fitted.model.together else data.select(data.ids[:MAX_SERIES].tolist())
    lengths = shown.store.lengths
    try:
        values = fitted.forecast_values(shown, columns, future=future)
        said = "" if future is None else "The columns known ahead are the future values that were given."
        return _ahead(fitted, shown, columns, values, lengths), said
    except DataError as error:
        if future is not None:
            raise
        known = (*data.schema.future, *data.schema.future_categorical)
        if not known:
            return iter(()), f"There is no forecast: {error}"
    numbers = np.flatnonzero(lengths > h)
    origins = Origins.at(shown, numbers, lengths[numbers] - h, h, together=fitted.model.together)
    if not len(origins):
        return iter(
            ()
        ), "The forecast needs columns known ahead, and no series is long enough to show one of its own rows."
    values = np.full((shown.n_series, h, len(columns.names)), np.nan)
    values[origins.series] = origins.forecasts(fitted, columns)
    seen = bool((trained_rows(fitted, shown) > lengths - h).any())
    said = (
        f"This model needs columns known ahead ({', '.join(known)}), and no future values were given. So the "
        f"chart shows the last {h} rows of the table, forecast from the rows before them"
        + (". The model was trained on these rows." if seen else ": held-out rows stand in for the future.")
    )
    return _ahead(fitted, shown, columns, values, lengths - h), said


def _ahead(
    fitted: Forecaster, shown: TimeSeriesDataFrame, columns: Columns, values: Floats, begin: Ints
) -> Iterator[Choice]:
    """A chart for each series: its rows, and the forecast from row begin[i] on."""
    h = fitted.model.h
    for number in range(min(shown.n_series, MAX_SERIES)):
        start, length = int(begin[number]), int(shown.store.lengths[number])
        if not np.isfinite(values[number]).any():
            continue
        times, past = rows_of(shown, number, max(0, start - min(max(4 * h, 60), MAX_ROWS)), length)
        ahead = shown.times(number, start, h).to_list()
        traces = bands(columns, ahead, values[number])
        traces.append(Trace(name="actual", x=times, y=past, colour="ink", width=1.5))
        traces.append(Trace(name=fitted.model.name, x=ahead, y=values[number, :, 0], width=2.4))
        title, marks = str(shown.ids[number]), [(times[start - length - 1], "")] if start < length else []
        chart = Chart(title=title, traces=traces, ylabel=shown.schema.target_col, titled=True, marks=marks)
        yield Choice(title=title, charts=[chart])


class Ranking:
    """The series of held-out forecasts by their error, the best first."""

    def __init__(self, held: HeldOut) -> None:
        wanted = check_names(["mae", "mase"])
        naive = next(reversed(held.truth.with_naive({}).values()))
        own, other = (series_figures(held.truth, item, wanted, True) for item in (held.found, naive))
        self.numbers: Ints = np.unique(held.truth.series)
        """The scored series."""
        self.by = "mase" if np.isfinite(own["mase"]).all() else "mae"
        order = np.argsort(np.nan_to_num(own[self.by], nan=np.inf), kind="stable")
        self.order: list[int] = order.tolist()
        """Places in `numbers`, the best first."""
        self.figures = {"mae": own["mae"], "naive": other["mae"], "mase": own["mase"]}

    def shown(self) -> list[tuple[int, str]]:
        """Places and a word for each: a typical series, the worst ones, the best ones, then the others."""
        order = self.order
        words = {order[0]: "best", order[-1]: "worst"} | ({order[len(order) // 2]: "median"} if len(order) > 2 else {})
        places = dict.fromkeys([order[len(order) // 2], *self.extremes(), *order])
        return [(place, words.get(place, "")) for place in places][:MAX_SERIES]

    def extremes(self) -> list[int]:
        """Places of the worst and the best series, the worst first; all where they are few."""
        if len(self.order) <= 2 * EXTREMES:
            return self.order[::-1]
        return [*self.order[: -EXTREMES - 1 : -1], *self.order[EXTREMES - 1 :: -1]]

    def row(self, place: int) -> list[str]:
        """The figures of a series: MAE, that of the naive forecast, and MASE."""
        return [figure(float(values[place])) for values in self.figures.values()]


def held_out_charts(fitted: Forecaster, held: HeldOut, ranking: Ranking) -> Iterator[Choice]:
    """The held-out rows of some series: actual values, forecasts with intervals, and the naive forecast.

    Forecasts of h steps follow each other; each is made from the rows before its cutoff.
    """
    table, h, columns = fitted.data, fitted.model.h, columns_of(fitted)
    windows = max(1, min(MAX_WINDOWS, MAX_ROWS // h))
    shown = ranking.shown()
    numbers = ranking.numbers[[place for place, _ in shown]]
    first, last = _held_rows(held)
    begin = np.where(np.isin(np.arange(table.n_series), numbers), np.maximum(first, last - windows * h), last)
    origins = Origins.windows(table, begin, last, steps=h, step_size=h, together=fitted.model.together)
    values = unseen_forecasts(fitted, origins, columns, trained_rows(fitted, table))
    truth = truth_of(origins, season=held.truth.season)
    for (place, word), number in zip(shown, numbers.tolist(), strict=True):
        some = np.flatnonzero(origins.series == number)
        some = some[np.argsort(origins.time[some])]
        start = int(origins.time[some[0]])
        stop = int(origins.time[some[-1]]) + h
        times, actual = rows_of(table, number, max(0, start - max(2 * h, 24)), stop)
        ahead = times[start - stop :]
        found = values[some].reshape(-1, len(columns.names))
        traces = [
            *bands(columns, ahead, found),
            Trace(name="actual", x=times, y=actual, colour="ink", width=1.5),
            Trace(name=held.truth.naive_name, x=ahead, y=truth.naive[some].reshape(-1), colour=NAIVE, width=1.5),
            Trace(name=fitted.model.name, x=ahead, y=found[:, 0], width=2.2),
        ]
        marks = [(table.times(number, int(row) - 1, 1)[0], "") for row in origins.time[some]]
        named = f"{table.ids[number]}{f' ({word})' if word else ''}"
        error = figure(float(ranking.figures[ranking.by][place]))
        title = f"{named}, {ranking.by.upper()} {error}" if len(ranking.order) > 1 else str(table.ids[number])
        chart = Chart(title=title, traces=traces, ylabel=table.schema.target_col, titled=True, marks=marks)
        yield Choice(title=title, charts=[chart])


def _held_rows(held: HeldOut) -> tuple[Ints, Ints]:
    """[S], [S] the rows of each series that have held-out forecasts; empty for series without one."""
    origins = held.truth.origins
    count = origins.table.n_series
    first, last = np.full(count, np.iinfo(np.int64).max), np.zeros(count, dtype=np.int64)
    np.minimum.at(first, origins.series, origins.time)
    np.maximum.at(last, origins.series, origins.time + origins.steps)
    return np.where(last > 0, first, 0), last
