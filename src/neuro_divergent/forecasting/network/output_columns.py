"""The columns of a forecast, and how each is computed from a network's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.seeding import torch_generator
from neuro_divergent.data.scaling.per_window import Statistics
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.losses import ImplicitQuantile, Loss, Weighted
from neuro_divergent.losses.base import Point
from neuro_divergent.losses.point_choice import PointChoice
from neuro_divergent.losses.probability_levels import Levels, check_percentages, level_tuple


@dataclass(frozen=True)
class Columns:
    """Names of a forecast's columns, and the probability level of each (None for the point forecast)."""

    names: tuple[str, ...]
    levels: tuple[float | None, ...]
    shows: Point | None = None
    """What the point forecast is: the mean or the median; None for the choice of the loss."""

    @property
    def point(self) -> Columns:
        """The point forecast alone."""
        return self if len(self.names) == 1 else replace(self, names=self.names[:1], levels=self.levels[:1])

    def loss_of(self, module: ForecastModule) -> Loss:
        """The loss of a module, with the point that these columns show."""
        return module.loss if self.shows in (None, module.loss.shows) else module.loss.showing(self.shows)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The levels without that of the point."""
        return tuple(level for level in self.levels if level is not None)

    def compute(self, module: ForecastModule, batch: Batch) -> Tensor:
        """The columns for a batch, [B, H, C, columns], in original units."""
        if module.head is not None:
            return self._asked_of_head(module, batch)
        output = module(batch)
        point = self._point(module, batch, output)
        asked = list(self.probabilities)
        if not asked:
            return point.unsqueeze(-1)
        parts: dict[float | None, Tensor] = {None: point}
        if hasattr(module.network, "sample_paths"):
            found = drawn_quantiles(module, batch, _tensor(asked, batch))
        else:
            found = module.loss.quantiles(output, _tensor(asked, batch))
        parts |= {level: found[..., position] for position, level in enumerate(asked)}
        return torch.stack([parts[level] for level in self.levels], dim=-1)

    def _asked_of_head(self, module: ForecastModule, batch: Batch) -> Tensor:
        """All levels in one call of an implicit quantile network, with the level of the point, so that none cross."""
        inner = unweighted(self.loss_of(module))
        own = inner.point_levels if isinstance(inner, ImplicitQuantile) else (0.5,)
        asked = sorted({*self.probabilities, *own})
        found = module.original(module.forecast(batch, _tensor(asked, batch)))
        values, levels = found.chunk(2, dim=-1)
        places = [asked.index(level) for level in own]
        point = self.loss_of(module).point(torch.cat([values[..., places], levels[..., places]], dim=-1))
        parts = [point if level is None else values[..., asked.index(level)] for level in self.levels]
        return torch.stack(parts, dim=-1)

    def _point(self, module: ForecastModule, batch: Batch, output: Tensor) -> Tensor:
        """[B, H, C] the point forecast. If the loss has no median, it is the median of drawn sample paths."""
        loss = self.loss_of(module)
        inner = unweighted(loss)
        other = isinstance(inner, PointChoice) and inner.shows == "median" and inner.own_point == "mean"
        if other and hasattr(module.network, "sample_paths"):
            return drawn_quantiles(module, batch, _tensor([0.5], batch))[..., 0]
        return loss.point(output)


def unweighted(loss: Loss) -> Loss:
    """The loss without its weights."""
    return unweighted(loss.loss) if isinstance(loss, Weighted) else loss


def drawn_quantiles(module: ForecastModule, batch: Batch, levels: Tensor) -> Tensor:
    """[B, H, C, levels] quantiles of sample paths that the network draws step by step, in original units.

    The outputs of one pass would ignore the uncertainty of the steps before. Of N draws the k-th smallest is the
    quantile of level k / (N + 1), so that few draws do not make intervals too narrow.
    """
    number = int(getattr(module.network, "samples", 100))
    scaled, stats = module.as_network_sees(batch)
    places = (((number + 1) * levels.double() - 1) / max(number - 1, 1)).clamp(0.0, 1.0).to(levels.dtype)
    parts = []
    size = max(1, ROWS_DRAWN // number)
    for first in range(0, batch.size, size):
        rows = slice(first, first + size)
        some = scaled.rows(first, min(first + size, batch.size))
        generator = torch_generator(0, "quantiles of paths", first)
        sizes = None if stats.size is None else stats.size[rows]
        some_stats = Statistics(stats.location[rows], stats.scale[rows], sizes)
        drawn = module.paths(some, some_stats, number, generator)
        parts.append(drawn.quantile(places, dim=0).movedim(0, -1))
    return torch.cat(parts)


ROWS_DRAWN = 20_000
"""This many paths are drawn at a time, to limit memory."""


def _tensor(levels: Sequence[float], batch: Batch) -> Tensor:
    return torch.tensor(levels, dtype=batch.y.dtype, device=batch.y.device)


def point_column(name: str) -> Columns:
    """The point forecast alone."""
    return Columns((name,), (None,))


def forecast_columns(
    name: str,
    loss: Loss,
    level: Levels,
    quantiles: Levels,
    *,
    calibrated: bool = False,
) -> Columns:
    """The columns of a forecast: the point (the median of a quantile loss), then intervals, then quantiles.

    Args:
        name: the name of the model.
        loss: the loss of the training.
        level: central intervals in percent.
        quantiles: probabilities between 0 and 1.
        calibrated: whether there are prediction intervals for a loss that forecasts a point.
    """
    columns = named_columns(name, level_tuple(level), level_tuple(quantiles))
    if len(columns.names) > 1 and not (loss.probabilistic or calibrated):
        raise ConfigError(
            f"{loss.kind} forecasts a point, so it has no intervals. Train with MQLoss(level=[...]) or "
            "DistributionLoss(...), or add them: fit(..., prediction_intervals=PredictionIntervals())",
            rule="has intervals",
            got=loss.kind,
        )
    return columns


@lru_cache(maxsize=256)
def named_columns(name: str, level: tuple[float, ...], quantiles: tuple[float, ...]) -> Columns:
    """Names and probability levels of the requested columns."""
    names: list[str] = [name]
    levels: list[float | None] = [None]
    check_percentages(level)
    for percent in level:
        half = (100 - percent) / 200
        names += [f"{name}-lo-{percent:g}", f"{name}-hi-{percent:g}"]
        levels += [half, 1 - half]
    for share in quantiles:
        if not 0 < share < 1:
            raise ConfigError(f"quantiles must be between 0 and 1, but got quantiles={share!r}. Use level= for percent")
        names.append(f"{name}_ql{share:g}")
        levels.append(float(share))
    if len(set(names)) < len(names):
        raise ConfigError(
            f"each column of a forecast must be unique, but got level={list(level)} and quantiles={list(quantiles)}. "
            "Leave out the duplicates"
        )
    return Columns(tuple(names), tuple(levels))


def learned_columns(name: str, loss: Loss) -> Columns:
    """The columns of a forecast without requested levels: the point, and the levels that the loss was trained for.

    >>> from neuro_divergent.losses import MQLoss
    >>> learned_columns("M", MQLoss(level=[80])).names
    ('M', 'M-median', 'M-lo-80', 'M-hi-80')
    """
    names, levels = [name], [None]
    shares = loss.levels if loss.probabilistic else ()
    pairs = [share for share in shares if share < 0.5 and any(abs(1 - share - other) < 1e-6 for other in shares)]
    result: list[tuple[str, float | None]] = list(zip(names, levels, strict=True))
    if any(abs(share - 0.5) < 1e-9 for share in shares):
        result.append((f"{name}-median", 0.5))
    for share in sorted(pairs, reverse=True):
        percent = round(100 - 200 * share, 6)
        result += [(f"{name}-lo-{percent:g}", share), (f"{name}-hi-{percent:g}", 1 - share)]
    taken = {0.5, *pairs, *(1 - share for share in pairs)}
    lonely = [share for share in shares if all(abs(share - other) > 1e-6 for other in taken)]
    result += [(f"{name}_ql{share:g}", share) for share in lonely]
    return Columns(tuple(text for text, _ in result), tuple(share for _, share in result))
