"""A fitted model: forecasts, weights, history."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.frame import TimeSeriesDataFrame
from neuro_divergent.data.store import SeriesStore
from neuro_divergent.data.windows import Windows
from neuro_divergent.forecasting.levels import Columns, forecast_columns
from neuro_divergent.forecasting.model import Model
from neuro_divergent.forecasting.module import ForecastModule
from neuro_divergent.losses import Loss
from neuro_divergent.training.config import TrainingConfig
from neuro_divergent.training.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SERIES_PER_BATCH = 4096


class Forecaster:
    """A trained model with the end of the data it was trained on."""

    def __init__(
        self,
        *,
        model: Model,
        config: TrainingConfig,
        module: ForecastModule,
        data: TimeSeriesDataFrame,
        history: History,
        anchor: tuple[int, ...] = (),
    ) -> None:
        self.model = model
        self.config = config
        self.module = module
        self.history = history
        self.anchor = anchor
        self.data = data

    @property
    def network(self) -> nn.Module:
        """The torch module of the model itself, without scaling and anchor."""
        return self.module.network

    @property
    def loss(self) -> Loss:
        """What the model was trained with."""
        return self.module.loss

    @property
    def num_parameters(self) -> int:
        """How many numbers were trained."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    def predict(
        self,
        data: Any = None,
        *,
        future: Any = None,
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
    ) -> Any:
        """Forecast the steps after the end of every series, as a frame of the library of the input.

        Args:
            data: newer rows, or other series, of the same kind; None forecasts after the training data.
            future: a table with the columns known ahead for every step of the horizon; the calendar's are computed.
            level: prediction intervals in percent, such as [80, 95], as columns -lo-80, -hi-80, ...
            quantiles: probability levels between 0 and 1, as columns _ql0.1, ...
        """
        table = self.data if data is None else self._table(data)
        columns = forecast_columns(self.model.name, self.loss, level, quantiles)
        values = self.forecast_values(table, columns, future=future)
        frame = self._frame(table, columns, values)
        return table.as_input_library(frame)

    def forecast_values(
        self, table: TimeSeriesDataFrame, columns: Columns | None = None, *, future: Any = None
    ) -> np.ndarray:
        """The forecasts as an array [series, horizon, columns], for those who want no frame."""
        from neuro_divergent.forecasting.fit import usable_columns

        columns = columns or forecast_columns(self.model.name, self.loss, None, None)
        store = usable_columns(self.model, table.store)
        windows = Windows(
            store,
            lookback=self.model.input_size,
            horizon=self.model.h,
            short="pad",
            multivariate=self.model.capabilities.multivariate,
            historical_categorical=[name for name in table.schema.historical_categorical if name in store.categories],
        )
        ahead, codes = self._ahead(table, store, future)
        numbers = np.arange(table.n_series)
        if self.model.capabilities.multivariate:
            return self._outputs(windows.forecast_batch(numbers, ahead, codes), columns).transpose(2, 1, 3, 0)[..., 0]
        parts = []
        for first in range(0, len(numbers), SERIES_PER_BATCH):
            some = slice(first, first + SERIES_PER_BATCH)
            batch = windows.forecast_batch(
                numbers[some], None if ahead is None else ahead[some], None if codes is None else codes[some]
            )
            parts.append(self._outputs(batch, columns)[:, :, 0])
        return np.concatenate(parts) if parts else np.empty((0, self.model.h, len(columns.names)))

    def _ahead(
        self, table: TimeSeriesDataFrame, store: SeriesStore, future: Any
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The columns known ahead for the horizon that the model takes: numbers [S, H, F] and codes [S, H, K]."""
        if store.future is None and store.categorical is None:
            return None, None
        values = table.future_values(future, self.model.h)
        codes = values.categorical
        if store.categorical is not None:
            # Codes of columns that are known only up to now are 0 in the horizon; they come after the known ones.
            width = store.categorical.shape[1]
            wide = np.zeros((table.n_series, self.model.h, width), dtype=np.int32)
            if codes is not None:
                wide[..., : codes.shape[2]] = codes
            codes = wide
        return (None if store.future is None else values.future), (None if store.categorical is None else codes)

    @torch.inference_mode()
    def _outputs(self, batch: Batch, columns: Columns) -> np.ndarray:
        parameter = next(self.module.parameters())
        batch = batch.to(parameter.device, parameter.dtype)
        self.module.eval()
        return columns.compute(self.module, batch).double().cpu().numpy()

    def _frame(self, table: TimeSeriesDataFrame, columns: Columns, values: np.ndarray) -> pl.DataFrame:
        h, schema = self.model.h, table.schema
        ids = [] if schema.id_type == "none" else [table.id_column(h)]
        times = table.future_times(h)
        dtype = np.float64 if self.config.precision == "float64" else np.float32
        flat = values.reshape(-1, values.shape[-1]).astype(dtype)
        return pl.DataFrame([*ids, times, *(pl.Series(name, flat[:, i]) for i, name in enumerate(columns.names))])

    def _table(self, data: Any) -> TimeSeriesDataFrame:
        if isinstance(data, TimeSeriesDataFrame):
            if data.freq != self.data.freq:
                raise DataError(f"the model was trained on freq {self.data.freq!r}, but the data has {data.freq!r}")
            return data
        return TimeSeriesDataFrame.from_frame(data, schema=self.data.schema)

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
            output: Tensor = self.module(batch)
        output = output.squeeze(2) if output.shape[2] == 1 else output
        return output.squeeze(-1) if output.shape[-1] == 1 else output

    def plot(
        self, path: str | os.PathLike[str] | None = None, *, series: int = 4, level: Sequence[float] | None = None
    ) -> Figure:
        """The last stretch of some series with their forecasts; written to `path` if given."""
        from neuro_divergent.forecasting.pictures import forecaster_figure
        from neuro_divergent.plotting import save

        return save(forecaster_figure(self, series, level), path)

    def save(self, path: str | os.PathLike[str], *, context: bool = True, overwrite: bool = False) -> None:
        """Write the model as a directory of safetensors and JSON.

        Args:
            path: the directory to make.
            context: keep the last input_size rows of each series, so that `predict()` works after loading.
            overwrite: replace a directory that is there already.
        """
        from neuro_divergent.forecasting.storage import save

        save(self, path, context=context, overwrite=overwrite)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Write the weights alone as a safetensors file."""
        from neuro_divergent.forecasting.storage import save_weights

        save_weights(self.module, path)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Take the weights of a safetensors file; names and shapes must fit."""
        from neuro_divergent.forecasting.storage import load_weights

        load_weights(self.module, path)

    def __repr__(self) -> str:
        return (
            f"Forecaster({self.model.name}: h={self.model.h}, input_size={self.model.input_size}, "
            f"{self.num_parameters:,} parameters, {len(self.history)} epochs, {self.data.n_series:,} series)"
        )
