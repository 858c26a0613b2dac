"""N-BEATS: stacks of fully connected blocks with backward and forward residual links.

Letters: B windows, L lookback, H horizon, C channels, Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, default
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName
from neuro_divergent.nn.basis import BasisStacks, TrendName
from neuro_divergent.nn.last_value import last_observed

Sizes = Several[Annotated[int, Field(ge=1)]]


class NBEATS(Model):
    """Blocks explain the window part by part: freely (generic), as a polynomial (trend) or as waves (seasonality).

    The forecast starts from the window's last value unless an anchor gives it another level.
    """

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities()
    paper: ClassVar[str] = (
        "Oreshkin, Carpov, Chapados & Bengio (2020), "
        "N-BEATS: Neural basis expansion analysis for interpretable time series forecasting"
    )

    stacks: Annotated[Several[Literal["generic", "trend", "seasonality"]], Field(min_length=1)] = default(
        ("generic", "trend", "seasonality")
    )
    """What each stack is made of."""
    blocks: Sizes = default((1, 1, 1))
    """Blocks in each stack."""
    hidden_sizes: Annotated[Sizes, Field(min_length=1)] = default((512, 512, 512, 512))
    """Widths of the hidden layers of every block."""
    degree: Annotated[int, Field(ge=0)] = 2
    """Degree of the trend's polynomials."""
    trend_basis: TrendName = "polynomial"
    """Which polynomials make the trend: plain powers as in the paper, or an orthogonal family."""
    harmonics: Annotated[int, Field(ge=1)] = 2
    """Frequencies of the seasonality per whole one; 1 is the paper's."""
    share_weights: bool = False
    """Whether the blocks of a stack are one and the same, as in the paper's interpretable form."""
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
    def __init__(self, model: NBEATS, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.stacks = BasisStacks(
            model.stacks,
            model.blocks,
            lookback=spec.lookback,
            horizon=spec.horizon,
            outputs=spec.outputs,
            hidden_sizes=model.hidden_sizes,
            trend=model.trend_basis,
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
        parts: list[Tensor] = self.stacks(batch.y.squeeze(-1), mask)
        return parts
