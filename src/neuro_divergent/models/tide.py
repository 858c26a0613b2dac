"""TiDE: a dense encoder and decoder of the whole window, and a small decoder for each horizon step.

Letters: B windows, L lookback, H horizon, C channels, D width, Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import CategoryEmbedding


class TiDE(Model):
    """Exogenous columns are projected step by step, encoded together with the window, and read again by each step.

    The last block has no layer norm. Over a single output it would leave only its bias, and reduce the network to its
    linear residual connection.
    """

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = (
        "Das, Kong, Leach, Mathur, Sen & Yu (2023), Long-term forecasting with TiDE: Time-series dense encoder"
    )

    hidden_size: Annotated[int, Field(ge=1)] = 512
    """Width of the dense encoder and decoder."""
    encoder_layers: Annotated[int, Field(ge=1)] = 1
    """Residual blocks of the encoder."""
    decoder_layers: Annotated[int, Field(ge=1)] = 1
    """Residual blocks of the decoder."""
    decoder_size: Annotated[int, Field(ge=1)] = 32
    """Width of the decoder's output for each step."""
    step_size: Annotated[int, Field(ge=1)] = 128
    """Width of the hidden layer of the decoder of each step."""
    temporal_width: Annotated[int, Field(ge=1)] = 4
    """Width of the projected exogenous columns of each step."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.3
    """Dropout rate."""
    layer_norm: bool = True
    """Whether each residual block ends in a layer norm."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Residual(nn.Module):
    """Two layers with a linear residual connection, then a layer norm."""

    def __init__(self, inputs: int, hidden: int, outputs: int, dropout: float, *, norm: bool) -> None:
        super().__init__()
        self.dense = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs), nn.Dropout(dropout)
        )
        self.skip = nn.Linear(inputs, outputs)
        self.norm = nn.LayerNorm(outputs) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.norm(self.dense(x) + self.skip(x))
        return output


class _Network(nn.Module):
    def __init__(self, model: TiDE, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        L, H, D, width = spec.lookback, spec.horizon, model.hidden_size, model.temporal_width
        self.embedding = CategoryEmbedding(spec.categories) if spec.categories else None
        known = spec.future + (0 if self.embedding is None else self.embedding.width)

        def block(inputs: int, outputs: int, hidden: int = D, *, norm: bool = model.layer_norm) -> _Residual:
            return _Residual(inputs, hidden, outputs, model.dropout, norm=norm)

        self.historical = block(spec.historical, width) if spec.historical else None
        self.known = block(known, width) if known else None
        inputs = L + L * width * (spec.historical > 0) + (L + H) * width * (known > 0) + spec.static
        self.encoder = nn.Sequential(block(inputs, D), *(block(D, D) for _ in range(model.encoder_layers - 1)))
        self.decoder = nn.Sequential(
            *(block(D, D) for _ in range(model.decoder_layers - 1)), block(D, H * model.decoder_size)
        )
        self.step = block(model.decoder_size + width * (known > 0), spec.outputs, model.step_size, norm=False)
        self.skip = nn.Linear(L, H * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        L, H = self.spec.lookback, self.spec.horizon
        y = batch.y.squeeze(-1)
        known = self._known(batch)
        parts = [y]
        if self.historical is not None and batch.historical is not None:
            parts.append(self.historical(batch.historical).flatten(1))
        if known is not None:
            parts.append(known.flatten(1))
        if batch.static is not None:
            parts.append(batch.static)
        steps = self.decoder(self.encoder(torch.cat(parts, dim=1))).view(y.shape[0], H, -1)
        if known is not None:
            steps = torch.cat([steps, known[:, L:]], dim=-1)
        output: Tensor = self.step(steps) + self.skip(y).view(-1, H, self.spec.outputs)
        return output.unsqueeze(2)

    def _known(self, batch: Batch) -> Tensor | None:
        """The projected columns known ahead, [B, L+H, width]."""
        columns: list[Tensor] = [] if batch.future is None else [batch.future]
        if self.embedding is not None and batch.categorical is not None:
            columns.append(self.embedding(batch.categorical))
        return None if self.known is None else self.known(torch.cat(columns, dim=-1))
