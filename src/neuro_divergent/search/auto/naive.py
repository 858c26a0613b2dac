"""Naive forecasts as fitted models, so that they can be members of an ensemble, be saved and be served."""

from __future__ import annotations

import numpy as np
import torch

from neuro_divergent.core.batch import InputSpec
from neuro_divergent.data.read.target_range import range_of
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.module import build_module
from neuro_divergent.forecasting.predict.calibrate_intervals import calibration_of
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.losses import Loss
from neuro_divergent.models.dlinear import DLinear
from neuro_divergent.search.auto.held_out import HeldOut
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.history import History

NAIVE = "naive"


def naive_model(h: int, season: int) -> Model:
    """A linear network around the last season. With weights of 0 it forecasts that season again.

    Its window has two seasons: a missing value is taken from the season before.
    """
    name = NAIVE if season == 1 else f"seasonal naive ({season})"
    return DLinear(h=h, input_size=2 * season, alias=name, anchor=(season,), moving_average=1)


def naive_forecaster(table: TimeSeriesDataFrame, h: int, season: int, loss: Loss, seed: int = 1) -> Forecaster:
    """The naive forecast of a season as a fitted model, which nothing was trained for."""
    model = naive_model(h, season)
    spec = InputSpec(horizon=h, lookback=model.input_size)
    module = build_module(model, spec, loss, (season,), seed)
    with torch.no_grad():
        for weight in module.network.parameters():
            weight.zero_()
    config = TrainingConfig(loss=loss, seed=seed, validation_split=None, early_stopping=None, progress=False)
    bounds = range_of(table.store, table.schema, table.store.lengths)
    config = config.resolved(model.recipe(1))
    module.eval()
    return Forecaster(
        model=model, config=config, module=module, data=table, history=History(), anchor=(season,), bounds=bounds
    )


def is_naive(fitted: Forecaster) -> bool:
    """Whether a fitted model is a naive forecast of this file."""
    return bool(fitted.model == naive_model(fitted.model.h, fitted.anchor[0] if fitted.anchor else 1))


def with_quantiles(fitted: Forecaster, held: HeldOut) -> None:
    """Give a naive forecast that was made for a quantile loss intervals from its errors before the held-out windows."""
    past = held.past
    rows = past.store.lengths
    first = np.maximum(rows - np.maximum(4 * held.h, rows // 3), 1)
    fitted.calibration = calibration_of(fitted, past, first, True)
