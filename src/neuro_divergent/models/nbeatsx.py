"""N-BEATSx: N-BEATS whose blocks also see exogenous columns, and may use them as a basis.

Letters: B windows, L lookback, H horizon, C channels, Q outputs, K columns.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, default
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName, FlatInputs
from neuro_divergent.nn.basis import BasisStacks, StackName
from neuro_divergent.nn.last_value import last_observed

Sizes = Several[Annotated[int, Field(ge=1)]]


class NBEATSx(Model):
    """N-BEATS with exogenous columns: every block sees them, and an exogenous stack forecasts a mixture of them.

    The forecast starts from the window's last value unless an anchor gives it another level.
    """

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = (
        "Olivares, Challu, Marcjasz, Weron & Dubrawski (2023), "
        "Neural basis expansion analysis with exogenous variables: Forecasting electricity prices with NBEATSx"
    )

    stacks: Annotated[Several[StackName], Field(min_length=1)] = default(("generic", "trend", "seasonality"))
    """What each stack is made of."""
    blocks: Sizes = default((1, 1, 1))
    """Blocks in each stack."""
    hidden_sizes: Annotated[Sizes, Field(min_length=1)] = default((512, 512, 512, 512))
    """Widths of the hidden layers of every block."""
    degree: Annotated[int, Field(ge=0)] = 2
    """Degree of the trend's polynomials."""
    harmonics: Annotated[int, Field(ge=1)] = 2
    """Frequencies of the seasonality per whole one; 1 is the paper's."""
    share_weights: bool = False
    """Whether the blocks of a stack are one and the same."""
    activation: ActivationName = "relu"
    """Activation after each hidden layer."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of hidden units switched off while training."""
    batch_norm: bool = False
    """Normalise each hidden unit over the batch, before its activation."""

    @model_validator(mode="after")
    def _one_entry_per_stack(self) -> Self:
        if len(self.blocks) != len(self.stacks):
            raise ConfigError(
                f"blocks must have one entry per stack, and stacks={list(self.stacks)} are {len(self.stacks)}, "
                f"but got blocks={list(self.blocks)}"
            )
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: NBEATSx, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.inputs = FlatInputs(spec)
        embedding = self.inputs.embedding
        columns = spec.future + spec.static + (0 if embedding is None else embedding.width)
        if "exogenous" in model.stacks and columns == 0:
            raise ConfigError(
                "an exogenous stack needs columns that are known ahead, static or categorical, but the data has none. "
                f"Name some, or leave it out of stacks={list(model.stacks)}"
            )
        self.needs_columns = "exogenous" in model.stacks
        self.stacks = BasisStacks(
            model.stacks,
            model.blocks,
            lookback=spec.lookback,
            horizon=spec.horizon,
            outputs=spec.outputs,
            hidden_sizes=model.hidden_sizes,
            extra=self.inputs.width - spec.lookback,
            columns=columns,
            degree=model.degree,
            harmonics=model.harmonics,
            activation=model.activation,
            dropout=model.dropout,
            batch_norm=model.batch_norm,
            share_weights=model.share_weights,
        )

    def forward(self, batch: Batch) -> Tensor:
        forecast = sum(self._parts(batch)).unsqueeze(2)  # type: ignore[union-attr]  # at least one stack
        return forecast if self.spec.anchored else forecast + self._level(batch)

    def explain(self, batch: Batch) -> dict[str, Tensor]:
        """The forecast as a sum of parts [B, H, 1, Q]: the level (last value, unless anchored) and each stack's."""
        pieces = {} if self.spec.anchored else {"level": self._level(batch)}
        by_stack = self.stacks.by_stack(self._parts(batch))
        return pieces | {name: part.unsqueeze(2) for name, part in by_stack.items()}

    def _level(self, batch: Batch) -> Tensor:
        level = last_observed(batch.y, batch.mask).unsqueeze(-1)
        return level.expand(-1, self.spec.horizon, 1, self.spec.outputs)

    def _parts(self, batch: Batch) -> list[Tensor]:
        mask = None if batch.mask is None else batch.mask.squeeze(-1)
        flat = self.inputs(batch)
        y, extra = flat[:, : self.spec.lookback], flat[:, self.spec.lookback :]
        columns = self._columns(batch) if self.needs_columns else None
        parts: list[Tensor] = self.stacks(y, mask, extra if extra.shape[1] > 0 else None, columns)
        return parts

    def _columns(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The basis of the exogenous stacks, [B, L, K] and [B, H, K]."""
        L, H = self.spec.lookback, self.spec.horizon
        known: list[Tensor] = [] if batch.future is None else [batch.future]
        if self.inputs.embedding is not None and batch.categorical is not None:
            known.append(self.inputs.embedding(batch.categorical))
        if batch.static is not None:
            known.append(batch.static.unsqueeze(1).expand(-1, L + H, -1))
        columns = torch.cat(known, dim=-1)
        return columns[:, :L], columns[:, L:]
