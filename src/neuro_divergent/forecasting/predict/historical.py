"""Historical forecasts: forecasts from inside a table, where the actual values are known.

`Origins` lists where forecasts start, and returns the forecasts and the actual values there.

Every forecast is made from a store that was cut at its origin, so that later rows cannot leak. Only columns that are
known ahead reach beyond it. Letters: N forecasts, S series, H steps, K columns of the forecast, L lookback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import DataError
from neuro_divergent.data.agreement import check_together, positions
from neuro_divergent.data.features.attach import horizon_features
from neuro_divergent.data.read.future_values import FutureValues
from neuro_divergent.data.read.series_checks import cut_rows, select_series
from neuro_divergent.data.schema.load_report import listing
from neuro_divergent.data.store.fills import carried, shown_rows
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.grid import grid_shifts
from neuro_divergent.data.windows.split import rows_before
from neuro_divergent.forecasting.network.columns_taken import taken_columns
from neuro_divergent.forecasting.network.output_columns import Columns, point_column
from neuro_divergent.forecasting.predict.ahead import SERIES_PER_BATCH, check_series, from_store

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Origins:
    """Forecast origins in a table: forecast i sees the rows of series[i] before row time[i], and nothing later.

    origins = Origins.windows(table, first, steps=12, step_size=6)
    errors = origins.actual() - origins.points(forecaster)
    """

    table: TimeSeriesDataFrame
    series: Ints
    """[N] number of the series of each forecast."""
    time: Ints
    """[N] first row of the series that the forecast does not see."""
    steps: int
    """How many steps each forecast has."""
    gap: Ints
    """[N] number of rows between the last row seen and the first row forecast."""

    @classmethod
    def windows(
        cls,
        table: TimeSeriesDataFrame,
        first: Ints,
        last: Ints | None = None,
        *,
        steps: int,
        step_size: int,
        together: bool = False,
    ) -> Self:
        """An origin for every window of `steps` rows within rows first to last of each series, counted from the end.

        Args:
            table: the table to forecast.
            first: [S] the first row that may be forecast.
            last: [S] the row after the last one that may be forecast; None for the end of each series.
            steps: rows of a window.
            step_size: number of rows from one window to the next.
            together: whether a model forecasts all series from one origin; see `at`.
        """
        lengths = table.store.lengths
        series, time = window_places(lengths, first, lengths if last is None else last, steps, step_size)
        return cls.at(table, series, time, steps, together=together)

    @classmethod
    def at(
        cls, table: TimeSeriesDataFrame, series: Ints, time: Ints, steps: int, *, gap: int = 0, together: bool = False
    ) -> Self:
        """Origins at given rows.

        With `together` (a model that forecasts all series from one origin), every series needs a row before the origin:
        other origins are left out.
        """
        if together:
            series, time = same_moments(table, series, time)
        return cls(table, series, time, steps, np.full(len(series), gap, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.series)

    def where(self, chosen: npt.NDArray[Any]) -> Self:
        """Some of the origins, by a mask [N] or by their numbers."""
        return replace(self, series=self.series[chosen], time=self.time[chosen], gap=self.gap[chosen])

    def on(self, table: TimeSeriesDataFrame, lookback: int) -> Self:
        """The same series and times in another table, such as one with other columns.

        Args:
            table: it must have the rows to forecast, and the lookback before them.
            lookback: how many rows before a forecast are needed at most.
        """
        if table.store is self.table.store:
            return self
        check_together(self.table, table, "clock")
        own, other = self.table.store, table.store
        place = positions(other.ids, own.ids)
        absent = np.setdiff1d(self.series, np.flatnonzero(place >= 0))
        if len(absent):
            raise DataError(f"compared forecasts must be of the same series, but a table lacks "
                            f"{listing(own.ids[absent].tolist())}. Give one table for all")  # fmt: skip
        both = np.unique(self.series)
        mine, theirs = select_series(own, both), select_series(other, place[both])
        # By how many rows the other table begins earlier; one of the two counts is 0.
        shift = np.zeros(len(own.ids), dtype=np.int64)
        shift[both] = rows_before(theirs, mine.start) - rows_before(mine, theirs.start)
        series, time = place[self.series], self.time + shift[self.series]
        lacking = (time < np.minimum(self.time, lookback)) | (time + self.gap + self.steps > other.lengths[series])
        if lacking.any():
            number = int(np.flatnonzero(lacking)[0])
            moment = self.table.times(int(self.series[number]), int(self.time[number]), 1)[0]
            raise DataError(
                f"compared forecasts must be of the same times, but a table lacks rows around {moment} of "
                f"series {own.ids[self.series[number]].item()!r}. Give one table for all"
            )
        return replace(self, table=table, series=series, time=time)

    def forecasts(self, forecaster: Forecaster, columns: Columns) -> Floats:
        """[N, steps, K] forecasts of a model; NaN if a series has no row before the origin."""
        values = np.full((len(self), self.steps, len(columns.names)), np.nan)
        table = forecaster.in_own_codes(self.table)
        for gap in np.unique(self.gap).tolist():
            some = (self.time > 0) & (self.gap == gap)
            series, time, reach = self.series[some], self.time[some], self.steps + gap
            values[some] = historical_forecasts(forecaster, table, series, time, columns, reach)[:, gap:]
        return values

    def points(self, forecaster: Forecaster) -> Floats:
        """[N, steps] the point forecasts of a model."""
        return self.forecasts(forecaster, point_column(forecaster.model.name))[:, :, 0]

    def actual(self) -> Floats:
        """[N, steps] the actual values; NaN where a value is missing, or after the end of the series."""
        return actual(self.table.store, self.series, self.time + self.gap, self.steps)

    def rows(self) -> Ints:
        """[N, steps] the row number, in its series, of each forecast value."""
        return np.asarray((self.time + self.gap)[:, None] + np.arange(self.steps))

    def inside(self) -> npt.NDArray[np.bool_]:
        """[N, steps] whether a forecast row is inside the table."""
        return np.asarray(self.rows() < self.table.store.lengths[self.series][:, None])

    def frame(self, forecasts: dict[str, Floats], keep: npt.NDArray[np.bool_] | None = None) -> pl.DataFrame:
        """The forecasts as rows: id, time, cutoff (the last row seen), actual value, one column per forecast.

        Args:
            forecasts: [N, steps] by name.
            keep: [N, steps] which values become rows; None for those inside the table.
        """
        table = self.table
        schema, store = table.schema, table.store
        which, step = np.nonzero(self.inside() if keep is None else keep)
        rows = self.rows()[which, step]
        stamps = table._stamps(store.times(rows, self.series[which]))
        cutoff = table._stamps(store.times(self.time - 1, self.series))[which]
        columns: list[pl.Series] = []
        if schema.id_type != "none":
            columns.append(pl.Series(schema.id_col, store.ids[self.series].tolist())[which])
        columns += [stamps, cutoff.alias("cutoff")]
        columns.append(pl.Series(schema.target_col, self.actual()[which, step]).fill_nan(None))
        columns += [pl.Series(name, values[which, step].astype(store.y.dtype)) for name, values in forecasts.items()]
        return pl.DataFrame(columns)


def historical_forecasts(
    forecaster: Forecaster, table: TimeSeriesDataFrame, series: Ints, time: Ints, columns: Columns, steps: int
) -> Floats:
    """[N, steps, K] forecasts of series[i] from its rows before time[i]. Forecasts of a point loss get their intervals.

    A multivariate model forecasts all series at once: `time` must then be the same time for all requested series.
    """
    if not len(series):
        return np.empty((0, steps, len(columns.names)))
    read = forecaster.table(table)  # with the columns of this model
    check_together(table, read, "rows", ("the table", f"the table as {forecaster.model.name} reads it"))
    table = read
    check_series(forecaster, table)
    network = forecaster.network_columns(columns)
    if forecaster.model.joint is not None:

        def finish(values: Floats, rows: Ints) -> Floats:
            return forecaster.finished(values, table, columns, until=rows)

        return _together(forecaster, table, series, time, network, (steps, len(columns.names)), finish)
    if forecaster.model.capabilities.multivariate:
        values = _together(forecaster, table, series, time, network, (steps, len(network.names)))
    else:
        values = np.concatenate(
            [
                _each(forecaster, table, series[some], time[some], network, steps)
                for some in _chunks(len(series), SERIES_PER_BATCH)
            ]
        )
    return forecaster.finished(values, table, columns, series, time)


def _chunks(count: int, size: int) -> list[slice]:
    return [slice(first, first + size) for first in range(0, count, size)]


def _each(
    forecaster: Forecaster, table: TimeSeriesDataFrame, series: Ints, time: Ints, columns: Columns, steps: int
) -> Floats:
    """Each forecast as a separate series: the rows of its lookback."""
    store = taken_columns(forecaster.model, table.store)
    begin = np.maximum(time - forecaster.model.input_size, 0)
    ahead = _ahead(forecaster, table, store, series, time, steps)
    return _from_rows(forecaster, table, store, series, (begin, time), columns, ahead, steps)


def _from_rows(
    forecaster: Forecaster,
    table: TimeSeriesDataFrame,
    store: SeriesStore,
    series: Ints,
    rows: tuple[Ints, Ints],
    columns: Columns,
    ahead: FutureValues,
    steps: int,
) -> Floats:
    """Forecasts of series[i] from a range of its rows, in original units. A new series is scaled by the rows before."""
    (begin, stop), first = rows, store.offsets[:-1][series]
    cut = cut_rows(store, series, first + begin, first + stop)
    if forecaster.local is None:
        return from_store(forecaster, cut, columns, ahead, steps)
    scaler = forecaster.local.of(table, series, stop)
    scaled = cut.replace(y=scaler.transform_flat(cut.y, cut.offsets, shown_rows(cut)))
    values = from_store(forecaster, scaled, columns, ahead, steps)
    return np.asarray(scaler.inverse(values, np.arange(len(series))), dtype=np.float64)


def _together(
    forecaster: Forecaster,
    table: TimeSeriesDataFrame,
    series: Ints,
    time: Ints,
    columns: Columns,
    shape: tuple[int, int],
    finish: Callable[[Floats, Ints], Floats] = lambda values, _: values,
) -> Floats:
    """Forecast all series at each origin; `finish` gets them and their row counts. Returns the requested series."""
    store, steps = taken_columns(forecaster.model, table.store), shape[0]
    shifts, everyone = grid_shifts(store), np.arange(len(store.ids))
    moments = time + shifts[series]
    values = np.full((len(series), *shape), np.nan)
    for moment in np.unique(moments):
        rows = np.minimum(moment - shifts, store.lengths)
        if (rows < 1).any():
            late = store.ids[int(np.argmin(rows))]
            raise DataError(
                f"{forecaster.model.kind} sees all series at once, but series {late!s} has no row before one of the "
                "forecasts. Ask for later windows, or fewer"
            )
        # A series that ended earlier keeps its last row, which lies before the window: the whole window is masked.
        begin = np.clip(moment - forecaster.model.input_size - shifts, 0, rows - 1)
        ahead = _ahead(forecaster, table, store, everyone, moment - shifts, steps)
        found = _from_rows(forecaster, table, store, everyone, (begin, rows), columns, ahead, steps)
        chosen = np.flatnonzero(moments == moment)
        values[chosen] = finish(found, rows)[series[chosen]]
    return values


def _ahead(
    forecaster: Forecaster, table: TimeSeriesDataFrame, store: SeriesStore, series: Ints, time: Ints, steps: int
) -> FutureValues:
    """The columns known ahead, from the table itself; beyond its end the last row is repeated, the calendar goes on.

    An empty cell repeats the one before: at the time of the forecast, the next one is not known.
    """
    span = max(steps, forecaster.model.h)
    places = time[:, None] + np.arange(span)
    rows = store.offsets[:-1][series, None] + np.minimum(places, store.lengths[series, None] - 1)
    future = None if store.future is None else carried(store, rows, series)
    which, step = np.nonzero(places >= store.lengths[series, None])
    if future is not None and table.schema.features and len(which):
        stamps = table._stamps(store.times(places[which, step], series[which]))
        added = horizon_features(store, table.schema, stamps)
        future[which, step, future.shape[2] - added.shape[1] :] = added
    codes = None if store.categorical is None else store.categorical[rows].copy()
    if codes is not None:
        names = list(store.categories)[: codes.shape[2]]
        codes[..., [name in forecaster.data.schema.historical_categorical for name in names]] = 0
    return FutureValues(future, codes)


def beside(frame: pl.DataFrame | None, own: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The forecasts of another model joined to those so far, at the origins that both have.

    A multivariate model forecasts only where every series has a past; other models wherever the series itself has one.
    """
    if frame is None:
        return own
    keys = own.columns[: own.columns.index("cutoff") + 1]
    if frame.select(keys).equals(own.select(keys)):
        return frame.hstack(own.select(names))
    return frame.join(own.select(*keys, *names), on=keys, how="inner", maintain_order="left")


