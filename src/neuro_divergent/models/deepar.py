"""DeepAR: a recurrent network that forecasts the distribution of the next value from the one before.

Letters: B windows, L lookback, H horizon, C channels, Q outputs, N trajectories.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, default
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.losses import Loss
from neuro_divergent.nn import ActivationName
from neuro_divergent.nn.recurrent import RecursiveRecurrent, dense_head


class DeepAR(Model):
    """A long short-term memory is told the previous value and the columns of the next step, and gives its distribution.

    It is trained on the true previous values. A plain forecast feeds back its point; trajectories
    drawn by `sample_paths` feed back what was drawn, so that their spread carries the uncertainty of all steps before.
    The loss counts the horizon only; the paper also counts the lookback.
    """

    group: ClassVar[ModelFamily] = "recurrent"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, static=True, categorical=True, recursive=True)
    paper: ClassVar[str] = (
        "Salinas, Flunkert, Gasthaus & Januschowski (2020), "
        "DeepAR: Probabilistic forecasting with autoregressive recurrent networks"
    )

    hidden_size: Annotated[int, Field(ge=1)] = 128
    """Width of the recurrent state."""
    layers: Annotated[int, Field(ge=1)] = 2
    """Number of recurrent layers."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of units switched off between recurrent layers while training."""
    decoder_sizes: Several[Annotated[int, Field(ge=1)]] = default(())
    """Widths of the hidden layers between the state and the outputs; none is a linear map, as in the paper."""
    activation: ActivationName = "relu"
    """Activation after each hidden layer of the decoder."""
    samples: Annotated[int, Field(ge=1)] = 100
    """How many trajectories a probabilistic forecast draws."""

    @model_validator(mode="after")
    def _feeds_values(self) -> Self:
        if self.anchor is not None:
            raise ConfigError(
                "DeepAR feeds forecasts back as values, which an anchor turns into differences, "
                f"but got anchor={self.anchor!r}. Use anchor=None"
            )
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        return _Network(self, spec)


class _Network(RecursiveRecurrent):
    def __init__(self, model: DeepAR, spec: InputSpec) -> None:
        encoder = partial(
            nn.LSTM,
            hidden_size=model.hidden_size,
            num_layers=model.layers,
            dropout=model.dropout if model.layers > 1 else 0.0,
            batch_first=True,
        )
        super().__init__(spec, encoder, dense_head(model.decoder_sizes, spec.outputs, model.activation))
        self.samples = model.samples

    @torch.no_grad()
    def sample_paths(
        self,
        batch: Batch,
        loss: Loss,
        number: int,
        generator: torch.Generator | None = None,
        *,
        location: Tensor | None = None,
        scale: Tensor | None = None,
        size: Tensor | None = None,
    ) -> Tensor:
        """Trajectories drawn step by step, [N, B, H, 1].

        Args:
            batch: windows as the network sees them: scaled.
            loss: the distribution behind the outputs; it has no head.
            number: how many trajectories of each window.
            generator: where the randomness comes from.
            location: [B, 1, 1], with `scale`: the map of the window's scaler back to original units. Given, the values
                are drawn and answered in original units, which counts need; otherwise both are scaled.
            scale: [B, 1, 1]
            size: [B, 1, 1] of windows that are not scaled, in whose units a distribution reads its parameters.
        """
        columns = self.columns(batch)
        output, state = self.start(batch, columns)

        # The window is read once; the trajectories of one window lie `number` rows apart, [N · B, ...].
        def repeat(rows: Tensor) -> Tensor:
            return rows.repeat(number, 1, 1)

        output, columns = repeat(output), None if columns is None else repeat(columns)
        state = tuple(part.repeat(1, number, 1) for part in state)
        middle = torch.zeros_like(output[..., :1]) if location is None else repeat(location).to(output.dtype)
        spread = torch.ones_like(middle) if scale is None else repeat(scale).to(output.dtype)
        sizes = None if size is None else repeat(size).to(output.dtype)
        drawn: list[Tensor] = []
        for step in range(self.spec.horizon):
            if step > 0:
                output, state = self.advance((drawn[-1] - middle) / spread, state, columns, step)
            raw = loss.natural(output, sizes)
            raw = raw if scale is None else loss.unscale(raw, middle, spread)
            drawn.append(loss.sample(raw, 1, generator).squeeze(0).unsqueeze(-1))
        return torch.cat(drawn, dim=1).view(number, batch.size, self.spec.horizon, 1)
