"""Explains forecasts: gradients through the network, or the parts that the model itself reports.

Attributions are in the units of the target. The scaling of the window stays fixed. The baseline is a neutral input:
every past value at the window's level, every column at its mean, every category at the mean of all known ones. Letters:
S series, H explained steps, L lookback, F, X, K columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.extras import require
from neuro_divergent.core.seeding import numpy_generator
from neuro_divergent.data.scaling.per_window import Statistics
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.predict.ahead import check_ends, check_series, forecast_windows, known_ahead

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

Floats = npt.NDArray[np.float64]
ExplanationMethod = Literal[
    "integrated_gradients", "input_x_gradient", "gradient_shap", "shapley_sampling", "decomposition"
]

FIELDS = ("y", "future", "historical", "static", "categorical")


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Attributions of forecasts to the inputs of the model."""

    method: str
    steps: tuple[int, ...]
    """The explained steps ahead, from 1."""
    forecast: Floats
    """[S, H] the point forecast at these steps."""
    baseline: Floats | None
    """[S, H] the forecast for the baseline. With integrated gradients the attributions sum to forecast - baseline."""
    values: dict[str, Floats]
    """Attributions by kind of input: y [S, H, L], future [S, H, L+h, F], historical [S, H, L, X], static [S, H, K],
    categorical [S, H, L+h, K]. A multivariate model has the series of origin after the time axis. For "decomposition":
    the parts of the forecast [S, H], or other arrays that the model reports."""
    table: TimeSeriesDataFrame = field(repr=False)
    lookback: int = field(repr=False)
    names: dict[str, tuple[str, ...]] = field(repr=False, default_factory=dict)

    @cached_property
    def frame(self) -> Any:
        """Rows of id, time, feature, position (steps from the end of the data; 0 is the last row) and attribution."""
        parts = [self._rows(name, values) for name, values in self.values.items() if name in FIELDS or values.ndim == 2]
        return self.table.as_input_library(pl.concat(parts))

    def importance(self) -> Any:
        """Mean absolute attribution of each feature, summed over its positions, the largest first."""
        parts = [self._rows(name, values) for name, values in self.values.items() if name in FIELDS or values.ndim == 2]
        keys = [name for name in parts[0].columns if name not in ("position", "attribution")]
        summed = pl.concat(parts).group_by(keys).agg(pl.col("attribution").abs().sum())
        mean = summed.group_by("feature").agg(pl.col("attribution").mean().alias("importance"))
        return self.table.as_input_library(mean.sort("importance", descending=True))

    def _rows(self, name: str, values: Floats) -> pl.DataFrame:
        series, steps = values.shape[:2]
        labels, positions = self._labels(name, values)
        each = len(labels)
        schema = self.table.schema
        for column in {schema.id_col, schema.time_col} & {"feature", "position", "attribution"}:
            raise ConfigError(
                f"an explanation has columns feature, position and attribution besides the id and the time of the "
                f"table, but one of those is named {column!r}. Rename it, or use `values`"
            )
        last = max(self.steps)
        times = self.table.future_times(last)
        rows = (np.arange(series)[:, None] * last + np.array(self.steps) - 1).reshape(-1)
        columns = []
        if schema.id_type != "none":
            columns.append(pl.Series(schema.id_col, np.repeat(self.table.ids, steps * each).tolist()))
        columns += [times[np.repeat(rows, each)], pl.Series("feature", labels * (series * steps))]
        columns.append(pl.Series("position", positions * (series * steps), dtype=pl.Int64))
        return pl.DataFrame([*columns, pl.Series("attribution", values.reshape(-1))])

    def _labels(self, name: str, values: Floats) -> tuple[list[str], list[int | None]]:
        """Feature and position of every attribution of one forecast, in the order of the array."""
        if name not in FIELDS:
            return [name], [None]
        if name == "static":
            own = self.names["static"]
            if values.ndim == 3:
                return list(own), [None] * len(own)
            return [f"{column} of {ident}" for ident in self.table.ids for column in own], [None] * values[0, 0].size
        places = list(range(1 - self.lookback, values.shape[2] - self.lookback + 1))
        single = (self.table.schema.target_col,) if name == "y" else self.names[name]
        others = values.ndim == (4 if name == "y" else 5)
        inner = [f"{column} of {ident}" for ident in self.table.ids for column in single] if others else list(single)
        return inner * len(places), [place for place in places for _ in inner]


