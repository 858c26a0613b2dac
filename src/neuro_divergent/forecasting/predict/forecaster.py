"""A fitted model: forecasts, weights, history."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import TypeVar

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.schema.bounds import Bounds
from neuro_divergent.data.schema.load_report import listing
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.columns_taken import taken_columns
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.network.parameters import ParameterCount, count_parameters
from neuro_divergent.forecasting.predict import ahead
from neuro_divergent.forecasting.predict.lineage import Lineage, new_lineage
from neuro_divergent.forecasting.predict.predict_base import PredictBase
from neuro_divergent.forecasting.predict.validated import refit_event, validated_on
from neuro_divergent.losses.base import Point
from neuro_divergent.losses.probability_levels import Levels
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.history import History

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure

    from neuro_divergent.diagnostics.architecture import Architecture
    from neuro_divergent.diagnostics.gradient_report import GradientReport
    from neuro_divergent.export.export import Exported
    from neuro_divergent.forecasting.evaluate.cross_validation import CrossValidation
    from neuro_divergent.forecasting.evaluate.scores import Evaluation
    from neuro_divergent.forecasting.predict.conformal import Calibration, PredictionIntervals
    from neuro_divergent.forecasting.predict.explain import Explanation
    from neuro_divergent.forecasting.predict.kept import KeptForecasts
    from neuro_divergent.forecasting.predict.local_scaling import LocalScaling
    from neuro_divergent.forecasting.predict.predictor import Predictor
    from neuro_divergent.forecasting.storage.save_load import ReadOptions

Frame = TypeVar("Frame", default=Any)


class PredictOptions(TypedDict, total=False):
    """The keyword arguments of `Forecaster.predict`."""

    future: Any
    level: Levels
    quantiles: Levels
    h: int | None
    point: Point | None


class Forecaster(PredictBase, Generic[Frame]):
    """A trained model with the end of its training data.

    For type checkers it is a `Forecaster[Frame]`, where Frame is the type of the training table if that is known:
    `predict()` returns such a table.
    """

    def __init__(
        self,
        *,
        model: Model,
        config: TrainingConfig,
        module: ForecastModule,
        data: TimeSeriesDataFrame,
        history: History,
        anchor: tuple[int, ...] = (),
        intervals: Calibration | None = None,
        local: LocalScaling | None = None,
        lineage: Lineage | None = None,
        kept: KeptForecasts | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        super().__init__(model=model, module=module, data=data, intervals=intervals, local=local, bounds=bounds)
        self.config = config
        self.history = history
        self.anchor = anchor
        self.kept = kept
        """Of a refitted model, the held-out forecasts of the selection run: scores and intervals come from them."""
        self._lineage = lineage
        self._not_hashed: SeriesStore | None = None

    @property
    def seed(self) -> int:
        """The seed of the training. Draws use it, too."""
        return self.config.seed

    @property
    def output_dtype(self) -> npt.DTypeLike:
        """The type of the numbers in a frame of forecasts: float64 if the training was in float64, else float32."""
        return np.float64 if self.config.precision == "float64" else np.float32

    @property
    def point(self) -> Point | None:
        """Whether the point forecast is the "mean" or the "median" of the forecast distribution; None for neither.

        It is a setting of the loss, `MQLoss(point="mean")`. If the loss has a distribution, it can be changed later,
        `fitted.point = "mean"`. The weights do not change.
        """
        return self.loss.shows

    @point.setter
    def point(self, value: Point) -> None:
        self.module.loss = self.loss.showing(value)
        self.config = self.config.replace(loss=self.module.loss)

    @property
    def lineage(self) -> Lineage | None:
        """The training that made the model, its parent model, and its data; None for files without this information.

        The fingerprint reads all rows of the table. It is computed on first use, or when the model is saved.
        """
        if self._lineage is not None and self._not_hashed is not None:
            fingerprint = self._not_hashed.fingerprint()
            self._lineage = replace(self._lineage, data_fingerprint=fingerprint)
            self._not_hashed = None
        return self._lineage

    def begin_lineage(self, parent: Forecaster | None = None) -> None:
        """Give the model a new identity: trained on its present table, continued from `parent`."""
        self._lineage = new_lineage(None if parent is None else parent._lineage)
        self._not_hashed = self.data.store

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the module, frozen ones included."""
        return self._parameters.total

    @property
    def num_trainable_parameters(self) -> int:
        """Number of parameters that the last training could change."""
        return self._parameters.trainable

    @property
    def num_frozen_parameters(self) -> int:
        """Number of parameters that the last training did not change: those of `config.freeze`, and of the network."""
        return self._parameters.frozen

    @property
    def _parameters(self) -> ParameterCount:
        return count_parameters(self.module, self.config.freeze)

    @overload
    def predict(self, data: None = None, **options: Unpack[PredictOptions]) -> Frame: ...
    @overload
    def predict(self, data: pl.DataFrame | pl.LazyFrame, **options: Unpack[PredictOptions]) -> pl.DataFrame: ...
    @overload
    def predict(self, data: pd.DataFrame, **options: Unpack[PredictOptions]) -> pd.DataFrame: ...
    @overload
    def predict(self, data: Any, **options: Unpack[PredictOptions]) -> Any: ...  # type: ignore[overload-cannot-match]  # where pandas has no types
    def predict(
        self,
        data: Any = None,
        *,
        future: Any = None,
        level: Levels = None,
        quantiles: Levels = None,
        h: int | None = None,
        point: Point | None = None,
    ) -> Any:
        """Forecast the steps after the end of every series; return a frame of the same library as the input.

        Args:
            data: newer rows, or other series, of the same kind; None forecasts after the training data.
            future: a table with the columns known ahead for every step of the horizon. Calendar features are computed.
            level: prediction intervals in percent, such as [80, 95], as columns -lo-80, -hi-80, ...
            quantiles: probability levels between 0 and 1, as columns _ql0.1, ...
            h: how many steps; None for the model's horizon. More steps are forecast by feeding point forecasts back;
                the error at the end of a block then adds to the errors of the next one, √(d² + c²).
            point: "mean" or "median" of the forecast distribution as the point forecast; None for the choice of the
                loss (`fitted.point`).

        Forecasts stay in the range of the target (`lower`, `upper` and `integer` of the table, `fitted.bounds`).
        """
        return self._forecast_frame(data, future, level, quantiles, h, point)

    def predictor(self) -> Predictor:
        """A small copy for serving: the weights (shared, not copied) and the last rows of every series.

        It forecasts the same numbers, takes new rows with `observe`, and may be called from several threads at once. It
        has no configuration, no history and no training table.
        """
        from neuro_divergent.forecasting.predict.predictor import predictor_of

        return predictor_of(self)

    def calibrate(self, data: Any, intervals: PredictionIntervals | None = None) -> Self:
        """Measure errors on rows that were not trained on, so that `predict(level=...)` has intervals that hold.

        A loss that forecasts a point gets conformal intervals from its errors on the last windows. The intervals of a
        quantile loss or a distribution are corrected by their errors on all rows after the training rows.

        Rows that the model was, or may have been, trained on are left out. If none is left, an error is raised. Of a
        refitted model, the errors on held-out rows are those of its selection run.

        Args:
            data: rows after the training data, with enough rows before them for the lookback.
            intervals: for a loss that forecasts a point: how many windows and which method; None for the defaults.
        """
        from neuro_divergent.forecasting.fit.training_rows import trained_rows, unseen_from
        from neuro_divergent.forecasting.predict.calibrate_intervals import calibration_of
        from neuro_divergent.forecasting.predict.conformal import PredictionIntervals, calibrate

        table = self.table(data)
        unseen, trained = unseen_from([self], table), trained_rows(self, table)
        if not self.loss.probabilistic:
            self.intervals = calibrate(self, table, intervals or PredictionIntervals(), unseen, trained)
            return self
        if intervals is not None:
            raise ConfigError(
                f"PredictionIntervals are for a loss that forecasts a point, but {self.loss.kind} has intervals of its "
                "own. Correct them without: calibrate(data)"
            )
        found = calibration_of(self, table, unseen, True, trained)
        if found is None:
            raise DataError(
                f"intervals are corrected by their errors on {self.model.h} or more rows after the training rows, but "
                "no series has them, or the loss has no pair of levels such as 0.1 and 0.9. Give later rows"
            )
        self.calibration = found
        return self

    def predict_insample(self, step_size: int = 1, *, level: Levels = None, quantiles: Levels = None) -> Any:
        """Forecasts of the training data itself, from every step_size-th row, with the actual values.

        They include rows that were trained on: they show what was learned, not how good the model is.
        """
        from neuro_divergent.forecasting.evaluate.scores import insample

        frame = insample(self, self.data, step_size, self.columns(level, quantiles))
        return self.data.as_input_library(frame)

    def cross_validation(self, data: Any = None, **options: Any) -> CrossValidation:
        """Train the model again on earlier parts of a table and forecast the later ones; see `cross_validation`."""
        from neuro_divergent.forecasting.evaluate.cross_validation import cross_validation

        options = {"config": self.config} | options
        return cross_validation([self.model], self.table(data), **options)

    def evaluate(self, data: Any, **options: Any) -> Evaluation:
        """Score forecasts of a table that the model was not trained on, beside the seasonal naive; see `evaluate`."""
        from neuro_divergent.forecasting.evaluate.scores import evaluate

        return evaluate([self], self.table(data), **options)

    def update(self, data: Any, config: TrainingConfig | None = None) -> Self:
        """Continue training on newer rows, from the present weights. Later forecasts follow the new rows.

        Prediction intervals are updated: errors of the present weights on the new rows, before training on them,
        replace the oldest errors.

        Args:
            data: rows after the known ones (known rows are replaced), or new series for a univariate model.
            config: how to train; None uses the configuration of the model for 5 epochs without validation.
        """
        from neuro_divergent.forecasting.fit.continue_training import update

        update(self, data, config)
        return self

    def fine_tune(
        self, data: Any, config: TrainingConfig | None = None, *, freeze: Sequence[str] = (), **columns: Any
    ) -> Forecaster:
        """A new forecaster for another table, trained from the present weights.

        Args:
            data: any table with the same kinds of columns.
            config: how to train; None uses this model's configuration with a tenth of the learning rate.
            freeze: patterns of names of parameters to freeze, such as "network.layers.0.*".
            columns: arguments of `from_frame` if the columns are named differently.
        """
        from neuro_divergent.forecasting.fit.continue_training import fine_tune

        return fine_tune(self, data, config, freeze=tuple(freeze), **columns)

    def simulate(self, data: Any = None, *, n_paths: int = 100, future: Any = None, **options: Any) -> Any:
        """Sample paths whose steps are correlated like the model's errors; see `simulate`."""
        from neuro_divergent.forecasting.predict.sample_paths import simulate

        table = self.table(data)
        return table.as_input_library(simulate(self, table, n_paths=n_paths, future=future, **options))

    def explain(self, data: Any = None, *, future: Any = None, **options: Any) -> Explanation:
        """The attributions of the forecast of every series to its inputs; see `explain`."""
        from neuro_divergent.forecasting.predict.explain import explain

        return explain(self, self.table(data), future=future, **options)

    def get_missing_future(self, future: Any, data: Any = None, h: int | None = None) -> Any:
        """The rows that are missing in a table of future values; empty if it is complete."""
        table = self.table(data)
        frame = ahead.missing_future(table, future, ahead.checked_horizon(h, self.model.h))
        return table.as_input_library(frame)

    def forward(self, window: Tensor | Batch) -> Tensor:
        """Raw windows [B, L] (or a Batch) → forecasts [B, H], or [B, H, Q] for several outputs, in original units."""
        if isinstance(window, Batch):
            batch = window
        else:
            if window.ndim != 2 or window.shape[1] != self.model.input_size:
                raise ConfigError(
                    f"forward takes windows of shape [B, {self.model.input_size}], but got {tuple(window.shape)}"
                )
            self._only_target()
            batch = Batch(window.unsqueeze(-1))
        with torch.inference_mode():
            output = self.module.forward(batch)
            if output.shape[3] == 1:
                output = output.squeeze(3)
            return output.squeeze(2) if output.shape[2] == 1 else output

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        format: Literal["onnx"] = "onnx",  # noqa: A002
        quantize: Literal["int8", "float16"] | None = None,
        level: Levels = None,
        quantiles: Levels = None,
        overwrite: bool = False,
    ) -> Exported:
        """Write the model as one file that other programs run: raw windows in, forecasts in original units out.

        Scaling, anchor, corrections of intervals and the range of the target are inside. The file forecasts what
        `predictor().predict_array(x)` does, for any number of windows, NaN for a missing value. It is checked on
        windows of the model before it is written. A JSON file beside it describes the inputs.

        Args:
            path: the file, such as "model.onnx".
            format: "onnx".
            quantize: "int8" computes matrices in int8, "float16" stores weights in half the space.
            level: central intervals in percent, as columns -lo-80, -hi-80, ...
            quantiles: probability levels between 0 and 1.
            overwrite: replace a file that exists.
        """
        from neuro_divergent.export.export import export

        return export(
            self, path, format=format, quantize=quantize, level=level, quantiles=quantiles, overwrite=overwrite
        )

    def _only_target(self) -> None:
        """Refuse windows of the target alone for a network that reads further columns."""
        store, spec = taken_columns(self.model, self.data.store), self.module.spec
        names = (*store.future_names, *store.historical_names, *store.static_names, *store.categories)
        if spec.future or spec.historical or spec.static or spec.categories:
            raise ConfigError(
                f"forward takes a Batch with all columns that the network reads, but got only the target and not "
                f"{listing(names)}. Use predict(data), give nd.Batch(y, future=...), or train without them (columns of "
                "the calendar: calendar=None)"
            )

    def gradient_report(self) -> GradientReport:
        """The gradients of the training, layer by layer; it must have had `callbacks=[nd.GradientAnalyzer()]`."""
        from neuro_divergent.diagnostics.gradient_report import gradient_report

        return gradient_report(self)

    def architecture(self, path: str | os.PathLike[str] | None = None) -> Architecture:
        """The layers of the network with their shapes, parameters, multiply-adds and share of time.

        Args:
            path: an .svg file, or a .png file with the extra `plots`; None writes nothing. `print` shows it as text.
        """
        from neuro_divergent.diagnostics.architecture import architecture_of

        return architecture_of(self).drawn(path)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        series: int = 4,
        level: Levels = None,
        future: Any = None,
    ) -> Figure:
        """Draw the last rows of some series with their forecasts. The figure is also written to `path`, if given.

        Args:
            path: the picture file.
            series: how many series.
            level: intervals in percent; None for those that the model was trained for.
            future: the columns known ahead, as for `predict`.
        """
        from neuro_divergent.forecasting.plots import forecasters_figure
        from neuro_divergent.plotting import save

        return save(forecasters_figure([self], series, level, future), path)

    def save(self, path: str | os.PathLike[str], *, context: bool = True, overwrite: bool = False) -> None:
        """Write the model as a directory of safetensors and JSON.

        Args:
            path: the directory to create.
            context: save the last input_size rows of each series (more if lags reach further back), so that `predict()`
                works after loading.
            overwrite: replace the directory if it exists.
        """
        from neuro_divergent.forecasting.storage.save_load import save

        save(self, path, context=context, overwrite=overwrite)

    @staticmethod
    def load(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> Forecaster[Any]:
        """Read one saved model; see `load`. A directory with several models is refused."""
        from neuro_divergent.forecasting.storage.save_load import load_one

        return load_one(path, Forecaster, **options)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Write the weights alone as a safetensors file."""
        from neuro_divergent.forecasting.storage.save_load import save_weights

        save_weights(self.module, path)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Load the weights of a safetensors file. Names and shapes must match."""
        from neuro_divergent.forecasting.storage.save_load import load_weights

        load_weights(self.module, path)

    def _repr_html_(self) -> str:
        return f"<b>{html.escape(repr(self))}</b>{self.history._repr_html_() if len(self.history) else ''}"

    def __repr__(self) -> str:
        return (
            f"Forecaster({self.model.name}: h={self.model.h}, input_size={self.model.input_size}, "
            f"{self.num_parameters:,} parameters, {len(self.history)} epoch{'s' * (len(self.history) != 1)}, "
            f"{self.data.n_series:,} series{f', validated on {part}' if (part := validated_on(self)) else ''}"
            f"{', then refit on all rows' if refit_event(self.history) else ''})"
        )
