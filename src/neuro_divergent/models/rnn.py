"""RNN: the plain recurrent network, forecasting the whole horizon at once or step by step.

Letters: B windows, L lookback, H horizon, C channels, D width, Q outputs.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.lagged import LaggedModel
from neuro_divergent.forecasting.model.model import Capabilities
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn.recurrent import DirectRecurrent, RecursiveRecurrent, dense_head


class RNN(LaggedModel):
    """A recurrent network reads the window; a perceptron decodes its states into all steps of the horizon.

    For each horizon step the direct decoder reads the state after the whole window, which contains the newest value,
    the state at the same place of the last season, and the values one or more seasons before. Without lags it reads
    the whole window step by step, and the states of its last steps in the same order.
    """

    group: ClassVar[ModelFamily] = "recurrent"
    capabilities: ClassVar[Capabilities] = Capabilities(
        future=True, historical=True, static=True, categorical=True, recursive=True
    )
    paper: ClassVar[str] = "Elman (1990), Finding structure in time"

    hidden_size: Annotated[int, Field(ge=1)] = 64
    """Width of the recurrent state."""
    layers: Annotated[int, Field(ge=1)] = 1
    """Number of recurrent layers."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the recurrent state."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate between recurrent layers."""
    context_size: Annotated[int, Field(ge=1)] = 16
    """Width of the context vector of each horizon step in the direct decoder."""
    decoder_size: Annotated[int, Field(ge=1)] = 128
    """Width of the direct decoder's hidden layer."""
    recursive: bool = False
    """Whether to forecast step by step, feeding each forecast back, instead of all steps at once."""

    @model_validator(mode="after")
    def _recursion_feeds_values(self) -> Self:
        if self.recursive and self.anchor not in (None, "auto"):
            raise ConfigError(
                "recursive=True feeds forecasts back as values, so they must not be differences to an anchor, "
                f"but got anchor={self.anchor!r}. Use anchor=None or recursive=False"
            )
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        between = self.dropout if self.layers > 1 else 0.0
        encoder = partial(
            nn.RNN,
            hidden_size=self.hidden_size,
            num_layers=self.layers,
            nonlinearity=self.activation,
            dropout=between,
            batch_first=True,
        )
        if self.recursive:
            return RecursiveRecurrent(spec, encoder, dense_head((), spec.outputs))
        return DirectRecurrent(spec, encoder, context_size=self.context_size, decoder_size=self.decoder_size)
