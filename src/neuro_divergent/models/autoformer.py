"""Autoformer: attention between shifted copies of the series, found by its autocorrelation.

Letters: B windows, L lookback, H horizon, Q outputs, D width, T queries, S keys.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName
from neuro_divergent.nn.decomposition import Decomposition, check_odd
from neuro_divergent.nn.seasonal_decoder import SeasonalDecoderLayer, SeasonalEncoderLayer, SeasonalTransformer
from neuro_divergent.nn.tokens import decoder_context


class Autoformer(Model):
    """Decomposes the series inside every layer, and mixes copies of it shifted by the lags that correlate most.

    Each window chooses its own lags, in training too, so what else is in the batch never matters. Lags are chosen
    on the mean over all channels, so splitting the width into heads would change nothing and there is no such field.
    """

    group: ClassVar[ModelFamily] = "transformer"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, categorical=True)
    paper: ClassVar[str] = (
        "Wu, Xu, Wang & Long (2021), "
        "Autoformer: Decomposition transformers with auto-correlation for long-term series forecasting"
    )

    hidden_size: Annotated[int, Field(ge=1)] = 128
    """Width of a token."""
    encoder_layers: Annotated[int, Field(ge=1)] = 2
    """Encoder layers."""
    decoder_layers: Annotated[int, Field(ge=1)] = 1
    """Decoder layers."""
    ff_size: Annotated[int, Field(ge=1)] = 32
    """Width inside the feed-forward part of a layer."""
    activation: ActivationName = "gelu"
    """Activation of the feed-forward part."""
    factor: Annotated[int, Field(ge=1)] = 3
    """Lags that are mixed, per logarithm of the length."""
    moving_average: Annotated[int, Field(ge=1)] = 25
    """Length of the moving average that makes the trend; odd."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.05
    """Share of units switched off while training."""
    attention_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of the lags' attention weights hidden while training."""
    context_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    """Share of the window, from its end, that the decoder starts from."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_odd("moving_average", self.moving_average)
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        D, context = self.hidden_size, decoder_context(spec.lookback, self.context_share)
        ahead = context + spec.horizon

        def encoder(split: Decomposition) -> list[nn.Module]:
            return [
                SeasonalEncoderLayer(
                    AutoCorrelation(D, spec.lookback, self.factor, self.attention_dropout),
                    split,
                    D,
                    self.ff_size,
                    self.activation,
                    self.dropout,
                )
                for _ in range(self.encoder_layers)
            ]

        def decoder(split: Decomposition) -> list[nn.Module]:
            return [
                SeasonalDecoderLayer(
                    AutoCorrelation(D, ahead, self.factor, self.attention_dropout),
                    AutoCorrelation(D, ahead, self.factor, self.attention_dropout),
                    split,
                    D,
                    self.ff_size,
                    spec.outputs,
                    self.activation,
                    self.dropout,
                )
                for _ in range(self.decoder_layers)
            ]

        return SeasonalTransformer(
            spec,
            width=D,
            context=context,
            window=self.moving_average,
            dropout=self.dropout,
            encoder_layers=encoder,
            decoder_layers=decoder,
        )


class AutoCorrelation(nn.Module):
    """Σᵢ softmax(R(τᵢ)) · roll(V, −τᵢ) over the k lags τᵢ with the largest correlation R of queries and keys."""

    later: Tensor

    def __init__(self, width: int, steps: int, factor: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.steps = steps
        self.lags = min(steps, max(1, int(factor * math.log(steps))))
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)
        position = torch.arange(steps)
        # later[t, τ] = (t + τ) mod T: the step that is τ after t, around the end.
        self.register_buffer("later", (position.unsqueeze(1) + position) % steps, persistent=False)

    def forward(self, queries: Tensor, memory: Tensor | None = None) -> Tensor:
        """[B, T, D], [B, S, D] → [B, T, D]"""
        query = self.query(queries)
        key, value = self.key_value(queries if memory is None else self._fit(memory)).chunk(2, dim=-1)
        return self.output(self.mixing(self.correlation(query, key)) @ value)  # type: ignore[no-any-return]

    def correlation(self, query: Tensor, key: Tensor) -> Tensor:
        """R(τ) = Σ_t query[t + τ] · key[t], the mean over the width: [B, T].

        The sums of the diagonals of one matrix product, which every precision and every export can do.
        """
        products = key @ query.transpose(1, 2) / query.shape[-1]
        return products.gather(2, self.later.expand_as(products)).sum(dim=1)

    def mixing(self, correlation: Tensor) -> Tensor:
        """[B, T] → [B, T, T]: the matrix that adds up shifted copies of a series with the best lags' weights.

        Lags as good as the last chosen one, up to rounding, are chosen too: nothing hangs on how a tie falls.
        """
        rounding = 1e-5 * correlation.abs().amax(dim=-1, keepdim=True)
        last = correlation.topk(self.lags, dim=-1).values[:, -1:]
        weights = correlation.masked_fill(correlation < last - rounding, float("-inf")).softmax(dim=-1)
        weights = F.dropout(weights, self.dropout, self.training) if self.dropout else weights
        shift = weights.unsqueeze(1).expand(-1, self.steps, -1)
        return torch.zeros_like(shift).scatter(2, self.later.expand_as(shift), shift)

    def _fit(self, memory: Tensor) -> Tensor:
        """The memory's most recent steps, as many as there are queries; zeros follow where it has fewer."""
        missing = self.steps - memory.shape[1]
        return F.pad(memory, (0, 0, 0, missing)) if missing > 0 else memory[:, -self.steps :]
