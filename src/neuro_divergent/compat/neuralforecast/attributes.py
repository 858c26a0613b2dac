"""What scripts read from a fitted NeuralForecast: ids, dates, dataset and scalers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from neuro_divergent.compat.neuralforecast.tables.clock import NUMBER, Clock
from neuro_divergent.core.errors import NotFittedError
from neuro_divergent.data.table import TimeSeriesDataFrame

if TYPE_CHECKING:
    from neuro_divergent.compat.neuralforecast.tables.frames import Source, Types
    from neuro_divergent.compat.neuralforecast.tsdataset import TimeSeriesDataset
    from neuro_divergent.forecasting.predict.forecaster import Forecaster


@dataclass(frozen=True)
class FittedScaler:
    """The scaler of the target's series, as it was measured."""

    scaler_type: str
    stats_: Any
    """[series, statistics] one column per statistic."""


class FittedAttributes:
    """Attributes of a fitted NeuralForecast."""

    forecasters: dict[str, Forecaster]
    _clock: Clock | None
    _source: Source | None
    _columns: Any
    _types: Types

    @property
    def uids(self) -> Any:
        """The ids of the series in order, as a series of the library of the data."""
        table = self._data()
        ids = table.ids.tolist()
        ordered = pl.Series(self._columns.id_col, [ids[number] for number in self._types.order(ids)])
        return self._types.as_category(_library_series(table, ordered))

    @property
    def last_dates(self) -> Any:
        """The last time stamp of each series, in the order of `uids`."""
        table = self._data()
        if self._clock is not None:
            last = self._clock.stamps.sort(NUMBER).group_by(self._clock.id_col).last().sort(self._clock.id_col)
            return _library_index(table, last[self._clock.time_col])
        ends = (np.cumsum(table.store.lengths) - 1)[self._types.order(table.ids.tolist())]
        return _library_index(table, table.all_times().gather(ends.tolist()).alias(self._columns.time_col))

    @property
    def ds(self) -> Any:
        """The time stamp of every row, series after series, as an array."""
        table = self._data()
        times = table.all_times() if self._clock is None else self._clock.stamps[self._clock.time_col]
        parts = np.split(times.to_numpy(), np.cumsum(table.store.lengths)[:-1])
        return np.concatenate([parts[number] for number in self._types.order(table.ids.tolist())])

    @property
    def dataset(self) -> TimeSeriesDataset:
        """The rows of the training table, as models take them."""
        from neuro_divergent.compat.neuralforecast.tsdataset import TimeSeriesDataset

        self._data()
        if self._source is None:
            raise NotFittedError("the training table is not in a saved model. Call fit(df) first")
        columns = self._columns
        return TimeSeriesDataset.from_df(
            self._source.frame, self._source.static, columns.id_col, columns.time_col, columns.target_col
        )[0]

    @property
    def scalers_(self) -> dict[str, FittedScaler]:
        """The scaler of the target by its name; empty without local_scaler_type."""
        self._data()
        local = next(iter(self.forecasters.values())).local
        if local is None:
            return {}
        arrays = [np.asarray(array).reshape(len(local.ids), -1) for array in local.scaler.to_arrays().values()]
        return {self._columns.target_col: FittedScaler(str(local.how), np.concatenate(arrays, axis=1))}

    def _data(self) -> TimeSeriesDataFrame:
        if not self.forecasters:
            raise NotFittedError("the models are not trained yet. Call fit(df) first")
        return next(iter(self.forecasters.values())).data


def _library_series(table: TimeSeriesDataFrame, values: pl.Series) -> Any:
    return values.to_pandas() if table.library == "pandas" else values


def _library_index(table: TimeSeriesDataFrame, values: pl.Series) -> Any:
    if table.library != "pandas":
        return values
    import pandas as pd

    return pd.Index(values.to_pandas(), name=values.name)
