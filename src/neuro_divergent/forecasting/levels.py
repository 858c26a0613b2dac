"""Which columns a forecast has, and how each is computed from a network's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.module import ForecastModule
from neuro_divergent.losses import Loss


@dataclass(frozen=True)
class Columns:
    """Names of a forecast's columns, and the probability level of each (None for the point forecast)."""

    names: tuple[str, ...]
    levels: tuple[float | None, ...]

    def compute(self, module: ForecastModule, batch: Batch) -> Tensor:
        """The columns for a batch, [B, H, C, columns], in original units."""
        if module.head is not None:
            # An implicit quantile network is asked for all levels at once, the median among them, so that none cross.
            wanted = [0.5 if level is None else level for level in self.levels]
            asked = sorted(set(wanted))
            found = module.original(module.forecast(batch, _tensor(asked, batch)))[..., : len(asked)]
            return torch.stack([found[..., asked.index(level)] for level in wanted], dim=-1)
        output = module(batch)
        parts: dict[float | None, Tensor] = {None: module.loss.point(output)}
        asked = [level for level in self.levels if level is not None]
        if asked:
            found = module.loss.quantiles(output, _tensor(asked, batch))
            parts |= {level: found[..., position] for position, level in enumerate(asked)}
        return torch.stack([parts[level] for level in self.levels], dim=-1)


def _tensor(levels: Sequence[float], batch: Batch) -> Tensor:
    return torch.tensor(levels, dtype=batch.y.dtype, device=batch.y.device)


def forecast_columns(
    name: str, loss: Loss, level: Sequence[float] | None, quantiles: Sequence[float] | None
) -> Columns:
    """The columns of a forecast: the point (the median of a quantile loss), then intervals, then quantiles."""
    names: list[str] = [name]
    levels: list[float | None] = [None]
    for percent in level or ():
        if not 0 < percent < 100:
            raise ConfigError(f"level is in percent, between 0 and 100, but got level={percent!r}")
        half = (100 - percent) / 200
        names += [f"{name}-lo-{percent:g}", f"{name}-hi-{percent:g}"]
        levels += [half, 1 - half]
    for share in quantiles or ():
        if not 0 < share < 1:
            raise ConfigError(f"quantiles are between 0 and 1, but got quantiles={share!r}. Percent go to level=")
        names.append(f"{name}_ql{share:g}")
        levels.append(float(share))
    if len(levels) > 1 and not loss.probabilistic:
        raise ConfigError(
            f"{loss.kind} forecasts a point, so there are no intervals to give. Train with MQLoss(level=[...]) or "
            "DistributionLoss(...)"
        )
    return Columns(tuple(names), tuple(levels))
