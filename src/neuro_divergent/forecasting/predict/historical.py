"""Historical forecasts: forecasts from inside a table, where the actual values are known.

`Origins` says where forecasts start, and gives the forecasts and the actual values there.

Every forecast is made from a store that was cut at its origin, so that later rows cannot leak into it; only the columns
that are known ahead reach beyond. Letters: N forecasts, S series, H steps, K columns of the forecast, L lookback.
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
    """Where historical forecasts start: forecast i sees the rows of series[i] before row time[i], and nothing later.

    origins = Origins.windows(table, first, steps=12, step_size=6)
    errors = origins.actual() - origins.points(forecaster)
    """

    table: TimeSeriesDataFrame
    series: Ints
    """[N] number of the series of each forecast."""
    time: Ints
    """[N] first row of the series that the forecast does not see."""
    steps: int
    """How many rows each forecast has."""
    gap: Ints
    """[N] rows between the last one seen and the first one forecast."""

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
        """An origin for every window of `steps` rows inside rows first to last of each series, counted from the end.

        Args:
            table: what is forecast.
            first: [S] the first row that may be forecast.
            last: [S] the row after the last one that may be forecast; None for the end of each series.
            steps: rows of a window.
            step_size: distance of two windows.
            together: whether a model forecasts all series at once; see `at`.
        """
        lengths = table.store.lengths
        series, time = window_places(lengths, first, lengths if last is None else last, steps, step_size)
        return cls.at(table, series, time, steps, together=together)

    @classmethod
    def at(
        cls, table: TimeSeriesDataFrame, series: Ints, time: Ints, steps: int, *, gap: int = 0, together: bool = False
    ) -> Self:
        """Origins at given rows.

        A model that forecasts all series at once (`together`) needs a row of every series before the origin: others
        are left out.
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
        """The same series and moments in another table, such as one with other columns.

        Args:
            table: it must have the rows that are forecast, and those that a forecast looks back at.
            lookback: how many of those are needed at most.
        """
        if table.store is self.table.store:
            return self
        check_together(self.table, table, "clock")
        own, other = self.table.store, table.store
        place = positions(other.ids, own.ids)
        absent = np.setdiff1d(self.series, np.flatnonzero(place >= 0))
        if len(absent):
            raise DataError(f"forecasts that are compared are of the same series, but a table lacks "
                            f"{listing(own.ids[absent].tolist())}. Give one table for all")  # fmt: skip
        both = np.unique(self.series)
        mine, theirs = select_series(own, both), select_series(other, place[both])
        # How many rows earlier the other table begins; one of the two counts is 0.
        shift = np.zeros(len(own.ids), dtype=np.int64)
        shift[both] = rows_before(theirs, mine.start) - rows_before(mine, theirs.start)
        series, time = place[self.series], self.time + shift[self.series]
        lacking = (time < np.minimum(self.time, lookback)) | (time + self.gap + self.steps > other.lengths[series])
        if lacking.any():
            number = int(np.flatnonzero(lacking)[0])
            moment = self.table.times(int(self.series[number]), int(self.time[number]), 1)[0]
            raise DataError(
                f"forecasts that are compared are of the same moments, but a table lacks rows around {moment} of "
                f"series {own.ids[self.series[number]].item()!r}. Give one table for all"
            )
        return replace(self, table=table, series=series, time=time)

    def forecasts(self, forecaster: Forecaster, columns: Columns) -> Floats:
        """[N, steps, K] what a model forecasts; NaN where a series has no row before the origin."""
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
        """[N, steps] the values that were forecast; NaN where none was observed, or after the end of the series."""
        return actual(self.table.store, self.series, self.time + self.gap, self.steps)

    def rows(self) -> Ints:
        """[N, steps] the row of its series that each value is a forecast of."""
        return np.asarray((self.time + self.gap)[:, None] + np.arange(self.steps))

    def inside(self) -> npt.NDArray[np.bool_]:
        """[N, steps] whether a forecast row lies inside the table."""
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
    """[N, steps, K] forecasts of series[i] from its rows before time[i]; those of a point loss get their intervals.

    A multivariate model forecasts all series at once: `time` must then mean one moment for the series it is asked for.
    """
    if not len(series):
        return np.empty((0, steps, len(columns.names)))
    read = forecaster.table(table)  # with the columns of this model, whoever read the table first
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
    """Every forecast from a series of its own: the rows of its lookback."""
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
    """Forecasts of series[i] from its rows between two, in original units; a new series is measured on those before."""
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
    """All series from the moment of each forecast; `finish` gets them and their rows by then. Then those asked for."""
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
        # A series that is over by then keeps its last row, which lies before the window: all of it is masked.
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

    An empty cell repeats the one before: who forecasts has to fill it before he knows the next one.
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
    """The forecasts of another model beside those so far, at the origins that both have.

    A multivariate model forecasts only where every series has a past, others wherever their own has one.
    """
    if frame is None:
        return own
    keys = own.columns[: own.columns.index("cutoff") + 1]
    if frame.select(keys).equals(own.select(keys)):
        return frame.hstack(own.select(names))
    return frame.join(own.select(*keys, *names), on=keys, how="inner", maintain_order="left")


def actual(store: SeriesStore, series: Ints, time: Ints, steps: int) -> Floats:
    """[N, steps] values from row time[i] of series[i] on; NaN where none was observed, or after the end."""
    rows = time[:, None] + np.arange(steps)
    inside = rows < store.lengths[series][:, None]
    flat = np.minimum(store.offsets[:-1][series][:, None] + rows, len(store.y) - 1)
    seen = inside if store.mask is None else inside & store.mask[flat]
    return np.where(seen, np.asarray(store.y[flat], dtype=np.float64), np.nan)


def window_places(lengths: Ints, first: Ints, last: Ints, steps: int, step_size: int) -> tuple[Ints, Ints]:
    """Series and first row of every stretch of `steps` rows inside [first, last), counted from the end.

    >>> window_places(np.array([10]), np.array([4]), np.array([10]), 2, 3)
    (array([0, 0]), array([5, 8]))
    """
    first, last = np.maximum(first, 1), np.minimum(last, lengths)
    counts = np.maximum((last - steps - first) // step_size + 1, 0)
    series = np.repeat(np.arange(len(lengths)), counts)
    position = np.arange(len(series)) - np.repeat(np.cumsum(counts) - counts, counts)
    return series, np.asarray(last[series] - steps - (counts[series] - 1 - position) * step_size)


def by_series(series: Ints) -> list[Ints]:
    """Which places of [N] numbers of series belong to each of them.

    >>> by_series(np.array([4, 2, 4]))
    [array([1]), array([0, 2])]
    """
    order = np.argsort(series, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(series[order])) + 1) if len(series) else []


def same_moments(table: TimeSeriesDataFrame, series: Ints, time: Ints) -> tuple[Ints, Ints]:
    """Of some origins, those at which every series of the table has a row before: what a multivariate model can do."""
    shifts = grid_shifts(table.store)
    moments = time + shifts[series]
    possible: Any = moments > int(shifts.max(initial=0))
    return series[possible], time[possible]
