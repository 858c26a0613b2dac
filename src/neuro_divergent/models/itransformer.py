"""iTransformer: each series is one token, and attention relates the series.

Letters: B windows, L lookback, H horizon, C channels, F future columns, Q outputs, D width.
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
from neuro_divergent.nn.attention import Attention, EncoderLayer, attention_rate, check_heads


class iTransformer(Model):  # noqa: N801  # spelt as in the paper
    """The whole past of a series is one token, so attention weighs series against series, and columns known ahead too.

    The paper's normalisation of each window is the window scaler's work.
    """

    group: ClassVar[ModelFamily] = "transformer"
    capabilities: ClassVar[Capabilities] = Capabilities(multivariate=True, future=True)
    paper: ClassVar[str] = (
        "Liu, Hu, Zhang, Wu, Wang, Ma & Long (2024), "
        "iTransformer: Inverted transformers are effective for time series forecasting"
    )

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
    def __init__(self, model: iTransformer, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        D, rate = model.hidden_size, model.dropout
        own = attention_rate(rate, model.attention_dropout)
        self.embed = nn.Linear(spec.lookback, D)
        self.embed_future = nn.Linear(spec.lookback + spec.horizon, D) if spec.future else None
        self.dropout = nn.Dropout(rate)
        self.layers = nn.Sequential(
            *(
                EncoderLayer(
                    Attention(D, model.heads, dropout=own),
                    D,
                    model.ff_size,
                    act=model.activation,
                    dropout=rate,
                )
                for _ in range(model.layers)
            )
        )
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, spec.horizon * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        tokens = self.dropout(self.tokens(batch))
        encoded = self.norm(self.layers(tokens))[:, : batch.y.shape[2]]
        output: Tensor = self.head(encoded).unflatten(-1, (self.spec.horizon, self.spec.outputs))
        return output.transpose(1, 2)

    def tokens(self, batch: Batch) -> Tensor:
        """[B, C + C·F, D]: one for each series, then one for each column known ahead of each series."""
        tokens: Tensor = self.embed(batch.y.transpose(1, 2))
        if self.embed_future is None or batch.future is None:
            return tokens
        columns = batch.future.permute(0, 2, 3, 1).flatten(1, 2)
        return torch.cat([tokens, self.embed_future(columns)], dim=1)
