"""A fitted model: forecasts, weights, history."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import TypeVar

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.network.parameters import ParameterCount, count_parameters
from neuro_divergent.forecasting.predict import ahead
from neuro_divergent.forecasting.predict.lineage import Lineage, new_lineage
from neuro_divergent.forecasting.predict.predict_base import PredictBase
from neuro_divergent.forecasting.predict.validated import validated_on
from neuro_divergent.losses.base import Point
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.history import History

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure

    from neuro_divergent.forecasting.evaluate.cross_validation import CrossValidation
    from neuro_divergent.forecasting.evaluate.scores import Evaluation
    from neuro_divergent.forecasting.predict.conformal import Calibration, PredictionIntervals
    from neuro_divergent.forecasting.predict.explain import Explanation
    from neuro_divergent.forecasting.predict.local_scaling import LocalScaling
    from neuro_divergent.forecasting.predict.predictor import Predictor
    from neuro_divergent.forecasting.storage.save_load import ReadOptions

Frame = TypeVar("Frame", default=Any)


class PredictOptions(TypedDict, total=False):
    """The keyword arguments of `Forecaster.predict`."""

    future: Any
    level: Sequence[float] | None
    quantiles: Sequence[float] | None
    h: int | None


class Forecaster(PredictBase, Generic[Frame]):
    """A trained model with the end of the data it was trained on.

    For type checkers it is a `Forecaster[Frame]`, where Frame is the type of table that it was trained on, if that is
    known: `predict()` gives such a table.
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
    ) -> None:
        super().__init__(model=model, module=module, data=data, intervals=intervals, local=local)
        self.config = config
        self.history = history
        self.anchor = anchor
        self._lineage = lineage
        self._not_hashed: SeriesStore | None = None

    @property
    def seed(self) -> int:
        """The seed of the training, which is also the key of draws."""
        return self.config.seed

    @property
    def output_dtype(self) -> npt.DTypeLike:
        """The type of the numbers in a frame of forecasts: float64 where the training was, else float32."""
        return np.float64 if self.config.precision == "float64" else np.float32

    @property
    def point(self) -> Point | None:
        """What the point forecast is: the "mean" or the "median" of what may come; None where the loss aims at neither.

        It belongs to the loss, `MQLoss(point="mean")`. It may be changed afterwards, `fitted.point = "mean"`, where
        the loss knows a distribution: the weights stay as they are.
        """
        return self.loss.shows

    @point.setter
    def point(self, value: Point) -> None:
        self.module.loss = self.loss.showing(value)
        self.config = self.config.replace(loss=self.module.loss)

    @property
    def lineage(self) -> Lineage | None:
        """Which training made the model, from which other model, on which data; None for files that do not say.

        The fingerprint reads all rows of the table: it is computed when it is first asked for, or when the model is
        saved.
        """
        if self._lineage is not None and self._not_hashed is not None:
            fingerprint = self._not_hashed.fingerprint()
            self._lineage = replace(self._lineage, data_fingerprint=fingerprint)
            self._not_hashed = None
        return self._lineage

    def begin_lineage(self, parent: Forecaster | None = None) -> None:
        """Give the model a new identity, as trained on its present table and continued from `parent`."""
        self._lineage = new_lineage(None if parent is None else parent._lineage)
        self._not_hashed = self.data.store

    @property
    def num_parameters(self) -> int:
        """How many parameters the module has, frozen ones included."""
        return self._parameters.total

    @property
    def num_trainable_parameters(self) -> int:
        """How many parameters the last training could change."""
        return self._parameters.trainable

    @property
    def num_frozen_parameters(self) -> int:
        """How many parameters the last training left as they were: those of `config.freeze`, and of the network."""
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
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
        h: int | None = None,
    ) -> Any:
        """Forecast the steps after the end of every series, as a frame of the library of the input.

        Args:
            data: newer rows, or other series, of the same kind; None forecasts after the training data.
            future: a table with the columns known ahead for every step of the horizon; the calendar's are computed.
            level: prediction intervals in percent, such as [80, 95], as columns -lo-80, -hi-80, ...
            quantiles: probability levels between 0 and 1, as columns _ql0.1, ...
            h: how many steps; None for the model's. More than those are forecast by feeding point forecasts back; the
                error at the end of a block then adds to the errors of the next one, √(d² + c²).
        """
        return self.forecast_frame(data, future, level, quantiles, h)

    def predictor(self) -> Predictor:
        """A slim copy for serving: the weights (shared, not copied) and the last rows of every series.

        It forecasts the same numbers, takes new rows with `observe`, and may be called from several threads at once.
        It keeps nothing of the training: no configuration, no history, no table.
        """
        from neuro_divergent.forecasting.predict.predictor import predictor_of

        return predictor_of(self)

    def calibrate(self, data: Any, intervals: PredictionIntervals | None = None) -> Self:
        """Measure errors on the last windows of a table that was not trained on, so that `predict(level=...)` works.

        Windows with rows that the model was trained on, or may have been, are left out; none left is an error.

        Args:
            data: rows after the training data, with enough rows before them for the lookback.
            intervals: how many windows and which method; None for the defaults.
        """
        from neuro_divergent.forecasting.fit.training_rows import unseen_from
        from neuro_divergent.forecasting.predict.conformal import PredictionIntervals, calibrate

        if self.loss.probabilistic:
            raise ConfigError(
                f"{self.loss.kind} has intervals of its own, which calibrate would not change. Train with a loss of "
                "one point, such as MAE, to have them measured"
            )
        table = self.table(data)
        self.intervals = calibrate(self, table, intervals or PredictionIntervals(), unseen_from([self], table))
        return self

    def predict_insample(
        self, step_size: int = 1, *, level: Sequence[float] | None = None, quantiles: Sequence[float] | None = None
    ) -> Any:
        """Forecasts of the training data itself, from every step_size-th row, beside the truth.

        Rows that were trained on are among them: this shows what was learned, not how good the model is.
        """
        from neuro_divergent.forecasting.evaluate.scores import insample

        frame = insample(self, self.data, step_size, self.columns(level, quantiles))
        return self.data.as_input_library(frame)

    def cross_validation(self, data: Any = None, **options: Any) -> CrossValidation:
        """Train the model afresh on earlier parts of a table and forecast the later ones; see `cross_validation`."""
        from neuro_divergent.forecasting.evaluate.cross_validation import cross_validation

        options = {"config": self.config} | options
        return cross_validation([self.model], self.table(data), **options)

    def evaluate(self, data: Any, **options: Any) -> Evaluation:
        """Score forecasts of a table that the model was not trained on, beside seasonal naive; see `evaluate`."""
        from neuro_divergent.forecasting.evaluate.scores import evaluate

        return evaluate([self], self.table(data), **options)

    def update(self, data: Any, config: TrainingConfig | None = None) -> Self:
        """Go on training on newer rows, from the present weights, and forecast after them from now on.

        Prediction intervals are renewed: the errors of the present weights on the new rows, which they have not seen,
        take the place of the oldest ones.

        Args:
            data: rows after those known (rows known already are replaced), or new series for a univariate model.
            config: how to train; None takes the configuration of the model for 5 epochs without validation.
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
            config: how to train; None takes this model's configuration with a tenth of the learning rate.
            freeze: patterns of parameter names that stay as they are, such as "network.layers.0.*".
            columns: arguments of `from_frame` if the columns are named differently.
        """
        from neuro_divergent.forecasting.fit.continue_training import fine_tune

        return fine_tune(self, data, config, freeze=tuple(freeze), **columns)

    def simulate(self, data: Any = None, *, n_paths: int = 100, future: Any = None, **options: Any) -> Any:
        """Sample paths whose steps depend on each other as the model's errors do; see `simulate`."""
        from neuro_divergent.forecasting.predict.sample_paths import simulate

        table = self.table(data)
        return table.as_input_library(simulate(self, table, n_paths=n_paths, future=future, **options))

    def explain(self, data: Any = None, *, future: Any = None, **options: Any) -> Explanation:
        """What the forecast of every series rests on; see `explain`."""
        from neuro_divergent.forecasting.predict.explain import explain

        return explain(self, self.table(data), future=future, **options)

    def get_missing_future(self, future: Any, data: Any = None, h: int | None = None) -> Any:
        """The rows that a table of future values lacks; none when it is complete."""
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
            batch = Batch(window.unsqueeze(-1))
        with torch.inference_mode():
            output = self.module.forward(batch)
            if output.shape[3] == 1:
                output = output.squeeze(3)
            return output.squeeze(2) if output.shape[2] == 1 else output

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        series: int = 4,
        level: Sequence[float] | None = None,
        future: Any = None,
    ) -> Figure:
        """The last stretch of some series with their forecasts; written to `path` if given.

        Args:
            path: a picture's file.
            series: how many series.
            level: intervals in percent; those that the model was trained for unless given.
            future: the columns known ahead, as for `predict`.
        """
        from neuro_divergent.forecasting.plots import forecasters_figure
        from neuro_divergent.plotting import save

        return save(forecasters_figure([self], series, level, future), path)

    def save(self, path: str | os.PathLike[str], *, context: bool = True, overwrite: bool = False) -> None:
        """Write the model as a directory of safetensors and JSON.

        Args:
            path: the directory to make.
            context: keep the last input_size rows of each series (more where lags reach further back), so that
                `predict()` works after loading.
            overwrite: replace a directory that is there already.
        """
        from neuro_divergent.forecasting.storage.save_load import save

        save(self, path, context=context, overwrite=overwrite)

    @staticmethod
    def load(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> Forecaster[Any]:
        """Read one saved model; see `load`. A directory that holds several models is refused."""
        from neuro_divergent.forecasting.storage.save_load import load_one

        return load_one(path, Forecaster, **options)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Write the weights alone as a safetensors file."""
        from neuro_divergent.forecasting.storage.save_load import save_weights

        save_weights(self.module, path)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Take the weights of a safetensors file; names and shapes must fit."""
        from neuro_divergent.forecasting.storage.save_load import load_weights

        load_weights(self.module, path)

    def _repr_html_(self) -> str:
        return f"<b>{html.escape(repr(self))}</b>{self.history._repr_html_() if len(self.history) else ''}"

    def __repr__(self) -> str:
        return (
            f"Forecaster({self.model.name}: h={self.model.h}, input_size={self.model.input_size}, "
            f"{self.num_parameters:,} parameters, {len(self.history)} epoch{'s' * (len(self.history) != 1)}, "
            f"{self.data.n_series:,} series{f', validated on {part}' if (part := validated_on(self)) else ''})"
        )
