"""Attributions of forecasts in the arrays of neuralforecast.

Letters: B windows, H explained steps, N series that are forecast together, O outputs, L lookback, F columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.predict.explain import Explanation, explain
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.losses.distribution import Distributional
from neuro_divergent.losses.weighting import Weighted

METHODS = {
    "IntegratedGradients": "integrated_gradients",
    "InputXGradient": "input_x_gradient",
    "ShapleyValueSampling": "shapley_sampling",
}
_POINTS = {"ShapleyValueSampling": 8}


def explainable(
    members: Sequence[Member], fitted: dict[str, Forecaster], explainer: str, *, verbose: bool
) -> list[Member]:
    """The models that an explainer can be asked about, as neuralforecast has it; it warns of those left out."""
    if explainer not in METHODS:
        raise ConfigError(f"explainer must be one of {', '.join(METHODS)}, but got explainer={explainer!r}")
    reasons: dict[str, str] = {}
    for member in members:
        forecaster = fitted[member.name]
        loss = forecaster.loss
        loss = loss.loss if isinstance(loss, Weighted) else loss
        if isinstance(loss, Distributional):
            reasons[member.name] = f"{loss.kind} gives parameters of a distribution. Use a point or a quantile loss"
        elif hasattr(forecaster.network, "feedback") and explainer == "IntegratedGradients":
            reasons[member.name] = "it is recursive. Set recurrent=False, or use another explainer"
    if verbose:
        for name, reason in reasons.items():
            warnings.warn(f"{name} is left out: {reason}.", UserWarning, stacklevel=3)
    kept = [member for member in members if member.name not in reasons]
    if not kept:
        raise ConfigError(f"no model can be explained: {'; '.join(f'{n}: {r}' for n, r in reasons.items())}")
    return kept


def checked_indices(name: str, given: Sequence[int] | None, count: int, default: Sequence[int]) -> list[int]:
    """Numbers from 0 to count - 1, as they were given."""
    if given is None:
        return list(default)
    if not len(given) or any(number < 0 or number >= count for number in given):
        raise ConfigError(f"{name} are numbers from 0 to {count - 1}, or None, but got {name}={list(given)}")
    return list(given)


def explanations(
    forecaster: Forecaster,
    table: TimeSeriesDataFrame,
    future: Any,
    horizons: Sequence[int],
    outputs: Sequence[int],
    series: Sequence[int] | None,
    explainer: str,
) -> dict[str, Tensor | None]:
    """Attributions of one model: insample, futr_exog, hist_exog, stat_exog and baseline_predictions."""
    several = forecaster.model.capabilities.multivariate
    found = [
        explain(
            forecaster, table, method=METHODS[explainer], steps=[step + 1 for step in horizons], future=future,  # type: ignore[arg-type]
            points=_POINTS.get(explainer, 32), output=number,
        )
        for number in outputs
    ]  # fmt: skip
    chosen = None if not several else list(series) if series is not None else None
    parts = {
        "insample": _insample(found, several=several),
        "futr_exog": _stacked(found, "future", several=several),
        "hist_exog": _stacked(found, "historical", several=several),
        "stat_exog": _stacked(found, "static", several=several),
        "baseline_predictions": _placed(np.stack([item.baseline for item in found], axis=2), several=several),  # type: ignore[arg-type]
    }
    return {name: part if part is None or chosen is None else part[:, :, chosen] for name, part in parts.items()}


def _placed(values: Any, *, several: bool) -> Tensor:
    """[S, H, O, ...] → [B, H, N, O, ...]: a window per series, or one window of all series."""
    tensor = torch.from_numpy(np.ascontiguousarray(values)).float()
    return tensor.movedim(0, 1).unsqueeze(0) if several else tensor.unsqueeze(2)


def _insample(found: Sequence[Explanation], *, several: bool) -> Tensor:
    """[B, H, N, O, L, 2], with the series that it comes from before L: the second of the two is the mask, always 0."""
    values = np.stack([item.values["y"] for item in found], axis=2)
    values = np.swapaxes(values, -1, -2) if several else values
    placed = _placed(values, several=several)
    return torch.stack([placed, torch.zeros_like(placed)], dim=-1)


def _stacked(found: Sequence[Explanation], name: str, *, several: bool) -> Tensor | None:
    """[B, H, N, O, F, L], with the series that it comes from behind L; statics have no L, and the series before F."""
    if name not in found[0].values:
        return None
    values = np.stack([item.values[name] for item in found], axis=2)
    if name != "static":
        # Ours are [..., L, F], and [..., L, series, F] of several series.
        values = np.moveaxis(values, -1, -3) if several else np.swapaxes(values, -1, -2)
    return _placed(values, several=several)
