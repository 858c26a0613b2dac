"""SOFTS: the series exchange information through one core vector.

Letters: B windows, L lookback, H horizon, C channels, Q outputs, D width.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName
from neuro_divergent.nn.attention import EncoderLayer


class SOFTS(Model):
    """Each series is one token; all tokens are pooled into a core that is combined with each token, without attention.

    The cost grows linearly with the number of series. The window scaler does the paper's normalisation.
    """

    group: ClassVar[ModelFamily] = "transformer"
    capabilities: ClassVar[Capabilities] = Capabilities(multivariate=True)
    paper: ClassVar[str] = (
        "Han, Chen, Ye & Zhan (2024), SOFTS: Efficient multivariate time series forecasting with series-core fusion"
    )

    hidden_size: Annotated[int, Field(ge=1)] = 512
    """Width of a token."""
    core_size: Annotated[int, Field(ge=1)] = 512
    """Width of the core."""
    layers: Annotated[int, Field(ge=1)] = 2
    """Encoder layers."""
    ff_size: Annotated[int, Field(ge=1)] = 2048
    """Hidden width of the feed-forward part of a layer."""
    activation: ActivationName = "gelu"
    """Activation of the feed-forward part."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Dropout rate."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: SOFTS, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        D, rate = model.hidden_size, model.dropout
        self.embed = nn.Linear(spec.lookback, D)
        self.dropout = nn.Dropout(rate)
        self.layers = nn.Sequential(
            *(
                EncoderLayer(CoreExchange(D, model.core_size), D, model.ff_size, act=model.activation, dropout=rate)
                for _ in range(model.layers)
            )
        )
        self.head = nn.Linear(D, spec.horizon * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        encoded = self.layers(self.dropout(self.embed(batch.y.transpose(1, 2))))
        output: Tensor = self.head(encoded).view(-1, self.spec.series, self.spec.horizon, self.spec.outputs)
        return output.transpose(1, 2)


class CoreExchange(nn.Module):
    """The STAR module of the paper: pool all series into a core, then combine the core with each series."""

    def __init__(self, width: int, core: int) -> None:
        super().__init__()
        self.aggregate = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, core))
        self.redistribute = nn.Sequential(nn.Linear(width + core, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, D] → [B, C, D]"""
        core = self.pool(self.aggregate(x)).expand(-1, x.shape[1], -1)
        return self.redistribute(torch.cat([x, core], dim=-1))  # type: ignore[no-any-return]

    def pool(self, x: Tensor) -> Tensor:
        """[B, C, D] → [B, 1, D]: stochastic pooling; in training one series is drawn for each feature."""
        chances = F.softmax(x, dim=1)
        if not self.training:
            return (x * chances).sum(dim=1, keepdim=True)
        draw = torch.multinomial(chances.transpose(1, 2).flatten(0, 1), 1)
        return x.gather(1, draw.view(x.shape[0], 1, x.shape[2]))
