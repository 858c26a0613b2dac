"""N-HiTS: a hierarchy of blocks, each for one frequency band.

Letters: B windows, L lookback, H horizon, C channels, Q outputs, K knots.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, default
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily, one_cycle_recipe
from neuro_divergent.nn import ActivationName, CategoryEmbedding, perceptron
from neuro_divergent.nn.last_value import last_observed
from neuro_divergent.training.config.training_config import TrainingConfig

Sizes = Several[Annotated[int, Field(ge=1)]]


class NHITS(Model):
    """Stacks of blocks; each pools its input, forecasts a few knots, interpolates them, and passes on the residual."""

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = (
        "Challu, Olivares, Oreshkin, Garza, Mergenthaler-Canseco & Dubrawski (2023), "
        "N-HiTS: Neural hierarchical interpolation for time series forecasting"
    )

    blocks: Sizes = default((1, 1, 1))
    """Blocks in each stack."""
    hidden_sizes: Sizes = default((512, 512))
    """Widths of the hidden layers of every block."""
    pooling: Sizes = default((2, 2, 1))
    """Pooling length at the input of each stack's blocks."""
    downsample: Sizes = default((4, 2, 1))
    """Steps of the horizon per knot, for each stack."""
    pooling_mode: Literal["max", "average"] = "max"
    """How the input is pooled."""
    interpolation: Literal["linear", "nearest"] = "linear"
    """How knots become steps."""
    activation: ActivationName = "relu"
    """Activation after each hidden layer."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate of hidden units."""
    batch_norm: bool = False
    """Normalise each hidden unit over the batch, before its activation."""

    @model_validator(mode="after")
    def _one_entry_per_stack(self) -> Self:
        for name in ("pooling", "downsample"):
            given = getattr(self, name)
            if len(given) != len(self.blocks):
                raise ConfigError(
                    f"{name} must have one entry per stack, and blocks={list(self.blocks)} makes {len(self.blocks)} "
                    f"stacks, but got {name}={list(given)}"
                )
        return self

    def recipe(self, windows: int) -> TrainingConfig:
        """The recommended training for this many windows."""
        return one_cycle_recipe(self.group, windows, peak=2e-3, steps=1200)

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: NHITS, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.embedding = CategoryEmbedding(spec.categories) if spec.categories else None
        known = spec.future + (0 if self.embedding is None else self.embedding.width)
        self.blocks = nn.ModuleList(
            _Block(model, spec, known, model.pooling[stack], model.downsample[stack])
            for stack, count in enumerate(model.blocks)
            for _ in range(count)
        )
        self.stack_of_block = [stack for stack, count in enumerate(model.blocks) for _ in range(count)]

    def forward(self, batch: Batch) -> Tensor:
        return torch.stack(self._parts(batch), dim=0).sum(dim=0)

    def explain(self, batch: Batch) -> dict[str, Tensor]:
        """The forecast as a sum of parts [B, H, 1, Q]: the level (last value, unless anchored) and each stack's."""
        parts = self._parts(batch)
        pieces = {} if self.spec.anchored else {"level": parts.pop(0)}
        for stack, part in zip(self.stack_of_block, parts, strict=True):
            name = f"stack_{stack + 1}"
            pieces[name] = pieces[name] + part if name in pieces else part
        return pieces

    def _parts(self, batch: Batch) -> list[Tensor]:
        residual = batch.y.squeeze(-1)
        mask = None if batch.mask is None else batch.mask.squeeze(-1)
        known = [] if batch.future is None else [batch.future]
        if self.embedding is not None and batch.categorical is not None:
            known.append(self.embedding(batch.categorical))
        ahead = torch.cat(known, dim=-1) if known else None
        level = last_observed(batch.y, batch.mask).unsqueeze(-1)
        level = level.expand(-1, self.spec.horizon, 1, self.spec.outputs)
        parts = [] if self.spec.anchored else [level]
        for block in self.blocks:
            backcast, forecast = block(residual, batch.historical, ahead, batch.static)
            residual = residual - backcast
            if mask is not None:
                residual = residual * mask
            parts.append(forecast)
        return parts


class _Block(nn.Module):
    knots_to_steps: Tensor

    def __init__(self, model: NHITS, spec: InputSpec, known: int, pooling: int, downsample: int) -> None:
        super().__init__()
        self.spec = spec
        self.pooling = min(pooling, spec.lookback)
        self.average = model.pooling_mode == "average"
        past, ahead = math.ceil(spec.lookback / self.pooling), math.ceil(spec.horizon / self.pooling)
        width = past * (1 + spec.historical + known) + ahead * known + spec.static
        self.knots = max(1, spec.horizon // downsample)
        outputs = spec.lookback + self.knots * spec.outputs
        self.perceptron = perceptron(
            [width, *model.hidden_sizes, outputs],
            act=model.activation,
            dropout=model.dropout,
            batch_norm=model.batch_norm,
        )
        matrix = interpolation_matrix(self.knots, spec.horizon, model.interpolation)
        self.register_buffer("knots_to_steps", matrix, persistent=False)

    def forward(
        self, y: Tensor, historical: Tensor | None, known: Tensor | None, static: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        L = self.spec.lookback
        parts = [self._pool(y.unsqueeze(1))]
        if historical is not None:
            parts.append(self._pool(historical.transpose(1, 2)))
        if known is not None:
            parts += [self._pool(known[:, :L].transpose(1, 2)), self._pool(known[:, L:].transpose(1, 2))]
        if static is not None:
            parts.append(static)
        theta = self.perceptron(torch.cat(parts, dim=1) if len(parts) > 1 else parts[0])
        backcast, knots = theta[:, :L], theta[:, L:].view(-1, self.spec.outputs, self.knots)
        forecast = knots @ self.knots_to_steps
        return backcast, forecast.transpose(1, 2).unsqueeze(2)

    def _pool(self, x: Tensor) -> Tensor:
        """[B, columns, steps] → [B, columns · pooled steps]"""
        if self.pooling == 1:
            return x.flatten(1)
        pool = F.avg_pool1d if self.average else F.max_pool1d
        return pool(x, self.pooling, self.pooling, ceil_mode=True).flatten(1)


def interpolation_matrix(knots: int, steps: int, mode: Literal["linear", "nearest"]) -> Tensor:
    """The matrix M with knots @ M = the knots interpolated to all steps. Interpolation is linear, so M is constant."""
    if torch.get_default_device().type == "meta":
        return torch.empty(knots, steps)  # no values needed; torch would load its compiler to compute them
    identity = torch.eye(knots).unsqueeze(1)
    if mode == "linear":
        return F.interpolate(identity, size=steps, mode="linear").squeeze(1)
    return F.interpolate(identity, size=steps, mode="nearest").squeeze(1)
