"""Informer: attention only for the queries that have something to say, and an encoder that halves the sequence.

Letters: B windows, L lookback, H horizon, Q outputs, D width, A heads, E width of one head, T queries, S keys.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.seeding import torch_generator
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName
from neuro_divergent.nn.attention import Attention, DecoderLayer, EncoderLayer, attention_rate, causal_bias, check_heads
from neuro_divergent.nn.sequence_norm import FeatureNorm
from neuro_divergent.nn.tokens import KnownColumns, StepTokens, decoder_context


class Informer(Model):
    """A transformer whose queries are measured on a sample of the keys; only the sharpest of them attend.

    The sample is drawn once for each size from a counted generator, so a forecast never depends on chance. A query
    that does not attend takes the mean of the values it may see.
    """

    group: ClassVar[ModelFamily] = "transformer"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, categorical=True)
    paper: ClassVar[str] = (
        "Zhou, Zhang, Peng, Zhang, Li, Xiong & Zhang (2021), "
        "Informer: Beyond efficient transformer for long sequence time-series forecasting"
    )

    hidden_size: Annotated[int, Field(ge=1)] = 128
    """Width of a token."""
    heads: Annotated[int, Field(ge=1)] = 4
    """Attention heads in each layer."""
    encoder_layers: Annotated[int, Field(ge=1)] = 2
    """Encoder layers."""
    decoder_layers: Annotated[int, Field(ge=1)] = 1
    """Decoder layers."""
    ff_size: Annotated[int, Field(ge=1)] = 32
    """Width inside the feed-forward part of a layer."""
    activation: ActivationName = "gelu"
    """Activation of the feed-forward part."""
    factor: Annotated[int, Field(ge=1)] = 3
    """Queries that attend, and keys that a query is measured on, per logarithm of the length."""
    distil: bool = True
    """Whether the sequence is halved between encoder layers."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.05
    """Share of units and attention weights switched off while training."""
    attention_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    """Share of attention weights hidden while training; None takes that of `dropout`."""
    context_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    """Share of the window, from its end, that the decoder starts from."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_heads(self.hidden_size, self.heads)
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: Informer, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.context = decoder_context(spec.lookback, model.context_share)
        D, rate, ahead = model.hidden_size, model.dropout, self.context + spec.horizon
        self.known = KnownColumns(spec)
        self.embed_past = StepTokens(1, D, known=self.known.width, steps=spec.lookback, dropout=rate)
        self.embed_ahead = StepTokens(1, D, known=self.known.width, steps=ahead, dropout=rate)
        self.encoder, steps = _encoder(model, spec.lookback)
        self.decoder = nn.ModuleList(
            DecoderLayer(
                SparseAttention(model, ahead, ahead, causal=True),
                SparseAttention(model, ahead, steps),
                D,
                model.ff_size,
                act=model.activation,
                dropout=rate,
            )
            for _ in range(model.decoder_layers)
        )
        self.norm = nn.LayerNorm(D)
        self.output = nn.Linear(D, spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        L, H = self.spec.lookback, self.spec.horizon
        known = self.known(batch)
        start = torch.cat([batch.y[:, L - self.context :], batch.y.new_zeros(batch.y.shape[0], H, 1)], dim=1)
        memory = self.encoder(self.embed_past(batch.y, None if known is None else known[:, :L]))
        x = self.embed_ahead(start, None if known is None else known[:, L - self.context :])
        for layer in self.decoder:
            x = layer(x, memory)
        return self.output(self.norm(x[:, self.context :])).unsqueeze(2)  # type: ignore[no-any-return]


def _encoder(model: Informer, steps: int) -> tuple[nn.Module, int]:
    """The encoder of a sequence of so many steps, and how many steps it leaves."""
    D, rate = model.hidden_size, model.dropout
    layers: list[nn.Module] = []
    for position in range(model.encoder_layers):
        if model.distil and position > 0:
            layers.append(_Distillation(D))
            steps = (steps + 1) // 2
        attention = SparseAttention(model, steps, steps)
        layers.append(EncoderLayer(attention, D, model.ff_size, act=model.activation, dropout=rate))
    return nn.Sequential(*layers, nn.LayerNorm(D)), steps


class _Distillation(nn.Module):
    """[B, T, D] → [B, ⌈T/2⌉, D]: a convolution, then the larger of neighbours."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, width, 3, padding=1, padding_mode="circular")
        self.norm = FeatureNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.elu(self.norm(self.convolution(x.transpose(1, 2)).transpose(1, 2)))
        return F.max_pool1d(x.transpose(1, 2), 3, stride=2, padding=1).transpose(1, 2)


class SparseAttention(Attention):
    """Full attention for the u queries whose scores are furthest from uniform; the mean of the values for the others.

    A query is measured by max_j s_j − mean_j s_j over a fixed sample of keys j.
    """

    sample: Tensor
    bias: Tensor | None

    def __init__(self, model: Informer, queries: int, keys: int, *, causal: bool = False) -> None:
        own = attention_rate(model.dropout, model.attention_dropout)
        super().__init__(model.hidden_size, model.heads, dropout=own, causal=causal)
        self.active = min(queries, max(1, model.factor * math.ceil(math.log(queries))))
        sampled = min(keys, max(1, model.factor * math.ceil(math.log(keys))))
        generator = torch_generator(0, "informer keys", queries, keys)
        # Drawn on the CPU whatever the default device is, so that the sample is the same everywhere.
        sample = torch.randint(keys, (queries, sampled), generator=generator, device="cpu")
        self.register_buffer("sample", sample, persistent=False)
        self.register_buffer("bias", causal_bias(queries) if causal else None, persistent=False)

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """[B, A, T, E], [B, A, S, E], [B, A, S, E] → [B, A, T, E]"""
        chosen = self.measure(query, key).topk(self.active, dim=-1).indices
        rows = chosen.unsqueeze(-1).expand(-1, -1, -1, query.shape[-1])
        bias = None if self.bias is None else self.bias[chosen].to(query.dtype)
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(query.gather(2, rows), key, value, attn_mask=bias, dropout_p=dropout)
        return self._means(query, value).scatter(2, rows, attended)

    def measure(self, query: Tensor, key: Tensor) -> Tensor:
        """[B, A, T]: how far each query's scores are from uniform."""
        scores = (key[:, :, self.sample] @ query.unsqueeze(-1)).squeeze(-1)
        return scores.amax(dim=-1) - scores.mean(dim=-1)

    def _means(self, query: Tensor, value: Tensor) -> Tensor:
        """The mean of the values that each query may see, [B, A, T, E]."""
        if not self.causal:
            return value.mean(dim=2, keepdim=True).expand_as(query)
        count = torch.arange(1, value.shape[2] + 1, device=value.device, dtype=value.dtype)
        return value.cumsum(dim=2) / count.unsqueeze(-1)
