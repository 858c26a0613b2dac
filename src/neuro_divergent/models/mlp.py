"""MLP: the whole window flattened into a multilayer perceptron.

Letters: B windows, L lookback, H horizon, C channels, Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily, one_cycle_recipe
from neuro_divergent.nn import ActivationName, FlatInputs, perceptron
from neuro_divergent.training.config.training_config import TrainingConfig


class MLP(Model):
    """A multilayer perceptron on the flattened window. Fast, and accurate with a seasonal anchor."""

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = "Rosenblatt (1958), The perceptron; Rumelhart, Hinton & Williams (1986)"

    hidden_size: Annotated[int, Field(ge=1)] = 512
    """Width of each hidden layer."""
    layers: Annotated[int, Field(ge=1)] = 2
    """Number of hidden layers."""
    activation: ActivationName = "relu"
    """Activation after each hidden layer."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate of hidden units."""
    batch_norm: bool = False
    """Normalise each hidden unit over the batch, before its activation."""

    def recipe(self, windows: int) -> TrainingConfig:
        """The recommended training for this many windows."""
        return one_cycle_recipe(self.group, windows, peak=3e-3, steps=1000)

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: MLP, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.inputs = FlatInputs(spec)
        sizes = [self.inputs.width, *[model.hidden_size] * model.layers, spec.horizon * spec.outputs]
        self.perceptron = perceptron(sizes, act=model.activation, dropout=model.dropout, batch_norm=model.batch_norm)

    def forward(self, batch: Batch) -> Tensor:
        output: Tensor = self.perceptron(self.inputs(batch))
        return output.view(-1, self.spec.horizon, 1, self.spec.outputs)
