"""MLPMultivariate: the windows of all series, flattened together into one multilayer perceptron.

Letters: B windows, L lookback, H horizon, C channels (one per series), Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName, FlatInputs, perceptron


class MLPMultivariate(Model):
    """A multilayer perceptron that sees all series at once, so that each forecast can use the others' past."""

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(
        multivariate=True, future=True, historical=True, static=True, categorical=True
    )
    paper: ClassVar[str] = "Rosenblatt (1958), The perceptron; Rumelhart, Hinton & Williams (1986)"

    hidden_size: Annotated[int, Field(ge=1)] = 1024
    """Width of each hidden layer."""
    layers: Annotated[int, Field(ge=1)] = 2
    """Number of hidden layers."""
    activation: ActivationName = "relu"
    """Activation after each hidden layer."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of hidden units switched off while training."""
    batch_norm: bool = False
    """Normalise each hidden unit over the batch, before its activation."""

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: MLPMultivariate, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.inputs = FlatInputs(spec)
        # Every column has a value for each series, so the flattened window is that many times as wide.
        width = self.inputs.width * spec.series
        sizes = [width, *[model.hidden_size] * model.layers, spec.horizon * spec.series * spec.outputs]
        self.perceptron = perceptron(sizes, act=model.activation, dropout=model.dropout, batch_norm=model.batch_norm)

    def forward(self, batch: Batch) -> Tensor:
        output: Tensor = self.perceptron(self.inputs(batch))
        return output.view(-1, self.spec.horizon, self.spec.series, self.spec.outputs)
