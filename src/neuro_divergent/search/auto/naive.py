"""Naive forecasts as fitted models, so that they can be members of an ensemble, be saved and be served."""

from __future__ import annotations

from collections.abc import Sequence

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
MEANS = (3, 8)
"""Of how many of the last seasons means are forecast: noisy series are nearer to a mean than to their last season."""


def naive_model(h: int, season: int, mean: int = 1) -> Model:
    """A linear network around the mean of some of the last seasons. With weights of 0 it forecasts that mean.

    Its window has one season more: a missing value is taken from an earlier season.
    """
    lengths = mean - 1 + (-(-h // season) if mean > 1 else 1)
    name = NAIVE if season == 1 else f"seasonal naive ({season})"
    if mean > 1:
        name = f"mean of {mean} values" if season == 1 else f"mean of {mean} seasons ({season})"
    anchor = tuple(season * (one + 1) for one in range(lengths))
    return DLinear(h=h, input_size=(lengths + 1) * season, alias=name, anchor=anchor, moving_average=1)


def mean_of(model: Model, anchor: Sequence[int]) -> int:
    """Of how many seasons a model of `naive_model` with this anchor forecasts the mean."""
    return 1 if len(anchor) < 2 else len(anchor) + 1 - -(-model.h // anchor[0])


def naive_forecaster(
    table: TimeSeriesDataFrame, h: int, season: int, loss: Loss, seed: int = 1, mean: int = 1
) -> Forecaster:
    """The naive forecast of a season, or a mean of seasons, as a fitted model, which nothing was trained for."""
    model = naive_model(h, season, mean)
    anchor = tuple(season * (one + 1) for one in range(model.input_size // season - 1))
    spec = InputSpec(horizon=h, lookback=model.input_size)
    module = build_module(model, spec, loss, anchor, seed)
    with torch.no_grad():
        for weight in module.network.parameters():
            weight.zero_()
        if module.anchor is not None and module.anchor.logits is not None:
            module.anchor.logits.copy_(_logits(h, season, mean, len(anchor)))
    config = TrainingConfig(loss=loss, seed=seed, validation_split=None, early_stopping=None, progress=False)
    bounds = range_of(table.store, table.schema, table.store.lengths)
    config = config.resolved(model.recipe(1))
    module.eval()
    return Forecaster(
        model=model, config=config, module=module, data=table, history=History(), anchor=anchor, bounds=bounds
    )


def _logits(h: int, season: int, mean: int, lengths: int) -> torch.Tensor:
    """[lengths, h, 1] with which the anchor takes each of the last seasons once.

    The anchor repeats the last j seasons. In block b of the horizon, that gives the season i = j - b from the end.
    """
    block = torch.arange(h) // season
    back = torch.arange(1, lengths + 1)[:, None] - block
    taken = (back >= 1) & (back <= mean)
    return torch.where(taken, 0.0, -1e4).unsqueeze(-1)


def is_naive(fitted: Forecaster) -> bool:
    """Whether a fitted model is a naive forecast of this file."""
    anchor = fitted.anchor or (1,)
    return bool(fitted.model == naive_model(fitted.model.h, anchor[0], mean_of(fitted.model, anchor)))


def with_quantiles(fitted: Forecaster, held: HeldOut) -> None:
    """Give a naive forecast that was made for a quantile loss intervals from its errors before the held-out windows."""
    past = held.past
    rows = past.store.lengths
    first = np.maximum(rows - np.maximum(4 * held.h, rows // 3), 1)
    fitted.calibration = calibration_of(fitted, past, first, True)
