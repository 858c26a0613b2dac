"""XLinear: linear embeddings with two gates, one over time and one across series.

Letters: B windows, L lookback, H horizon, C channels (one per series), D width, Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.data.scaling.per_window import WindowScalerName
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import CategoryEmbedding


class XLinear(Model):
    """Each series is embedded beside a learned global token; gates collect shared information in this token."""

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(
        multivariate=True, future=True, historical=True, static=True, categorical=True
    )
    paper: ClassVar[str] = (
        "Chen et al. (2026), XLinear: A lightweight and accurate MLP-based model for long-term time series "
        "forecasting with exogenous inputs"
    )

    scaler: WindowScalerName = "revin"
    """The scaler that is applied to each window."""
    hidden_size: Annotated[int, Field(ge=1)] = 128
    """Width of each series' embedding and of the global token."""
    temporal_size: Annotated[int, Field(ge=1)] = 256
    """Width of the hidden layer of the gate over time."""
    channel_size: Annotated[int, Field(ge=1)] = 8
    """Width of the hidden layer of the gate across series. A multiple of the number of series works well."""
    temporal_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate in the gate over time."""
    channel_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate in the gate across series."""
    embedding_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate in the embedding."""
    head_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate before the last map."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Gate(nn.Module):
    """x · sigmoid(perceptron(x)) along the last dimension."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.perceptron = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.perceptron(x))


class _Network(nn.Module):
    def __init__(self, model: XLinear, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        L, H, C, D = spec.lookback, spec.horizon, spec.series, model.hidden_size
        self.embed = nn.Sequential(nn.Linear(L, D), nn.Dropout(model.embedding_dropout))
        self.token = nn.Parameter(torch.randn(C, D))
        self.temporal = _Gate(2 * D, model.temporal_size, model.temporal_dropout)
        self.channels = _Gate(2 * C, model.channel_size, model.channel_dropout)
        self.embedding = CategoryEmbedding(spec.categories) if spec.categories else None
        known = spec.future + (0 if self.embedding is None else self.embedding.width)
        self.historical = nn.Linear(L * spec.historical, D) if spec.historical else None
        self.known = nn.Linear((L + H) * known, D) if known else None
        self.static = nn.Linear(spec.static, D) if spec.static else None
        parts = 2 + sum(layer is not None for layer in (self.historical, self.known, self.static))
        self.head = nn.Sequential(nn.Dropout(model.head_dropout), nn.Linear(parts * D, H * spec.outputs))

    def forward(self, batch: Batch) -> Tensor:
        C = self.spec.series
        series = self.embed(batch.y.transpose(1, 2))
        token = self.token.expand(series.shape[0], -1, -1)
        own, token = self.temporal(torch.cat([series, token], dim=-1)).chunk(2, dim=-1)
        shared = self.channels(torch.cat([series, token], dim=1).transpose(1, 2)).transpose(1, 2)[:, C:]
        output: Tensor = self.head(torch.cat([own, shared, *self._columns(batch)], dim=-1))
        return output.view(-1, C, self.spec.horizon, self.spec.outputs).transpose(1, 2)

    def _columns(self, batch: Batch) -> list[Tensor]:
        """The embedded exogenous columns of each series, each [B, C, D]."""
        parts: list[Tensor] = []
        if self.historical is not None and batch.historical is not None:
            parts.append(self.historical(batch.historical.transpose(1, 2).flatten(2)))
        known = [] if batch.future is None else [batch.future]
        if self.embedding is not None and batch.categorical is not None:
            known.append(self.embedding(batch.categorical))
        if self.known is not None:
            parts.append(self.known(torch.cat(known, dim=-1).transpose(1, 2).flatten(2)))
        if self.static is not None and batch.static is not None:
            parts.append(self.static(batch.static))
        return parts
