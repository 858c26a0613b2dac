"""Counts the parameters of a description's network, before it is trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.vocabulary import categories_in, with_categories
from neuro_divergent.data.windows.windows import Windows
from neuro_divergent.forecasting.fit.anchors import anchor_and_lags
from neuro_divergent.forecasting.fit.training_rows import training_rows
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.columns_taken import taken_columns, with_calendar
from neuro_divergent.forecasting.network.module import build_module
from neuro_divergent.forecasting.network.parameters import ParameterCount, count_parameters
from neuro_divergent.losses import Loss
from neuro_divergent.training.config.training_config import TrainingConfig


def num_parameters(
    model: Model, data: Any = None, config: TrainingConfig | None = None, **columns: Any
) -> ParameterCount:
    """The number of parameters of a description's module; see `Model.num_parameters`."""
    resolved = (config or TrainingConfig()).resolved(model.recipe(1))
    assert isinstance(resolved.loss, Loss)
    spec, anchor = _sizes(model, data, resolved, columns)
    return count_parameters(build_module(model, spec, resolved.loss, anchor, resolved.seed), resolved.freeze)


def _sizes(
    model: Model, data: Any, config: TrainingConfig, columns: dict[str, Any]
) -> tuple[InputSpec, tuple[int, ...]]:
    """The sizes of the network, and the season lengths of its anchor."""
    if data is not None and not isinstance(data, InputSpec):
        table = with_calendar(model, TimeSeriesDataFrame.from_frame(data, **columns))
        model.check_table(table)
        rows = training_rows(model, table.store, config)
        table = with_categories(table, categories_in(table, rows))
        store = taken_columns(model, table.store)
        windows = Windows(
            store,
            lookback=model.input_size,
            horizon=model.h,
            multivariate=model.capabilities.multivariate,
            short="drop",
        )
        found, read = anchor_and_lags(model, store, rows)
        return replace(windows.spec(), lags=read), found
    lags = model.lags_read
    for name, value in (("anchor", model.anchor), ("lags", lags)):
        if value in ("auto", "seasonal") and (data is None or name == "anchor" or not data.lags):
            raise ConfigError(
                f"{name}={value!r} infers season lengths from the data, but got no table. "
                "Give a table: num_parameters(data)"
            )
    if data is None and model.together:
        raise ConfigError(
            f"{model.kind} sees all series at once, so its size depends on their number, but got no table. "
            "Give a table: num_parameters(data)"
        )
    spec = data or InputSpec(horizon=model.h, lookback=model.input_size)
    if (spec.horizon, spec.lookback) != (model.h, model.input_size):
        raise ConfigError(
            f"sizes must be those of the model, h={model.h} and input_size={model.input_size}, but got "
            f"horizon={spec.horizon} and lookback={spec.lookback}"
        )
    if isinstance(lags, tuple):
        spec = replace(spec, lags=lags)
    anchor = (1,) if model.anchor == "last" else model.anchor or ()
    assert not isinstance(anchor, str)
    return spec, anchor