def explain(
    forecaster: Forecaster,
    table: TimeSeriesDataFrame,
    *,
    method: ExplanationMethod = "integrated_gradients",
    steps: Sequence[int] | None = None,
    points: int = 32,
    future: Any = None,
    output: int | None = None,
) -> Explanation:
    """Return the attributions of the forecasts after every series to the inputs of the model.

    Args:
        forecaster: the fitted model.
        table: the table to forecast after.
        method: "integrated_gradients" (Sundararajan et al. 2017); "input_x_gradient"; "gradient_shap" (needs captum);
            "shapley_sampling" (Strumbelj & Kononenko 2010), which treats each column, and the target's past, as one
            feature per step and is slow;
            "decomposition": the parts that the model reports, such as the stacks of N-BEATS or the attention of TFT.
        steps: which steps ahead, from 1; None for all.
        points: points between the baseline and the input (integrated gradients), samples (gradient_shap), or orders of
            the features (shapley_sampling).
        future: the columns known ahead.
        output: which output of the network per step is explained, such as one of several quantiles; None for the point
            forecast.
    """
    h = forecaster.model.h
    chosen = tuple(range(1, h + 1)) if steps is None else tuple(steps)
    if not chosen or min(chosen) < 1 or max(chosen) > h:
        raise ConfigError(f"steps must be numbers from 1 to h={h}, but got steps={steps!r}")
    check_series(forecaster, table)
    check_ends(forecaster, table.store)
    if forecaster.local is not None:
        raise ConfigError(
            "explanations need series in original units, but local_scaler_type scales them. Train without it"
        )
    store = forecaster.prepared(table)
    ahead = known_ahead(table, store, future, h)
    windows = forecast_windows(forecaster, store)
    batch = windows.forecast_batch(np.arange(table.n_series), ahead.future, ahead.categorical)
    module, parameter = forecaster.module.eval(), next(forecaster.module.parameters())
    batch = batch.to(parameter.device, parameter.dtype)
    with torch.no_grad():
        scaled, stats = module.as_network_sees(batch)
    names = {"future": store.future_names, "historical": store.historical_names, "static": store.static_names,
             "categorical": tuple(store.categories)}  # fmt: skip
    if method == "decomposition":
        values, baseline = _decomposed(forecaster, module, scaled, stats, chosen), None
    else:
        values, baseline = _attributed(module, scaled, stats, chosen, method, points, output)
    with torch.no_grad():
        point = _by_series(_point(module, scaled, stats, output))[:, [step - 1 for step in chosen]]
    return Explanation(
        method=method, steps=chosen, forecast=point, baseline=baseline, values=values, table=table,
        lookback=forecaster.model.input_size, names=names,
    )  # fmt: skip


def _point(module: ForecastModule, scaled: Batch, stats: Statistics, number: int | None = None) -> Tensor:
    """[B, H, C] the point forecast, or one of the outputs, in original units, differentiable in the scaled batch."""
    median = None if module.head is None else scaled.y.new_tensor([0.5])
    output = module.original(module.from_scaled(scaled, stats, median))
    if number is not None:
        if len(module.loss.levels) == output.shape[-1]:  # quantiles that cross are sorted in a forecast, too
            output = module.loss.quantiles(output, output.new_tensor(module.loss.levels))
        return output[..., number]
    return output[..., 0] if module.head is not None else module.loss.point(output)


def _by_series(values: Tensor) -> Floats:
    """[B, H, C] → [S, H]: windows of one channel, or one window of all series."""
    found: Floats = values.detach().double().cpu().numpy()
    return found[0].T if found.shape[2] > 1 else found[:, :, 0]


def _attributed(
    module: ForecastModule,
    scaled: Batch,
    stats: Statistics,
    steps: tuple[int, ...],
    method: str,
    points: int,
    output: int | None,
) -> tuple[dict[str, Floats], Floats]:
    if points < 1:
        raise ConfigError(f"points must be at least 1, but got points={points}")
    fields = [name for name in FIELDS if getattr(scaled, name) is not None]
    inputs, nothing = zip(*(_ends(name, getattr(scaled, name), scaled.y.dtype) for name in fields), strict=True)
    channels = scaled.y.shape[2]

    def function(step: int, channel: int) -> Callable[..., Tensor]:
        def run(*tensors: Tensor) -> Tensor:
            times = tensors[0].shape[0] // scaled.size
            wide, wide_stats = Batch(*_repeated(scaled, times)), Statistics(*_repeated(stats, times))
            changed = wide._replace(**dict(zip(fields, tensors, strict=True)))
            return _point(module, changed, wide_stats, output)[:, step - 1, channel]

        return run

    found: dict[str, list[list[Tensor]]] = {name: [[] for _ in range(channels)] for name in fields}
    for channel in range(channels):
        for step in steps:
            parts = _METHODS[method](function(step, channel), list(inputs), list(nothing), points)
            for name, part in zip(fields, parts, strict=True):
                found[name][channel].append(part.detach())
    with torch.no_grad():
        flat = scaled._replace(**dict(zip(fields, nothing, strict=True)))
        baseline = _by_series(_point(module, flat, stats, output))[:, [step - 1 for step in steps]]
    return {name: _arranged(name, parts, channels) for name, parts in found.items()}, baseline


