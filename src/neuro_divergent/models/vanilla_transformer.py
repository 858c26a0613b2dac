"""VanillaTransformer: the encoder and decoder of the original transformer, on the steps of a window.

Letters: B windows, L lookback, H horizon, Q outputs, D width, W columns known ahead.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName
from neuro_divergent.nn.attention import Attention, DecoderLayer, EncoderLayer, attention_rate, check_heads
from neuro_divergent.nn.tokens import KnownColumns, StepTokens, decoder_context


class VanillaTransformer(Model):
    """Every step is a token; the decoder starts from the window's last steps and forecasts the horizon in one pass."""

    group: ClassVar[ModelFamily] = "transformer"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, categorical=True)
    paper: ClassVar[str] = (
        "Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser & Polosukhin (2017), Attention is all you need"
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
    def __init__(self, model: VanillaTransformer, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.context = decoder_context(spec.lookback, model.context_share)
        D, rate = model.hidden_size, model.dropout
        self.known = KnownColumns(spec)
        self.embed_past = StepTokens(1, D, known=self.known.width, steps=spec.lookback, dropout=rate)
        self.embed_ahead = StepTokens(1, D, known=self.known.width, steps=self.context + spec.horizon, dropout=rate)
        self.encoder = nn.Sequential(
            *(self._encoder_layer(model) for _ in range(model.encoder_layers)), nn.LayerNorm(D)
        )
        self.decoder = nn.ModuleList(self._decoder_layer(model) for _ in range(model.decoder_layers))
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

    @staticmethod
    def _encoder_layer(model: VanillaTransformer) -> nn.Module:
        D, rate = model.hidden_size, model.dropout
        attention = Attention(D, model.heads, dropout=attention_rate(rate, model.attention_dropout))
        return EncoderLayer(attention, D, model.ff_size, act=model.activation, dropout=rate)

    @staticmethod
    def _decoder_layer(model: VanillaTransformer) -> nn.Module:
        D, rate = model.hidden_size, model.dropout
        own = attention_rate(rate, model.attention_dropout)
        attention, cross = Attention(D, model.heads, dropout=own, causal=True), Attention(D, model.heads, dropout=own)
        return DecoderLayer(attention, cross, D, model.ff_size, act=model.activation, dropout=rate)
