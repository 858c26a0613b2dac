"""TimeXer: patches of each series attend to each other, and to everything else through one token of their own.

Letters: B windows, L lookback, H horizon, C channels, X historical columns, S static columns, Q outputs, D width,
N patches, P patch length, V outside variates.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName, CategoryEmbedding
from neuro_divergent.nn.attention import Attention, FeedForward, attention_rate, check_heads
from neuro_divergent.nn.tokens import sinusoids


class TimeXer(Model):
    """Each series is cut into patches with one global token; only that token looks at the other series and columns.

    A window that is not a whole number of patches is lengthened at its start with its first value.
    """

    group: ClassVar[ModelFamily] = "transformer"
    capabilities: ClassVar[Capabilities] = Capabilities(
        multivariate=True, historical=True, static=True, categorical=True
    )
    paper: ClassVar[str] = (
        "Wang, Wu, Dong, Qin, Zhang, Liu, Qiu, Wang & Long (2024), "
        "TimeXer: Empowering transformers for time series forecasting with exogenous variables"
    )

    patch_len: Annotated[int, Field(ge=1)] = 16
    """Steps in one patch; at most the whole window is used."""
    hidden_size: Annotated[int, Field(ge=1)] = 512
    """Width of a token."""
    heads: Annotated[int, Field(ge=1)] = 8
    """Attention heads in each layer."""
    layers: Annotated[int, Field(ge=1)] = 2
    """Encoder layers."""
    ff_size: Annotated[int, Field(ge=1)] = 2048
    """Width inside the feed-forward part of a layer."""
    activation: ActivationName = "gelu"
    """Activation of the feed-forward part."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of units and attention weights switched off while training."""
    attention_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    """Share of attention weights hidden while training; None takes that of `dropout`."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_heads(self.hidden_size, self.heads)
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    position: Tensor

    def __init__(self, model: TimeXer, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        D = model.hidden_size
        self.patch_len = min(model.patch_len, spec.lookback)
        self.patches = -(-spec.lookback // self.patch_len)
        self.embed_patch = nn.Linear(self.patch_len, D, bias=False)
        self.register_buffer("position", sinusoids(self.patches, D), persistent=False)
        self.global_token = nn.Parameter(torch.randn(spec.series, 1, D))
        self.categories = CategoryEmbedding(spec.categories) if spec.categories else None
        self.embed_variate = nn.Linear(spec.lookback, D)
        self.dropout = nn.Dropout(model.dropout)
        self.layers = nn.ModuleList(_Layer(model) for _ in range(model.layers))
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear((self.patches + 1) * D, spec.horizon * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        outside = self.dropout(self.embed_variate(self.variates(batch)))
        x = self.tokens(batch.y)
        for layer in self.layers:
            x = layer(x, outside)
        output: Tensor = self.head(self.norm(x).flatten(1))
        return output.view(-1, self.spec.series, self.spec.horizon, self.spec.outputs).transpose(1, 2)

    def tokens(self, y: Tensor) -> Tensor:
        """[B, L, C] → [B·C, N+1, D]: the patches of each series, then its global token."""
        missing = self.patches * self.patch_len - self.spec.lookback
        padded = F.pad(y.transpose(1, 2), (missing, 0), mode="replicate") if missing else y.transpose(1, 2)
        patches = padded.reshape(-1, self.spec.series, self.patches, self.patch_len)
        tokens = self.dropout(self.embed_patch(patches) + self.position)
        return torch.cat([tokens, self.global_token.expand(y.shape[0], -1, -1, -1)], dim=2).flatten(0, 1)

    def variates(self, batch: Batch) -> Tensor:
        """[B, V, L]: everything that global tokens may look at, all series themselves first."""
        L = self.spec.lookback
        parts = [batch.y.transpose(1, 2)]
        if batch.historical is not None:
            parts.append(batch.historical.permute(0, 2, 3, 1).flatten(1, 2))
        if batch.static is not None:
            parts.append(batch.static.flatten(1).unsqueeze(-1).expand(-1, -1, L))
        if self.categories is not None and batch.categorical is not None:
            parts.append(self.categories(batch.categorical[:, :L]).permute(0, 2, 3, 1).flatten(1, 2))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


class _Layer(nn.Module):
    def __init__(self, model: TimeXer) -> None:
        super().__init__()
        D, rate = model.hidden_size, model.dropout
        own = attention_rate(rate, model.attention_dropout)
        self.attention = Attention(D, model.heads, dropout=own)
        self.cross = Attention(D, model.heads, dropout=own)
        self.feed_forward = FeedForward(D, model.ff_size, act=model.activation, dropout=rate)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))
        self.dropout = nn.Dropout(rate)

    def forward(self, x: Tensor, outside: Tensor) -> Tensor:
        """Tokens [B·C, N+1, D] and outside variates [B, V, D] → tokens."""
        x = self.norms[0](x + self.dropout(self.attention(x)))
        asking = x[:, -1].view(outside.shape[0], -1, x.shape[-1])
        told = self.norms[1](asking + self.dropout(self.cross(asking, outside)))
        x = torch.cat([x[:, :-1], told.flatten(0, 1).unsqueeze(1)], dim=1)
        return self.norms[2](x + self.dropout(self.feed_forward(x)))  # type: ignore[no-any-return]
