"""TSMixerx: TSMixer with exogenous columns, aligned to the horizon first and mixed there.

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
from neuro_divergent.nn.mixer import FeatureMixer, TimeMixer


class TSMixerx(Model):
    """Historical, future and static columns are mapped to the horizon's length, concatenated, and mixed in blocks."""

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(
        multivariate=True, future=True, historical=True, static=True, categorical=True
    )
    paper: ClassVar[str] = (
        "Chen, Li, Yoder, Arik & Pfister (2023), TSMixer: An all-MLP architecture for time series forecasting"
    )

    scaler: WindowScalerName = "revin"
    """The scaler that is applied to each window."""
    blocks: Annotated[int, Field(ge=1)] = 2
    """Number of mixing blocks after the first."""
    hidden_size: Annotated[int, Field(ge=1)] = 64
    """Width of the features at each step."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: TSMixerx, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        H, C, D = spec.horizon, spec.series, model.hidden_size
        self.embedding = CategoryEmbedding(spec.categories) if spec.categories else None
        known = spec.future + (0 if self.embedding is None else self.embedding.width)

        def mixer(inputs: int) -> FeatureMixer:
            return FeatureMixer(H, inputs, D, D, model.dropout)

        self.align = nn.Linear(spec.lookback, H)
        self.past = mixer(C * (1 + spec.historical + known))
        self.ahead = mixer(C * known) if known else None
        self.static = mixer(C * spec.static) if spec.static else None
        joined = D * (1 + (known > 0) + (spec.static > 0))
        self.first = nn.Sequential(TimeMixer(H, joined, model.dropout), mixer(joined))
        self.blocks = nn.ModuleList(_Block(model, spec) for _ in range(model.blocks))
        self.head = nn.Linear(D, C * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        L, H = self.spec.lookback, self.spec.horizon
        known = self._known(batch)
        past = [batch.y.unsqueeze(-1)]
        past += [part for part in (batch.historical, None if known is None else known[:, :L]) if part is not None]
        parts = [self.past(self.align(torch.cat(past, dim=-1).flatten(2).transpose(1, 2)).transpose(1, 2))]
        if self.ahead is not None and known is not None:
            parts.append(self.ahead(known[:, L:].flatten(2)))
        static = None
        if self.static is not None and batch.static is not None:
            static = batch.static.flatten(1).unsqueeze(1).expand(-1, H, -1)
            parts.append(self.static(static))
        x = self.first(torch.cat(parts, dim=-1))
        for block in self.blocks:
            x = block(x, static)
        output: Tensor = self.head(x)
        return output.view(-1, H, self.spec.series, self.spec.outputs)

    def _known(self, batch: Batch) -> Tensor | None:
        """The columns known ahead and the embedded categories, [B, L+H, C, known]."""
        known: list[Tensor] = [] if batch.future is None else [batch.future]
        if self.embedding is not None and batch.categorical is not None:
            known.append(self.embedding(batch.categorical))
        return torch.cat(known, dim=-1) if known else None


class _Block(nn.Module):
    """One mixing block, which reads the static columns again if there are any."""

    def __init__(self, model: TSMixerx, spec: InputSpec) -> None:
        super().__init__()
        H, D = spec.horizon, model.hidden_size
        inputs = spec.series * spec.static
        self.static = FeatureMixer(H, inputs, D, D, model.dropout) if inputs else None
        joined = 2 * D if inputs else D
        self.mix = nn.Sequential(TimeMixer(H, joined, model.dropout), FeatureMixer(H, joined, D, D, model.dropout))

    def forward(self, x: Tensor, static: Tensor | None) -> Tensor:
        if self.static is not None and static is not None:
            x = torch.cat([x, self.static(static)], dim=-1)
        mixed: Tensor = self.mix(x)
        return mixed
