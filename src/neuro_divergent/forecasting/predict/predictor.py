"""A fitted model for serving: only the module, the schema and the last rows of every series."""

from __future__ import annotations

import copy
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import DataError
from neuro_divergent.data.agreement import check_together, positions
from neuro_divergent.data.join import joined_tables, later_rows
from neuro_divergent.data.schema.bounds import Bounds
from neuro_divergent.data.schema.load_report import DataReport, listing
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.predict import ahead
from neuro_divergent.forecasting.predict.predict_base import PredictBase
from neuro_divergent.forecasting.predict.raw_windows import forecast_arrays
from neuro_divergent.losses.base import Point
from neuro_divergent.losses.probability_levels import Levels

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.conformal import Calibration
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.forecasting.predict.local_scaling import LocalScaling
    from neuro_divergent.forecasting.predict.quantile_calibration import QuantileCalibration

Floats = npt.NDArray[np.float64]


class Predictor(PredictBase):
    """A fitted model for serving, fast and callable from several threads at once: `fitted.predictor()` makes one.

    It has the weights (shared with the forecaster, not copied), the schema, and the context `data`: the rows of every
    series that a forecast needs. Nothing else of the training is kept.

    >>> import neuro_divergent as nd
    >>> config = nd.TrainingConfig(max_steps=1, progress=False, validation_split=None)
    >>> fitted = nd.DLinear(h=12, input_size=24).fit(nd.samples.air_passengers(), config)
    >>> predictor = fitted.predictor()
    >>> predictor.predict().equals(fitted.predict())
    True
    >>> predictor.predict_array([[400.0] * 24]).shape
    (1, 12)
    """

    def __init__(
        self,
        *,
        model: Model,
        module: ForecastModule,
        data: TimeSeriesDataFrame,
        seed: int,
        output_dtype: npt.DTypeLike = np.float32,
        intervals: Calibration | None = None,
        local: LocalScaling | None = None,
        bounds: Bounds | None = None,
        calibration: QuantileCalibration | None = None,
    ) -> None:
        super().__init__(
            model=model,
            module=module,
            data=data,
            intervals=intervals,
            local=local,
            bounds=bounds,
            calibration=calibration,
        )
        self.data: _Context = _context_of(self, data, None)
        self._seed, self._output_dtype = seed, output_dtype
        self._observing = Lock()
        self.module.eval()
        _ = model.joint  # computed once, before threads use it

    @property
    def seed(self) -> int:
        """The seed of the draws for the quantiles of a hierarchy."""
        return self._seed

    @property
    def output_dtype(self) -> npt.DTypeLike:
        """The type of the numbers in a frame of forecasts."""
        return self._output_dtype

    def predict(
        self,
        frame: Any = None,
        *,
        future: Any = None,
        level: Levels = None,
        quantiles: Levels = None,
        h: int | None = None,
        point: Point | None = None,
    ) -> Any:
        """Forecast the steps after the end of every series; return a frame of the input's library.

        The numbers, columns and types are those of `Forecaster.predict`.

        Args:
            frame: rows of known or other series, of the same kind as the training data; None forecasts after the
                context.
            future: a table with the columns known ahead for every step of the horizon. Calendar features are computed.
            level: prediction intervals in percent, such as [80, 95], as columns -lo-80, -hi-80, ...
            quantiles: probability levels between 0 and 1, as columns _ql0.1, ...
            h: how many steps; None for the model's horizon. More steps are forecast by feeding point forecasts back.
            point: "mean" or "median" as the point forecast; None for the choice of the loss.
        """
        return self._forecast_frame(frame, future, level, quantiles, h, point)

    def predict_array(
        self,
        x: Any,
        *,
        future: Any = None,
        historical: Any = None,
        static: Any = None,
        categorical: Any = None,
        ids: Any = None,
        level: Levels = None,
        quantiles: Levels = None,
    ) -> npt.NDArray[Any]:
        """Forecast raw windows: [B, L] → [B, H], or [B, H, K] if a forecast has several columns.

        Everything is in original units. The columns are those of `predict`; `columns(level, quantiles).names` lists
        them. For a multivariate model x is [B, L, C], with one channel per training series (sorted by name), the result
        is [B, H, C] or [B, H, C, K], and the other arrays have an axis C before their last one.

        Args:
            x: the last L = input_size values, the oldest first; NaN for a missing value.
            future: [B, L + H, F] the columns known ahead, features of the calendar included, in the order of
                `data.store.future_names`.
            historical: [B, L, X] the columns known only for the past, in the order of `data.store.historical_names`.
            static: [B, S] the columns with one value per series.
            categorical: [B, L + H, K] codes of categories, 0 for unknown; those that change with time come first.
            ids: [B] the series of each window. They matter if series were scaled one by one, or if the errors of each
                were measured; a window without a name is a new series.
            level: prediction intervals in percent.
            quantiles: probability levels between 0 and 1.
        """
        if self.model.joint is not None:
            raise DataError(
                f"{self.model.kind} reconciles the forecasts of all series of a hierarchy, so it cannot forecast "
                "single windows. Give a frame of all series: predict(frame)"
            )
        columns = self.columns(level, quantiles)
        blocks = {"future": future, "historical": historical, "static": static, "categorical": categorical}
        values = forecast_arrays(self, x, columns, blocks, ids).astype(self.output_dtype)
        if values.shape[3] == 1:
            values = values[:, :, :, 0]
        return values if self.model.capabilities.multivariate else values[:, :, 0]

    def observe(self, rows: Any) -> Self:
        """Add new rows to the context, so that `predict()` forecasts after them. The weights do not change.

        Rows must come after the known rows of their series, on the same time grid. A gap between is treated as in the
        training data. Univariate models accept new series. A call adds all of its rows, or none: an error changes
        nothing. Forecasts in other threads see the context before or after the call.

        Args:
            rows: any table with the columns of the training data.
        """
        with self._observing:
            if self.has_context:
                quick = self._quickly_joined(rows)
                context = self._joined(rows) if quick is None else quick
            else:
                context = self._as_context(self.table(rows), None)
            self.data, self.has_context = context, True
        return self

    def _quickly_joined(self, rows: Any) -> _Context | None:
        """The context with the next rows of one known series; None if the full reader must read them."""
        known = self.data
        later = None if self.model.together or known.store.fills is not None else self._reader_of(known).table(rows)
        if later is None:
            return None
        number = int(positions(known.ids, later.ids)[0])
        steps = np.arange(len(later))
        most = ahead.context_rows(self.model, known.schema)
        rows = int(known.store.lengths[number])
        if rows < most <= rows + len(later):
            return None  # rows will leave the context: now the series is measured for good, see `_context_of`
        if number < 0 or not np.array_equal(
            known.store.times(known.store.lengths[number] + steps, np.full(len(steps), number)),
            later.store.times(steps, np.zeros(len(steps), dtype=np.int64)),
        ):
            return None
        store = appended(known.store, number, later.store.y, most)
        return _Context(store, known, known.changes, known.local)

    def _joined(self, rows: Any) -> _Context:
        known = self.data
        read = isinstance(rows, TimeSeriesDataFrame)
        later = self.table(rows) if read else later_rows(known, rows, new_series=True)
        check_together(known, later, "clock", ("the context", "the table of new rows"))
        _check_later(known, later)
        return self._as_context(joined_tables(known, later), known)

    def _as_context(self, table: TimeSeriesDataFrame, known: _Context | None) -> _Context:
        """The end of a table, if the model can forecast after it."""
        ahead.check_series(self, table)
        ahead.check_ends(self, table.store)
        if self.model.joint is not None:
            self.model.joint.order(table)
        return _context_of(self, table, known)

    def _scaling(self, table: TimeSeriesDataFrame) -> LocalScaling | None:
        """The scaling that was fitted on all rows of the training table; the context is only its end."""
        return table.local if isinstance(table, _Context) else self.local

    def _mean_change(
        self, table: TimeSeriesDataFrame, series: npt.NDArray[np.int64], until: npt.NDArray[np.int64]
    ) -> Floats:
        """The mean change over all rows of the training table, see `_scaling`."""
        found = super()._mean_change(table, series, until)
        if not isinstance(table, _Context) or table.changes is None:
            return found
        measured = table.changes[series]
        return np.where(np.isnan(measured), found, measured)

    @property
    def num_bytes(self) -> int:
        """Bytes of memory: the weights (shared with the forecaster), the context, scales and measured errors."""
        tensors = {tensor.data_ptr(): tensor for tensor in self.module.state_dict().values()}
        total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()) + self.data.store.nbytes
        for part in (self.intervals, self.calibration, None if self.local is None else self.local.scaler):
            total += 0 if part is None else sum(array.nbytes for array in part.to_arrays().values())
        return int(total)

    def __repr__(self) -> str:
        data = self.data
        until = f" up to {data.report().last_time}" if self.has_context else " without rows"
        return (
            f"Predictor({self.model.name}: h={self.model.h}, input_size={self.model.input_size}, {data.n_series:,} "
            f"series{until}, {self.num_bytes / 1e6:.1f} MB)"
        )


