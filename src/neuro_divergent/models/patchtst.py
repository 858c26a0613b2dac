"""PatchTST: the window cut into patches, each patch a token of a transformer.

Letters: B windows, L lookback, H horizon, Q outputs, N patches, P patch length, D width, A heads.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName
from neuro_divergent.nn.attention import Attention, FeedForward, check_heads, join_heads
from neuro_divergent.nn.sequence_norm import FeatureNorm


class PatchTST(Model):
    """Patches of the window are tokens of a transformer encoder; a linear layer maps all of them to the forecast.

    Each series is forecast separately. The window scaler does the paper's reversible normalisation.
    """

    group: ClassVar[ModelFamily] = "transformer"
    capabilities: ClassVar[Capabilities] = Capabilities()
    paper: ClassVar[str] = (
        "Nie, Nguyen, Sinthong & Kalagnanam (2023), "
        "A time series is worth 64 words: Long-term forecasting with transformers"
    )

    patch_len: Annotated[int, Field(ge=1)] = 16
    """Steps in one patch; at most the window length."""
    stride: Annotated[int, Field(ge=1)] = 8
    """Steps from one patch to the next."""
    hidden_size: Annotated[int, Field(ge=1)] = 128
    """Width of a token."""
    heads: Annotated[int, Field(ge=1)] = 16
    """Attention heads in each layer."""
    layers: Annotated[int, Field(ge=1)] = 3
    """Encoder layers."""
    ff_size: Annotated[int, Field(ge=1)] = 256
    """Hidden width of the feed-forward part of a layer."""
    activation: ActivationName = "gelu"
    """Activation of the feed-forward part."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
    """Dropout rate in the encoder."""
    attention_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate of attention weights."""
    head_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate of outputs."""
    residual_attention: bool = True
    """Whether each layer adds its attention scores to those of the layer before."""
    norm: Literal["batch", "layer"] = "batch"
    """Normalise each feature over the batch (as in the paper) or each token over its features."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_heads(self.hidden_size, self.heads)
        if self.stride > self.patch_len:
            raise ConfigError(
                f"stride must be at most patch_len, because steps between patches would be ignored, "
                f"but got stride={self.stride} and patch_len={self.patch_len}"
            )
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: PatchTST, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.patch_len = min(model.patch_len, spec.lookback)
        self.stride = min(model.stride, self.patch_len)
        patches = (spec.lookback - self.patch_len) // self.stride + 2
        self.embed = nn.Linear(self.patch_len, model.hidden_size)
        self.position = nn.Parameter(torch.empty(patches, model.hidden_size).uniform_(-0.02, 0.02))
        self.dropout = nn.Dropout(model.dropout)
        self.layers = nn.ModuleList(_Layer(model) for _ in range(model.layers))
        self.head = nn.Linear(patches * model.hidden_size, spec.horizon * spec.outputs)
        self.head_dropout = nn.Dropout(model.head_dropout)

    def forward(self, batch: Batch) -> Tensor:
        x = self.dropout(self.embed(self.patches(batch.y.squeeze(-1))) + self.position)
        scores: Tensor | None = None
        for layer in self.layers:
            x, scores = layer(x, scores)
        output: Tensor = self.head_dropout(self.head(x.transpose(1, 2).flatten(1)))
        return output.view(-1, self.spec.horizon, 1, self.spec.outputs)

    def patches(self, y: Tensor) -> Tensor:
        """[B, L] → [B, N, P]: padded with the last value, so that the last patch extends beyond the window."""
        padded = F.pad(y.unsqueeze(1), (0, self.stride), mode="replicate").squeeze(1)
        return padded.unfold(-1, self.patch_len, self.stride)


class _Layer(nn.Module):
    def __init__(self, model: PatchTST) -> None:
        super().__init__()
        D = model.hidden_size
        self.residual = model.residual_attention
        self.attention = Attention(D, model.heads, dropout=model.attention_dropout)
        self.feed_forward = FeedForward(D, model.ff_size, act=model.activation, dropout=model.dropout)
        self.norm_attention = FeatureNorm(D) if model.norm == "batch" else nn.LayerNorm(D)
        self.norm_output = FeatureNorm(D) if model.norm == "batch" else nn.LayerNorm(D)
        self.dropout = nn.Dropout(model.dropout)

    def forward(self, x: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor | None]:
        attended, scores = self._attend(x, before) if self.residual else (self.attention(x), None)
        x = self.norm_attention(x + self.dropout(attended))
        return self.norm_output(x + self.dropout(self.feed_forward(x))), scores

    def _attend(self, x: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attention that also returns its scores [B, A, N, N] for the next layer. The fused kernel does not."""
        query, key, value = self.attention.project(x, x)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if before is not None:
            scores = scores + before
        weights = F.dropout(scores.softmax(dim=-1), self.attention.dropout, self.training)
        return self.attention.output(join_heads(weights @ value)), scores
