"""A package of somebody else's: a model, a metric, a callback, a scaler. Nothing in it knows of the tests to come."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.data.scaling.per_window import Statistics, WindowScaler
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.metrics import Metric
from neuro_divergent.training.callbacks.base import Callback, CallbackSettings


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


class TooLow(Metric):
    """Share of forecasts below what happened."""

    def values(self, actual: Tensor, forecast: Tensor) -> Tensor:
        """1 where the forecast was too low."""
        return (forecast < actual).double()


class StopAfter(CallbackSettings):
    """End the training after some steps."""

    steps: Annotated[int, Field(ge=1)] = 1
    """How many."""

    def build(self) -> Callback:
        """The live callback."""
        return _StopAfter(self.steps)


class _StopAfter(Callback):
    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_batch_end(self, state: Any) -> None:
        if state.step >= self.steps:
            state.stop("the drift package has seen enough")


class LastValue(WindowScaler):
    """The last value of a window becomes 0."""

    def measure(self, y: Tensor, mask: Tensor | None) -> Statistics:
        return Statistics(y[:, -1:], torch.ones_like(y[:, -1:]))