def _ends(name: str, values: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """An input and its baseline; of codes the numbers that CategoryEmbedding takes, presence 1 and 0."""
    if name != "categorical":
        return values, torch.zeros_like(values)
    absent = 2 * values.to(dtype)
    return absent + 1, absent


def _arranged(name: str, parts: list[list[Tensor]], channels: int) -> Floats:
    """[S, H, ...]: per channel a list of steps, each with windows first."""
    if channels > 1:
        stacked = torch.stack([torch.stack([part[0] for part in steps]) for steps in parts])
    else:
        stacked = torch.stack(parts[0], dim=1)
        stacked = stacked[..., 0] if name == "y" else stacked
    result: Floats = stacked.double().cpu().numpy()
    return result


def _repeated(parts: Iterable[Any], times: int) -> list[Any]:
    return [None if tensor is None else _tiled(tensor, times) for tensor in parts]


def _tiled(tensor: Tensor, times: int) -> Tensor:
    return tensor if times == 1 else tensor.repeat(times, *([1] * (tensor.ndim - 1)))


def _integrated(
    function: Callable[..., Tensor], inputs: list[Tensor], nothing: list[Tensor], points: int
) -> list[Tensor]:
    """(x - x₀) · mean of the gradient at the midpoints of `points` equal stretches from x₀ to x."""
    total = [torch.zeros_like(tensor) for tensor in inputs]
    for number in range(points):
        share = (number + 0.5) / points
        at = [zero + share * (tensor - zero) for tensor, zero in zip(inputs, nothing, strict=True)]
        gradients = _gradients(function, at)
        total = [sum_ + gradient / points for sum_, gradient in zip(total, gradients, strict=True)]
    return [(tensor - zero) * sum_ for tensor, zero, sum_ in zip(inputs, nothing, total, strict=True)]


def _input_times_gradient(
    function: Callable[..., Tensor],
    inputs: list[Tensor],
    nothing: list[Tensor],
    points: int,  # noqa: ARG001
) -> list[Tensor]:
    gradients = _gradients(function, inputs)
    return [(tensor - zero) * slope for tensor, zero, slope in zip(inputs, nothing, gradients, strict=True)]


def _gradient_shap(
    function: Callable[..., Tensor], inputs: list[Tensor], nothing: list[Tensor], points: int
) -> list[Tensor]:
    attr: Any = require("captum.attr", extra="explain", purpose="gradient_shap")
    found = attr.GradientShap(function).attribute(tuple(inputs), baselines=tuple(nothing), n_samples=points)
    return list(found)


def _shapley(function: Callable[..., Tensor], inputs: list[Tensor], nothing: list[Tensor], points: int) -> list[Tensor]:
    """Mean change of the forecast when a feature is added, over `points` random orders of all features."""
    sizes = [tensor[0].numel() for tensor in inputs]
    starts = np.append(0, np.cumsum(sizes))
    total = [torch.zeros_like(tensor) for tensor in inputs]
    generator = numpy_generator(0, "shapley")
    with torch.no_grad():
        for _ in range(points):
            present = [tensor.clone() for tensor in nothing]
            before = function(*present)
            for feature in generator.permutation(int(starts[-1])):
                kind = int(np.searchsorted(starts, feature, side="right")) - 1
                place = int(feature - starts[kind])
                present[kind].flatten(1)[:, place] = inputs[kind].flatten(1)[:, place]
                after = function(*present)
                total[kind].flatten(1)[:, place] += (after - before) / points
                before = after
    return total


def _gradients(function: Callable[..., Tensor], at: list[Tensor]) -> list[Tensor]:
    leaves = [tensor.detach().clone().requires_grad_(True) for tensor in at]
    found = torch.autograd.grad(function(*leaves).sum(), leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if slope is None else slope for leaf, slope in zip(leaves, found, strict=True)]


_METHODS: dict[str, Callable[..., list[Tensor]]] = {
    "integrated_gradients": _integrated,
    "input_x_gradient": _input_times_gradient,
    "gradient_shap": _gradient_shap,
    "shapley_sampling": _shapley,
}


def _decomposed(
    forecaster: Forecaster, module: ForecastModule, scaled: Batch, stats: Statistics, steps: tuple[int, ...]
) -> dict[str, Floats]:
    """The parts that the model reports. Parts that add up to the forecast are in original units."""
    network = forecaster.network
    if not hasattr(network, "explain"):
        raise ConfigError(
            f"{forecaster.model.kind} does not report its parts. Use method='integrated_gradients', or a model "
            "that does: NBEATS, NHITS, TFT"
        )
    tell: Any = network.explain
    with torch.no_grad():
        told: dict[str, Tensor] = tell(scaled)
        additive = all(part.ndim == 4 for part in told.values())
        if not additive or not module.scaler.affine or forecaster.loss.outputs != 1:
            return {name: part.double().cpu().numpy() for name, part in told.items()}
        location, scale = module.scaler.affine_map(stats)
        chosen = [step - 1 for step in steps]
        parts = {name: _by_series(part[..., 0] * scale)[:, chosen] for name, part in told.items()}
        if module.anchor is not None:
            naive = module.anchor(scaled.y, scaled.mask)
            parts = {"anchor": _by_series(naive * scale)[:, chosen]} | parts
        everywhere = location.expand(-1, forecaster.model.h, -1)
        return {"window_level": _by_series(everywhere)[:, chosen]} | parts
