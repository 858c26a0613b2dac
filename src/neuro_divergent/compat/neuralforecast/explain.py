"""Attributions of forecasts in the arrays of neuralforecast.

Letters: B windows, H explained steps, N series that are forecast together, O outputs, L lookback, F columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from neuro_divergent.compat.neuralforecast.members import Facts, Member
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.explain import Explanation, explain
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.losses.distribution import Distributional
from neuro_divergent.losses.weighting import Weighted

METHODS = {
    "IntegratedGradients": "integrated_gradients",
    "InputXGradient": "input_x_gradient",
    "ShapleyValueSampling": "shapley_sampling",
}
ADDITIVE = ("IntegratedGradients", "ShapleyValueSampling")
"""Explainers whose attributions sum to the forecast less the baseline."""
_POINTS = {"ShapleyValueSampling": 8}
_FEWEST, _MORE, _CLOSE = 32, (64, 128, 256), 3e-4
"""Points of integrated gradients, and the share of a forecast that their sum may lack."""


class Asked:
    """The checked request for an explanation.

    Args:
        h: the horizon of the models.
        horizons: steps from 0; None for all.
        outputs: numbers of the network's outputs per step; None for the first.
        series: numbers of the series that a multivariate model forecasts together; None for all.
        explainer: one of `METHODS`.
    """

    def __init__(
        self,
        h: int,
        horizons: Sequence[int] | None,
        outputs: Sequence[int] | None,
        series: Sequence[int] | None,
        explainer: str,
    ) -> None:
        if explainer not in METHODS:
            raise ConfigError(f"explainer must be one of {', '.join(METHODS)}, but got explainer={explainer!r}")
        self.horizons = _numbers("horizons", horizons, h, range(h))
        self.outputs, self.series, self.explainer = [0] if outputs is None else list(outputs), series, explainer

    def part(self, first: int, size: int) -> Asked:
        """The request for the steps from `first` on, counted from there."""
        chosen = [step - first for step in self.horizons if first <= step < first + size]
        return Asked(size, chosen, self.outputs, self.series, self.explainer)

    def check(self, forecasters: Sequence[Forecaster]) -> None:
        """Refuse outputs and series that not every model has."""
        _numbers("outputs", self.outputs, min(item.loss.outputs for item in forecasters), [0])
        together = [item.data.n_series for item in forecasters if item.model.capabilities.multivariate]
        _numbers("series", self.series, together[0] if together else 1, [])


def explainable(
    members: Sequence[Member], fitted: dict[str, Forecaster], asked: Asked, *, verbose: bool
) -> list[Member]:
    """The models that an explainer supports, as in neuralforecast; a warning names those that are left out."""
    reasons: dict[str, str] = {}
    for member in members:
        forecaster = fitted[member.name]
        loss = forecaster.loss
        loss = loss.loss if isinstance(loss, Weighted) else loss
        if isinstance(loss, Distributional):
            reasons[member.name] = f"{loss.kind} has parameters of a distribution. Use a point or a quantile loss"
        elif hasattr(forecaster.network, "feedback") and asked.explainer == "IntegratedGradients":
            reasons[member.name] = "it is recursive. Set recurrent=False, or use another explainer"
    if verbose:
        for name, reason in reasons.items():
            warnings.warn(f"{name} is left out: {reason}.", UserWarning, stacklevel=3)
    kept = [member for member in members if member.name not in reasons]
    if not kept:
        raise ConfigError(f"no model can be explained: {'; '.join(f'{n}: {r}' for n, r in reasons.items())}")
    asked.check([fitted[member.name] for member in kept])
    return kept


def _numbers(name: str, given: Sequence[int] | None, count: int, default: Sequence[int]) -> list[int]:
    """Numbers from 0 to count - 1, as they were given."""
    if given is None:
        return list(default)
    if not len(given) or any(number < 0 or number >= count for number in given):
        raise ConfigError(f"{name} must be numbers from 0 to {count - 1}, or None, but got {name}={list(given)}")
    return list(given)


def explanations(
    forecaster: Forecaster, facts: Facts, table: TimeSeriesDataFrame, future: Any, asked: Asked
) -> dict[str, Tensor | None]:
    """Attributions of one model: insample, futr_exog, hist_exog, stat_exog and baseline_predictions."""
    several = forecaster.model.capabilities.multivariate
    method: Any = METHODS[asked.explainer]
    steps = [step + 1 for step in asked.horizons]

    def told(number: int, points: int) -> Explanation:
        own = _own_number(forecaster, facts, number)
        return explain(forecaster, table, method=method, future=future, output=own, steps=steps, points=points)

    if asked.explainer == "IntegratedGradients":
        found = [_additive(partial(told, number)) for number in asked.outputs]
    else:
        found = [told(number, _POINTS.get(asked.explainer, 1)) for number in asked.outputs]
    chosen = list(asked.series) if several and asked.series is not None else None
    parts = {
        "insample": _insample(found, several=several, ahead=_fed_back(forecaster)),
        "futr_exog": _stacked(found, "future", facts.future, several=several),
        "hist_exog": _stacked(found, "historical", facts.historical, several=several),
        "stat_exog": _stacked(found, "static", facts.static, several=several),
        "baseline_predictions": _baselines(found, several=several) if asked.explainer in ADDITIVE else None,
    }
    return {name: part if part is None or chosen is None else part[:, :, chosen] for name, part in parts.items()}


def _own_number(forecaster: Forecaster, facts: Facts, number: int) -> int:
    """The number of an output of our network: levels are in increasing order here, the median first there."""
    loss = forecaster.loss
    loss = loss.loss if isinstance(loss, Weighted) else loss
    share = facts.outputs[number][1] if number < len(facts.outputs) else None
    if share is None or len(loss.levels) != loss.outputs:
        return number
    return int(np.abs(np.asarray(loss.levels) - share).argmin())


def _additive(told: Callable[[int], Explanation]) -> Explanation:
    """Integrated gradients whose sum is the forecast less the baseline.

    More points are taken while they help: bends of a network need them. What is left comes from jumps (networks that
    select their strongest lags or frequencies), which no gradient sees. It is shared in proportion to the attributions.
    """
    item = told(_FEWEST)
    gap = _gap(item)
    for points in _MORE:
        if np.abs(gap).max() <= _CLOSE:
            return item
        finer = told(points)
        rest = _gap(finer)
        improved = np.abs(rest).max() < 0.7 * np.abs(gap).max()
        item, gap = (finer, rest) if improved else (item, gap)
        if not improved:
            break
    return item if np.abs(gap).max() <= _CLOSE else _shared_out(item)


def _missing(item: Explanation) -> Any:
    """[S, H] forecast - baseline - sum of the attributions."""
    given = sum(values.reshape(*values.shape[:2], -1).sum(axis=2) for values in item.values.values())
    return item.forecast - _baseline(item) - given


def _gap(item: Explanation) -> Any:
    size = np.maximum(np.abs(item.forecast), np.abs(item.forecast).mean() * 1e-3)
    return _missing(item) / np.maximum(size, np.finfo(np.float32).tiny)


def _shared_out(item: Explanation) -> Explanation:
    missing = _missing(item)
    size = sum(np.abs(values).reshape(*values.shape[:2], -1).sum(axis=2) for values in item.values.values())
    share = np.divide(missing, size, out=np.zeros_like(missing), where=size > 0)
    values = {
        name: part + np.abs(part) * share.reshape(*share.shape, *[1] * (part.ndim - 2))
        for name, part in item.values.items()
    }
    return replace(item, values=values)


def lengthened(forecaster: Forecaster, table: TimeSeriesDataFrame, future: Any) -> TimeSeriesDataFrame:
    """The table followed by its point forecasts, as a forecast of more steps continues."""
    schema, h = table.schema, forecaster.model.h
    if table.store.historical is not None:
        raise ConfigError(
            f"{forecaster.model.name} has historical columns, which are not known after the table, so it explains at "
            f"most h={h} steps"
        )
    columns = Columns((schema.target_col,), (None,))
    values = forecaster.forecast_values(table, columns, future=future)
    rows = forecaster.long_frame(table, columns, values)
    if future is not None:
        rows = rows.join(future.drop(schema.target_col, strict=False), on=[schema.id_col, schema.time_col], how="left")
    before = table.to_polars()
    rows = rows.select([name for name in rows.columns if name in before.columns])
    fixed = [name for name in (*table.store.static_names, *table.store.categories) if name not in rows.columns]
    both = pl.concat([before, rows], how="diagonal_relaxed").sort(schema.id_col, schema.time_col, maintain_order=True)
    both = both.with_columns(pl.col(fixed).forward_fill().over(schema.id_col))
    longer = TimeSeriesDataFrame.from_frame(both, schema=schema)
    longer.library = table.library
    return longer


def joined(parts: Sequence[dict[str, Tensor | None]]) -> dict[str, Tensor | None]:
    """Attributions of several spans of steps, one after the other."""
    found: dict[str, Tensor | None] = {}
    for name in parts[0]:
        pieces = [part[name] for part in parts if part[name] is not None]
        found[name] = torch.cat(pieces, dim=1) if pieces else None  # type: ignore[arg-type]
    return found


def _baseline(item: Explanation) -> Any:
    assert item.baseline is not None
    return item.baseline


def _baselines(found: Sequence[Explanation], *, several: bool) -> Tensor:
    return _placed(np.stack([_baseline(item) for item in found], axis=2), several=several)


def _placed(values: Any, *, several: bool) -> Tensor:
    """[S, H, O, ...] → [B, H, N, O, ...]: a window per series, or one window of all series."""
    tensor = torch.from_numpy(np.ascontiguousarray(values)).float()
    return tensor.movedim(0, 1).unsqueeze(0) if several else tensor.unsqueeze(2)


def _insample(found: Sequence[Explanation], *, several: bool, ahead: int = 0) -> Tensor:
    """[B, H, N, O, L, 2], with the series that it comes from behind L: the second of the two is the mask, always 0.

    `ahead` steps follow the lookback, always 0: those in which a recursive network reads its own forecasts.
    """
    placed = _placed(np.stack([item.values["y"] for item in found], axis=2), several=several)
    if ahead:
        placed = torch.nn.functional.pad(placed, (0, ahead))
    return torch.stack([placed, torch.zeros_like(placed)], dim=-1)


def _fed_back(forecaster: Forecaster) -> int:
    return forecaster.model.h if hasattr(forecaster.network, "feedback") else 0


def _stacked(found: Sequence[Explanation], kind: str, columns: Sequence[str], *, several: bool) -> Tensor | None:
    """[B, H, N, O, F, L], with the series that it comes from behind L; statics have no L, and the series before F.

    The columns have the order of the user's list. A categorical column is one of them: the attributions of its
    embedding's numbers are summed.
    """
    if not columns:
        return None
    axis = -1 if kind == "static" else 2
    told = [np.stack([_column(item, kind, name) for name in columns], axis=axis) for item in found]
    return _placed(np.stack(told, axis=2), several=several)


def _column(item: Explanation, kind: str, name: str) -> Any:
    """[S, H, L] the attributions of one column; [S, H] of a static one. Of several series the origin comes last."""
    if name in item.names[kind]:
        return item.values[kind][..., item.names[kind].index(name)]
    values = item.values["categorical"][..., item.names["categorical"].index(name)]
    if kind == "static":
        return values.sum(axis=2)
    return values[:, :, : item.lookback] if kind == "historical" else values