class _Context(TimeSeriesDataFrame):
    """The end of a table, with statistics of all of its rows."""

    def __init__(
        self, store: SeriesStore, like: TimeSeriesDataFrame, changes: Floats | None, local: LocalScaling | None
    ) -> None:
        rows = len(store.y)
        report = DataReport(rows_read=rows, rows_stored=rows, n_series=len(store.ids), freq=store.freq)
        super().__init__(store, like.schema, report, library=like.library)
        self.changes = changes
        """[S] mean absolute change from row to row; NaN while all rows are here, None if no interval needs it."""
        self.local = local
        """The scaling of the training, and of other series that have rows before the context."""


def predictor_of(fitted: Forecaster) -> Predictor:
    """The predictor of a forecaster; see `Forecaster.predictor`."""
    predictor = Predictor(
        model=fitted.model,
        module=copy.copy(fitted.module),  # the same weights, but a later `fitted.point = ...` has no effect here
        data=fitted.data,
        seed=fitted.seed,
        output_dtype=fitted.output_dtype,
        intervals=fitted.intervals,
        local=fitted.local,
        bounds=fitted.bounds,
        calibration=fitted.calibration,
    )
    predictor.has_context = fitted.has_context
    return predictor


def _context_of(predictor: Predictor, table: TimeSeriesDataFrame, known: _Context | None) -> _Context:
    """The rows of a table that forecasts need. Statistics of the earlier context are kept.

    A series that was not trained on is measured by its rows as long as all of them are in the context. The first call
    that fills the context measures it for good.
    """
    most = ahead.context_rows(predictor.model, table.schema)
    changes, local = None, predictor.local if known is None else known.local
    if predictor.intervals is not None or predictor.calibration is not None:
        full = table.store.lengths >= most
        changes = np.where(full, predictor._mean_change(table, np.arange(table.n_series), table.store.lengths), np.nan)
        if known is not None and known.changes is not None:
            place = positions(known.ids, table.ids)
            before = np.where(place >= 0, known.changes[place], np.nan)
            changes = np.where(np.isnan(before), changes, before)
    if local is not None:
        local = local.including(table, table.store.lengths, least=most)
    store = ahead.tail(table.store, most)
    return _Context(store, table if known is None else known, changes, local)


