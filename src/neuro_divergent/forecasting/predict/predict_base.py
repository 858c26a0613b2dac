"""Forecasting from a table to a frame: what `Forecaster` and `Predictor` share.

Letters: S series, H horizon, K columns of the forecast, B windows, C channels.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import DataError
from neuro_divergent.data.join import on_grid_of, on_span_of, read_again, with_features
from neuro_divergent.data.schema.bounds import Bounds
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.vocabulary import say_unknown, with_categories
from neuro_divergent.data.windows.windows import Windows
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.columns_taken import taken_columns
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.network.output_columns import Columns, forecast_columns, learned_columns, point_column
from neuro_divergent.forecasting.predict import ahead
from neuro_divergent.forecasting.predict.clean_rows import CleanReader
from neuro_divergent.forecasting.predict.output_frame import output_frame, polars_frame
from neuro_divergent.losses import Loss
from neuro_divergent.losses.base import Point
from neuro_divergent.losses.probability_levels import Levels

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.conformal import Calibration
    from neuro_divergent.forecasting.predict.local_scaling import LocalScaling
    from neuro_divergent.forecasting.predict.quantile_calibration import QuantileCalibration

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]


class PredictBase:
    """A trained module with the rows to forecast after, and the code that turns its outputs into a frame.

    Nothing here depends on how the module was trained. It may be called from several threads at once.
    """

    def __init__(
        self,
        *,
        model: Model,
        module: ForecastModule,
        data: TimeSeriesDataFrame,
        intervals: Calibration | None = None,
        local: LocalScaling | None = None,
        bounds: Bounds | None = None,
        calibration: QuantileCalibration | None = None,
    ) -> None:
        self.model = model
        self.module = module
        self.data = data
        self.intervals = intervals
        """Measured errors from which a point forecast gets its intervals; None without."""
        self.local = local
        """How each series is scaled before the model sees it; None does not scale."""
        self.bounds = bounds
        """The range that forecasts never leave; None without."""
        self.calibration = calibration
        """The correction of the intervals of a probabilistic loss; None without."""
        self.has_context = True
        """Whether `data` has rows; a model saved with context=False has only the names of its series."""
        self._said: set[str] = set()
        # Each cache is replaced as a whole, with its key: another thread sees the old one or the new one.
        self._own_windows: tuple[SeriesStore, Windows] | None = None
        self._reader: CleanReader | None = None

    @property
    def seed(self) -> int:
        """The seed of the draws for the quantiles of a hierarchy."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> npt.DTypeLike:
        """The type of the numbers in a frame of forecasts."""
        raise NotImplementedError

    @property
    def network(self) -> nn.Module:
        """The torch module of the network alone, without scaling and anchor."""
        return self.module.network

    @property
    def loss(self) -> Loss:
        """The loss of the training."""
        return self.module.loss

    def _forecast_frame(
        self,
        data: Any,
        future: Any,
        level: Levels,
        quantiles: Levels,
        h: int | None,
        point: Point | None = None,
    ) -> Any:
        """Forecast the steps after every series; return a frame of the input's library. See `Forecaster.predict`."""
        table = self.table(data)
        columns = self.columns(level, quantiles, point)
        steps = ahead.checked_horizon(h, self.model.h)
        values = self.forecast_values(table, columns, future=future, h=steps)
        return output_frame(table, columns.names, values, self.output_dtype)

    def forecast_values(
        self, table: TimeSeriesDataFrame, columns: Columns | None = None, *, future: Any = None, h: int | None = None
    ) -> Floats:
        """The forecasts as an array [series, horizon, columns]."""
        columns = columns or point_column(self.model.name)
        table = self.in_own_codes(table)
        values = ahead.forecast(self, table, self.network_columns(columns), future=future, h=h)
        return self.finished(values, table, columns)

    def prepared(self, table: TimeSeriesDataFrame) -> SeriesStore:
        """The columns of a table that the model takes, with series scaled as in the training."""
        store, scaling = taken_columns(self.model, table.store), self._scaling(table)
        return store if scaling is None else store.replace(y=scaling.scaled_store(table).y)

    def _scaling(self, table: TimeSeriesDataFrame) -> LocalScaling | None:  # noqa: ARG002  # a context has its own
        """How the series of a table are scaled before the model sees them."""
        return self.local

    def columns(self, level: Levels = None, quantiles: Levels = None, point: Point | None = None) -> Columns:
        """The columns of a forecast; without levels those that the loss was trained for."""
        if level is None and quantiles is None:
            columns = learned_columns(self.model.name, self.loss)
        else:
            calibrated = self.intervals is not None
            columns = forecast_columns(self.model.name, self.loss, level, quantiles, calibrated=calibrated)
        if point is None or point == self.loss.shows:
            return columns
        self.loss.showing(point)  # refuses what the loss does not have
        return replace(columns, shows=point)

    def network_columns(self, columns: Columns) -> Columns:
        """The columns that the network itself computes: all, only the point, or what a reconciliation needs."""
        if not self.loss.probabilistic:
            return columns.point
        return columns if self.model.joint is None else self.model.joint.network_columns(columns, self.loss)

    def finished(
        self,
        values: Floats,
        table: TimeSeriesDataFrame,
        columns: Columns,
        series: npt.NDArray[np.int64] | None = None,
        until: npt.NDArray[np.int64] | None = None,
    ) -> Floats:
        """Complete forecasts [N, H, K] of series (None: all) from their first `until` rows (None: all).

        They are in original units. Forecasts of a hierarchy are reconciled; point forecasts get their intervals;
        quantiles are corrected if the model was calibrated. Then everything is kept inside of the target's range.
        """
        if self.model.joint is not None:  # all series at once: the caller selects some
            values = self.model.joint.finished(self, values, table, columns)
        return self._corrected(values, table, columns, series, until)

    def _corrected(
        self,
        values: Floats,
        table: TimeSeriesDataFrame,
        columns: Columns,
        series: npt.NDArray[np.int64] | None = None,
        until: npt.NDArray[np.int64] | None = None,
    ) -> Floats:
        """[N, H, K] forecasts with conformal intervals or corrected quantiles, in the range of the target.

        The arguments are those of `finished`.
        """
        wanted = self.intervals if values.shape[2] < len(columns.names) else self.calibration
        if wanted is not None and columns.probabilities:
            series = np.arange(table.n_series) if series is None else series
            until = table.store.lengths[series] if until is None else until
            scale, ids = self._mean_change(table, series, until), table.ids[series]
            if self.intervals is not None and values.shape[2] < len(columns.names):
                values = self.intervals.around(values[:, :, 0], ids, scale, columns)
            elif self.calibration is not None:
                values = self.calibration.correct(values, ids, scale, columns)
        return values if self.bounds is None else self.bounds.keep(values, columns.levels)

    def _without(self, *, bounds: bool = False, calibration: bool = False) -> Self:
        """A copy that shares everything, but does not keep the range of the target, or does not correct quantiles."""
        other = copy.copy(self)
        other.bounds = None if bounds else self.bounds
        other.calibration = None if calibration else self.calibration
        return other

    def _mean_change(
        self, table: TimeSeriesDataFrame, series: npt.NDArray[np.int64], until: npt.NDArray[np.int64]
    ) -> Floats:
        """[N] the mean absolute change from row to row: the scale of errors for series that were not calibrated."""
        from neuro_divergent.forecasting.predict.conformal import mean_change

        return mean_change(table.store, series, until)

    def make_future_dataframe(self, data: Any = None, h: int | None = None) -> Any:
        """The id and time of every step to forecast: a table of future values needs a row for each."""
        table = self.table(data)
        frame = ahead.future_frame(table, ahead.checked_horizon(h, self.model.h))
        return table.as_input_library(frame)

    def table(self, data: Any = None) -> TimeSeriesDataFrame:
        """The data read with the schema of the training; None for the rows of the model itself."""
        if data is None:
            if not self.has_context:
                raise DataError(
                    "forecasts need rows to follow, but the model was saved with context=False. Give data=..."
                )
            return self.data
        own = self.data
        if isinstance(data, TimeSeriesDataFrame):
            if data.freq != own.freq:
                raise DataError(f"the model was trained on freq {own.freq!r}, but the data has {data.freq!r}")
            if data.schema.features == own.schema.features[: len(data.schema.features)]:
                data = with_features(data, own.schema.features)  # those that the model has added
            known = self.in_own_codes(data)
            if known is not data:
                self.say_unknown(data)
            if ahead.columns_of(self.model, known.store) == ahead.columns_of(self.model, own.store):
                return on_grid_of(own, on_span_of(own, known))
            # Other columns, or other codes of categories: read with the training schema, or refused there.
            return read_again(data.to_polars(), own.schema, (data,))
        quick = self._reader_of(own).table(data)
        if quick is not None:
            return quick
        return on_grid_of(own, TimeSeriesDataFrame.from_frame(data, schema=own.schema))

    def _reader_of(self, like: TimeSeriesDataFrame) -> CleanReader:
        """The fast reader for frames like a table. The last one is cached."""
        reader = self._reader
        if reader is None or reader.like is not like:
            reader = self._reader = CleanReader.of(like)
        return reader

    def in_own_codes(self, table: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
        """A table with more categories, converted to the codes of the training rows; other tables unchanged."""
        store = self.data.store
        own = store.categories
        if not own or table.store.categories == own or not ahead.knows_more(self.model, table.store, store):
            return table
        return with_categories(table, own)

    def say_unknown(self, table: TimeSeriesDataFrame) -> None:
        """Log the categories of a table that are unknown to the model, or refuse them, as the policy says."""
        own = taken_columns(self.model, self.data.store).categories
        say_unknown(table, own, self.data.schema.unknown_categories)

    def windows(self, store: SeriesStore) -> Windows:
        """The windows from which a store is forecast. Those of the model's own rows are cached."""
        known = self._own_windows
        if known is not None and known[0] is store:
            return known[1]
        windows = ahead.forecast_windows(self, store)
        if store is self.data.store:
            self._own_windows = (store, windows)
        return windows

    def outputs(self, batch: Batch, columns: Columns) -> Floats:
        """[B, H, C, K] the columns of a batch, in original units."""
        parameter = next(self.module.parameters())
        if parameter.device.type != "cpu" or parameter.dtype != batch.y.dtype:
            batch = batch.to(parameter.device, parameter.dtype)
        if self.module.training or self.network.training:
            self.module.eval()
        with torch.inference_mode():
            result: Floats = columns.compute(self.module, batch).double().cpu().numpy()
        return result

    def long_frame(self, table: TimeSeriesDataFrame, columns: Columns, values: Floats) -> pl.DataFrame:
        """The forecasts [S, h, K] as rows of id, time and columns."""
        flat = values.reshape(-1, values.shape[-1]).astype(self.output_dtype)
        return polars_frame(table, columns.names, flat, values.shape[1])

    def warn_once(self, key: str, sentence: str) -> None:
        """Log a warning the first time only."""
        if key not in self._said:
            self._said.add(key)
            log.warning(sentence)