def actual(store: SeriesStore, series: Ints, time: Ints, steps: int) -> Floats:
    """[N, steps] values from row time[i] of series[i] on; NaN where a value is missing, or after the end."""
    rows = time[:, None] + np.arange(steps)
    inside = rows < store.lengths[series][:, None]
    flat = np.minimum(store.offsets[:-1][series][:, None] + rows, len(store.y) - 1)
    seen = inside if store.mask is None else inside & store.mask[flat]
    return np.where(seen, np.asarray(store.y[flat], dtype=np.float64), np.nan)


def window_places(lengths: Ints, first: Ints, last: Ints, steps: int, step_size: int) -> tuple[Ints, Ints]:
    """Series and first row of every window of `steps` rows inside [first, last), counted from the end.

    >>> window_places(np.array([10]), np.array([4]), np.array([10]), 2, 3)
    (array([0, 0]), array([5, 8]))
    """
    first, last = np.maximum(first, 1), np.minimum(last, lengths)
    counts = np.maximum((last - steps - first) // step_size + 1, 0)
    series = np.repeat(np.arange(len(lengths)), counts)
    position = np.arange(len(series)) - np.repeat(np.cumsum(counts) - counts, counts)
    return series, np.asarray(last[series] - steps - (counts[series] - 1 - position) * step_size)


def by_series(series: Ints) -> list[Ints]:
    """The positions in [N] series numbers that belong to each series.

    >>> by_series(np.array([4, 2, 4]))
    [array([1]), array([0, 2])]
    """
    order = np.argsort(series, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(series[order])) + 1) if len(series) else []


def same_moments(table: TimeSeriesDataFrame, series: Ints, time: Ints) -> tuple[Ints, Ints]:
    """The origins at which every series of the table has a row before: those that a multivariate model can forecast."""
    shifts = grid_shifts(table.store)
    moments = time + shifts[series]
    possible: Any = moments > int(shifts.max(initial=0))
    return series[possible], time[possible]