def appended(store: SeriesStore, number: int, values: npt.NDArray[np.floating], most: int) -> SeriesStore:
    """A store with observed values appended to one series, of which the last `most` rows are kept."""
    begin, end = store.offsets[number], store.offsets[number + 1]
    skipped = max(0, int(end - begin) + len(values) - most)

    def joined(column: npt.NDArray[Any], more: npt.NDArray[Any]) -> npt.NDArray[Any]:
        own = np.concatenate([column[begin:end], more])[skipped:]
        return np.concatenate([column[:begin], own, column[end:]])

    changes: dict[str, Any] = {"y": joined(store.y, values)}
    if store.mask is not None:
        mask = joined(store.mask, np.ones(len(values), dtype=bool))
        changes["mask"] = None if mask.all() else mask
    if skipped:
        moved = store.starting_at(np.array([skipped]), np.array([number]))
        for name, stamp in moved.items():
            stamps = getattr(store, name)
            changes[name] = (store.start if stamps is None else stamps).copy()
            changes[name][number] = stamp[0]
    grown = len(values) - skipped
    offsets = store.offsets + grown * (np.arange(len(store.offsets)) > number)
    return store.replace(offsets=offsets, weight=None, **changes)


def _check_later(known: TimeSeriesDataFrame, later: TimeSeriesDataFrame) -> None:
    place = positions(known.ids, later.ids)
    last = known.store.times(known.store.lengths - 1)[place]
    early = np.flatnonzero((place >= 0) & (later.store.start <= last))
    if len(early):
        raise DataError(
            "observed rows must come after the known rows of their series, but got rows from "
            f"{later.times(int(early[0]), 0, 1)[0]} on of series {listing(later.ids[early].tolist())}, known up to "
            f"{known._stamps(last[early[:1]])[0]}. Leave out the rows that are already known"
        )
