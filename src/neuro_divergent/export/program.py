"""What an exported file computes: `Predictor.predict_array` for series without a name, as one torch module.

Letters: B windows, L lookback, H horizon, C channels, K columns of the forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.network.output_columns import Columns, unweighted
from neuro_divergent.forecasting.predict.conformal import Calibration
from neuro_divergent.forecasting.predict.predictor import Predictor
from neuro_divergent.forecasting.predict.quantile_calibration import QuantileCalibration

INPUTS = ("x", "future", "historical", "static", "categorical")
"""The inputs of a file, in order; a model without such columns does not have the last four."""


class Program(nn.Module):
    """Raw windows → forecasts [B, H, K] ([B, H, C, K] for several channels), corrected and inside of the range.

    Args:
        predictor: the fitted model.
        columns: what is forecast.
    """

    radii: Tensor
    mean_scale: Tensor

    def __init__(self, predictor: Predictor, columns: Columns) -> None:
        super().__init__()
        refuse(predictor, columns)
        self.module = predictor.module
        self._many = predictor.model.capabilities.multivariate
        self._columns = columns
        self._inner = predictor.network_columns(columns)
        self._around_point = len(self._inner.names) < len(columns.names)
        self._bounds = predictor.bounds
        found = predictor.intervals if self._around_point else predictor.calibration
        wanted = found is not None and bool(columns.probabilities)
        radii = _radii(found, columns, predictor.model.h) if wanted and found is not None else torch.zeros(0)
        self.register_buffer("radii", radii)
        # A window without a change has no scale of its own.
        mean = 0.0 if not wanted or found is None else float(found.scale.mean())
        self.register_buffer("mean_scale", torch.tensor(mean, dtype=torch.float32))

    def forward(
        self,
        x: Tensor,
        future: Tensor | None = None,
        historical: Tensor | None = None,
        static: Tensor | None = None,
        categorical: Tensor | None = None,
    ) -> Tensor:
        """The forecast of windows; NaN is a missing value."""
        mask = ~torch.isnan(x)
        y = torch.where(mask, x, torch.zeros_like(x))
        if not self._many:
            y, mask = y.unsqueeze(-1), mask.unsqueeze(-1)
        blocks = {"future": future, "historical": historical, "categorical": categorical}
        batch = Batch(y, mask, static=static, **blocks)
        values = self._network_columns(batch)  # [B, H, C, K]
        if self.radii.numel():
            values = self._corrected(values, _mean_change(y, mask, self.mean_scale))
        if self._bounds is not None:
            values = self._kept(values)
        return values if self._many else values[:, :, 0]

    def _network_columns(self, batch: Batch) -> Tensor:
        """[B, H, C, K] what the network forecasts, before corrections; see `Columns.compute`."""
        loss = self._inner.loss_of(self.module)
        known = getattr(unweighted(loss), "levels", None)
        if not known or self.module.head is not None:
            return self._inner.compute(self.module, batch)
        # Levels are constants of the file, so the trained quantiles beside each are found here, not in the file.
        output = self.module(batch)
        rising = output.sort(dim=-1).values

        def quantile(level: float) -> Tensor:
            left, right, share = neighbours(known, level)
            return rising[..., left] if share == 0 else torch.lerp(rising[..., left], rising[..., right], share)

        parts: dict[float | None, Tensor] = {None: quantile(0.5) if loss.shows == "median" else loss.point(output)}
        highest = None
        for level in sorted(self._inner.probabilities):
            value = quantile(level)
            highest = value if highest is None else torch.maximum(highest, value)
            parts[level] = highest
        return torch.stack([parts[level] for level in self._inner.levels], dim=-1)

    def _corrected(self, values: Tensor, scale: Tensor) -> Tensor:
        """Forecasts with intervals: around the point, or quantiles that are moved outwards."""
        width = self.radii * scale[:, None, :, None]  # [B, H, C, K]
        if self._around_point:
            return values + width
        levels = self._columns.levels
        point = values[..., levels.index(None)] if None in levels else None
        parts: list[Tensor] = []
        for place, level in enumerate(levels):
            old = values[..., place]
            if level is None or abs(level - 0.5) < 1e-9:
                parts.append(old)
                continue
            side = 1.0 if level > 0.5 else -1.0
            new = old + width[..., place]
            if point is not None:  # an edge that was beyond the point may stay there
                new = side * torch.maximum(new * side, torch.minimum(old * side, point * side))
            parts.append(new)
        return torch.stack(_uncrossed(parts, levels), dim=-1)

    def _kept(self, values: Tensor) -> Tensor:
        """Forecasts inside of the target's range, see `Bounds.keep`."""
        bounds = self._bounds
        assert bounds is not None
        if bounds.lower is not None or bounds.upper is not None:
            values = torch.clamp(values, bounds.lower, bounds.upper)
        if not bounds.integer:
            return values
        slack = 1e-6 * values.abs().clamp(min=1.0)
        parts = []
        for place, level in enumerate(self._columns.levels):
            column, near = values[..., place], slack[..., place]
            if level is None or abs(level - 0.5) < 1e-9:
                parts.append(torch.round(column))
            else:
                parts.append(torch.floor(column + near) if level < 0.5 else torch.ceil(column - near))
        return torch.stack(parts, dim=-1) + 0.0


