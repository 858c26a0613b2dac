"""TimeMixer: the window at several resolutions; seasons are mixed from fine to coarse, trends from coarse to fine.

Letters: B windows, L lookback, H horizon, C channels, Q outputs, D width, M resolutions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.data.scaling.per_window import WindowScalerName
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import perceptron
from neuro_divergent.nn.decomposition import Decomposition, check_odd
from neuro_divergent.nn.tokens import StepTokens


class TimeMixer(Model):
    """Averages the window to coarser resolutions, mixes seasons and trends across them, and sums their forecasts.

    Seasons are mixed from fine to coarse, trends from coarse to fine. The window scaler does the normalisation. Every
    block ends in the residual feed-forward layer of the paper. An unused layer norm of other implementations is left
    out.
    """

    group: ClassVar[ModelFamily] = "convolutional"
    capabilities: ClassVar[Capabilities] = Capabilities(multivariate=True)
    paper: ClassVar[str] = (
        "Wang, Wu, Shi, Hu, Luo, Ma, Zhang & Zhou (2024), "
        "TimeMixer: Decomposable multiscale mixing for time series forecasting"
    )

    scaler: WindowScalerName = "revin"
    """The scaler that is applied to each window."""
    hidden_size: Annotated[int, Field(ge=1)] = 32
    """Width of a step's token."""
    ff_size: Annotated[int, Field(ge=1)] = 32
    """Hidden width of the feed-forward layers."""
    layers: Annotated[int, Field(ge=1)] = 4
    """Mixing blocks."""
    coarser: Annotated[int, Field(ge=0)] = 1
    """Number of coarser resolutions; fewer if the window is too short for them."""
    coarsening: Annotated[int, Field(ge=2)] = 2
    """Number of steps that are averaged from one resolution to the next."""
    moving_average: Annotated[int, Field(ge=1)] = 25
    """Length of the moving average that gives the trend. Must be odd."""
    channel_mixing: bool = True
    """Whether a token contains all series of a step. False forecasts each series separately."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Dropout rate of the tokens' units."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_odd("moving_average", self.moving_average)
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: TimeMixer, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.coarsening = model.coarsening
        self.mixes = model.channel_mixing
        self.channels = spec.series if self.mixes else 1
        lengths = _lengths(spec.lookback, model)
        D, H, Q = model.hidden_size, spec.horizon, spec.outputs
        self.split = nn.ModuleList(Decomposition(length, model.moving_average) for length in lengths)
        self.embed = StepTokens(self.channels, D, known=0, steps=None, dropout=model.dropout)
        self.blocks = nn.ModuleList(_Block(model, lengths) for _ in range(model.layers))
        self.ahead = nn.ModuleList(nn.Linear(length, H) for length in lengths)
        self.output = nn.Linear(D, self.channels * Q)
        self.trend = nn.ModuleList(
            nn.Sequential(nn.Linear(length, length), nn.Linear(length, H * Q)) for length in lengths if self.mixes
        )

    def forward(self, batch: Batch) -> Tensor:
        C, H, Q = self.spec.series, self.spec.horizon, self.spec.outputs
        levels = self.resolutions(batch.y if self.mixes else batch.y.transpose(1, 2).reshape(-1, self.spec.lookback, 1))
        parts = [split(level) for split, level in zip(self.split, levels, strict=True)]
        tokens = [self.embed(season if self.mixes else season + trend, None) for season, trend in parts]
        for block in self.blocks:
            tokens = block(tokens)
        sums = [ahead(x.transpose(1, 2)) for ahead, x in zip(self.ahead, tokens, strict=True)]
        forecast: Tensor = torch.stack([self.output(x.transpose(1, 2)) for x in sums]).sum(dim=0)
        if not self.mixes:
            return forecast.view(-1, C, H, Q).transpose(1, 2)
        forecast = forecast.view(-1, H, C, Q)
        for trend, (_, slow) in zip(self.trend, parts, strict=True):
            forecast = forecast + trend(slow.transpose(1, 2)).view(-1, C, H, Q).transpose(1, 2)
        return forecast

    def resolutions(self, y: Tensor) -> list[Tensor]:
        """[B, L, C] → the window, and its averages at coarser resolutions."""
        levels = [y]
        for _ in range(len(self.split) - 1):
            levels.append(F.avg_pool1d(levels[-1].transpose(1, 2), self.coarsening).transpose(1, 2))
        return levels


class _Block(nn.Module):
    """Past-decomposable mixing: x_m ← x_m + feedforward(mixed season_m + mixed trend_m) at every resolution m."""

    def __init__(self, model: TimeMixer, lengths: list[int]) -> None:
        super().__init__()
        D, inner = model.hidden_size, model.ff_size
        pairs = list(pairwise(lengths))
        self.split = nn.ModuleList(Decomposition(length, model.moving_average) for length in lengths)
        self.cross = perceptron([D, inner, D], act="gelu") if model.channel_mixing else nn.Identity()
        self.coarsen = nn.ModuleList(perceptron([fine, coarse, coarse], act="gelu") for fine, coarse in pairs)
        self.refine = nn.ModuleList(perceptron([coarse, fine, fine], act="gelu") for fine, coarse in pairs)
        self.output = perceptron([D, inner, D], act="gelu")

    def forward(self, tokens: list[Tensor]) -> list[Tensor]:
        """[B, L_m, D] for each resolution, finest first."""
        parts = [split(x) for split, x in zip(self.split, tokens, strict=True)]
        seasons = [self.cross(season).transpose(1, 2) for season, _ in parts]
        trends = [self.cross(trend).transpose(1, 2) for _, trend in parts]
        for level, coarsen in enumerate(self.coarsen):
            seasons[level + 1] = seasons[level + 1] + coarsen(seasons[level])
        for level in reversed(range(len(self.refine))):
            trends[level] = trends[level] + self.refine[level](trends[level + 1])
        mixed = [(season + trend).transpose(1, 2) for season, trend in zip(seasons, trends, strict=True)]
        return [x + self.output(change) for x, change in zip(tokens, mixed, strict=True)]


def _lengths(lookback: int, model: TimeMixer) -> list[int]:
    """Steps at each resolution, finest first."""
    lengths = [lookback]
    while len(lengths) <= model.coarser and lengths[-1] >= model.coarsening:
        lengths.append(lengths[-1] // model.coarsening)
    return lengths
