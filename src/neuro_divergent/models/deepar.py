"""DeepAR: a recurrent network that forecasts the distribution of the next value from the previous value.

Letters: B windows, L lookback, H horizon, C channels, Q outputs, N trajectories.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, Takes, default
from neuro_divergent.forecasting.model.lagged import LaggedModel
from neuro_divergent.forecasting.model.model import AnchorField, Capabilities
from neuro_divergent.forecasting.model.recipes import ModelFamily, recipe_for
from neuro_divergent.losses import DistributionLoss, Loss
from neuro_divergent.nn import ActivationName
from neuro_divergent.nn.recurrent import RecursiveRecurrent, dense_head
from neuro_divergent.training.config.training_config import EarlyStopping, TrainingConfig

RECIPE_STEPS = 1500
"""About the maximum number of steps of the recipe: a distribution that is fed back takes longer to learn."""


class DeepAR(LaggedModel):
    """An LSTM reads the previous value, the lags and the columns of the next step, and outputs its distribution.

    The recommended loss is Student's t-distribution. Its middle, mean and median at once, is the point forecast. For
    counts use DistributionLoss(distribution="NegativeBinomial").

    It is trained on the true previous values. A point forecast feeds back the point forecast of the step before.
    Sample paths of `sample_paths` feed back the drawn values, so that their spread contains the uncertainty of all
    earlier steps. The loss covers the horizon only; in the paper it also covers the lookback.
    """

    group: ClassVar[ModelFamily] = "recurrent"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, static=True, categorical=True, recursive=True)
    paper: ClassVar[str] = (
        "Salinas, Flunkert, Gasthaus & Januschowski (2020), "
        "DeepAR: Probabilistic forecasting with autoregressive recurrent networks"
    )

    anchor: Takes[AnchorField, Literal["last", "seasonal", "auto"] | Sequence[int] | None] = default(None)
    """Must be None: DeepAR feeds forecasts back as values. Lags take the place of an anchor."""
    hidden_size: Annotated[int, Field(ge=1)] = 64
    """Width of the recurrent state."""
    layers: Annotated[int, Field(ge=1)] = 1
    """Number of recurrent layers."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Dropout rate between recurrent layers."""
    decoder_sizes: Several[Annotated[int, Field(ge=1)]] = default(())
    """Widths of the hidden layers between the state and the outputs; empty for a linear map, as in the paper."""
    activation: ActivationName = "relu"
    """Activation after each hidden layer of the decoder."""
    samples: Annotated[int, Field(ge=1)] = 100
    """Number of sample paths of a probabilistic forecast."""

    @model_validator(mode="after")
    def _feeds_values(self) -> Self:
        if self.anchor is not None:
            raise ConfigError(
                "DeepAR feeds forecasts back as values, so they must not be differences to an anchor, "
                f"but got anchor={self.anchor!r}. Use anchor=None"
            )
        return self

    def lags_of(self, seasons: tuple[int, ...], windows: int) -> tuple[int, ...]:  # noqa: ARG002
        """Multiples of the shortest season up to the longest, and every season with the steps beside it.

        The network forecasts the change from the last value. It needs the change at the same place of a season.
        """
        if not seasons:
            return ()
        beside = {season + step for season in seasons for step in (-1, 0, 1)}
        multiples = range(min(seasons), max(seasons) + 1, min(seasons))
        return tuple(sorted(lag for lag in {*beside, *multiples} if 1 < lag <= self.input_size))

    def recipe(self, windows: int) -> TrainingConfig:
        """The recommended training for this many windows, with a distribution as its loss.

        It is not stopped early, and the last weights are kept. Validation feeds point forecasts back, so its likelihood
        counts errors that the distribution of one step does not contain: it was best after one or two epochs, where the
        point forecasts were not.
        """
        recipe = recipe_for(self.group, windows, steps=RECIPE_STEPS)
        epochs = recipe.max_epochs
        assert isinstance(epochs, int)
        never = EarlyStopping(patience=epochs, restore_best_weights=False)
        return recipe.replace(loss=DistributionLoss(distribution="StudentT"), early_stopping=never)

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
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
        """Return sample paths, drawn step by step, [N, B, H, 1].

        Args:
            batch: scaled windows.
            loss: the distribution of the outputs; a loss without a head.
            number: number of sample paths of each window.
            generator: random generator.
            location: [B, 1, 1] location of the window scaler. With location and scale the values are drawn and returned
                in original units, as counts require; without them they are scaled.
            scale: [B, 1, 1] scale of the window scaler.
            size: [B, 1, 1] of windows that are not scaled, in whose units a distribution reads its parameters.
        """
        columns = self.columns(batch)
        output, state = self.start(batch, columns)

        # The window is read once. Row n · B + b of the state, [N · B, ...], belongs to path n of window b.
        def repeat(rows: Tensor) -> Tensor:
            return rows.repeat(number, 1, 1)

        output, columns = repeat(output), None if columns is None else repeat(columns)
        state = tuple(part.repeat(1, number, 1) for part in state)
        middle = torch.zeros_like(output[..., :1]) if location is None else repeat(location).to(output.dtype)
        spread = torch.ones_like(middle) if scale is None else repeat(scale).to(output.dtype)
        sizes = None if size is None else repeat(size).to(output.dtype)
        drawn: list[Tensor] = []
        known = repeat(batch.y)
        for step in range(self.spec.horizon):
            if step > 0:
                known = torch.cat([known, (drawn[-1] - middle) / spread], dim=1)
                output, state = self.advance(known, state, columns, step)
            raw = loss.natural(output, sizes)
            raw = raw if scale is None else loss.unscale(raw, middle, spread)
            drawn.append(loss.sample(raw, 1, generator).squeeze(0).unsqueeze(-1))
        return torch.cat(drawn, dim=1).view(number, batch.size, self.spec.horizon, 1)
