"""A package of somebody else's that adds one model: nothing in it knows of the tests that it will pass."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily


class Drift(Model):
    """A straight line through the window, continued, plus a small correction from the window and columns ahead."""

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True)
    paper: ClassVar[str] = "Hyndman & Athanasopoulos (2021), Forecasting: principles and practice, section 5.2"

    hidden_size: Annotated[int, Field(ge=1)] = 64
    """Width of the correction's hidden layer."""

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    steps: Tensor

    def __init__(self, model: Drift, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.register_buffer("steps", torch.arange(1, spec.horizon + 1).view(1, -1, 1, 1), persistent=False)
        width = spec.lookback + spec.horizon * spec.future
        self.correction = nn.Sequential(
            nn.Linear(width, model.hidden_size), nn.ReLU(), nn.Linear(model.hidden_size, spec.horizon * spec.outputs)
        )

    def forward(self, batch: Batch) -> Tensor:
        y = batch.y.squeeze(-1)
        slope = (y[:, -1] - y[:, 0]) / max(1, self.spec.lookback - 1)
        line = y[:, -1].view(-1, 1, 1, 1) + self.steps * slope.view(-1, 1, 1, 1)
        seen = y if batch.future is None else torch.cat([y, batch.future[:, self.spec.lookback :].flatten(1)], dim=1)
        return line + self.correction(seen).view(-1, self.spec.horizon, 1, self.spec.outputs)