def refuse(predictor: Predictor, columns: Columns) -> None:
    """Refuse a model whose forecasts are more than a function of one window."""
    if predictor.model.joint is not None:
        raise ConfigError(
            f"a file forecasts single windows, but {predictor.model.kind} reconciles the forecasts of all series of a "
            "hierarchy. Export the models of an ensemble or the inner model, and reconcile their forecasts outside"
        )
    if predictor.local is not None:
        raise ConfigError(
            "a file forecasts windows of any series, but this model was trained with local_scaler, whose statistics "
            "belong to each series. Train with a scaler of the model (scaler='standard') to export it"
        )
    if columns.probabilities and hasattr(predictor.network, "sample_paths") and predictor.loss.probabilistic:
        raise ConfigError(
            f"{predictor.model.kind} draws sample paths for its quantiles, step by step, which a file cannot. Export "
            "the point forecast (level=None), or use fitted.predictor() for the quantiles"
        )


def neighbours(known: Sequence[float], level: float) -> tuple[int, int, float]:
    """The places of the trained levels around a level, and its share of the way from one to the other.

    >>> neighbours((0.1, 0.5, 0.9), 0.2)
    (0, 1, 0.25)
    """
    near = [place for place, one in enumerate(known) if abs(one - level) < 1e-6]
    if near:
        return near[0], near[0], 0.0
    right = int(np.searchsorted(known, level))
    if not 0 < right < len(known):
        raise ConfigError(
            f"the model was trained on quantiles from {known[0]:g} to {known[-1]:g}, but got {level:g}. Train with a "
            "level that covers it"
        )
    share = (level - known[right - 1]) / (known[right] - known[right - 1])
    return right - 1, right, round(float(share), 12)


def _radii(found: Calibration | QuantileCalibration, columns: Columns, steps: int) -> Tensor:
    """[H, 1, K] how far each column moves, per unit of a series' scale."""
    moved = torch.zeros(steps, 1, len(columns.levels))
    central = {level: abs(2 * level - 1) for level in columns.probabilities}
    measured = found.radii_of_new_series(sorted(set(central.values())))
    for place, level in enumerate(columns.levels):
        if level is not None and abs(level - 0.5) >= 1e-9:
            widths = measured[central[level]]
            own = widths[np.minimum(np.arange(steps), len(widths) - 1)]  # one width may serve all steps
            moved[:, 0, place] = (1.0 if level > 0.5 else -1.0) * torch.from_numpy(own).float()
    return moved


def _mean_change(y: Tensor, mask: Tensor, otherwise: Tensor) -> Tensor:
    """[B, C] the mean absolute change from one observed value of a window to the next."""
    steps = y.shape[1]
    place = torch.arange(steps, dtype=y.dtype).view(1, -1, 1)
    last = torch.where(mask, place, torch.full_like(place, -1.0))  # the newest observed row up to each row
    shift = 1
    while shift < steps:
        earlier = torch.cat([torch.full_like(last[:, :shift], -1.0), last[:, :-shift]], dim=1)
        last = torch.maximum(last, earlier)
        shift *= 2
    before = last[:, :-1]
    value = torch.gather(y, 1, before.clamp(min=0.0).long())
    counts = mask[:, 1:] & (before >= 0)
    changes = torch.where(counts, (y[:, 1:] - value).abs(), torch.zeros_like(value))
    total, number = changes.sum(dim=1), counts.to(y.dtype).sum(dim=1)
    return torch.where(total > 0, total / number.clamp(min=1.0), otherwise.to(y.dtype))


def _uncrossed(parts: list[Tensor], levels: tuple[float | None, ...]) -> list[Tensor]:
    """Quantiles in the order of their levels: each at least as far from the median as the ones inside."""
    order = sorted((level, place) for place, level in enumerate(levels) if level is not None)
    below = [place for level, place in order if level <= 0.5 + 1e-9][::-1]
    above = [place for level, place in order if level >= 0.5 - 1e-9]
    for places, outer in ((below, torch.minimum), (above, torch.maximum)):
        for inner, place in pairwise(places):
            parts[place] = outer(parts[place], parts[inner])
    return parts
