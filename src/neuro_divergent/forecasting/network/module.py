"""Scale → network → anchor → unscale as one torch module, for forecasting, export and serving of raw windows.

Letters: B windows, L lookback, H horizon, C channels, Q outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import Advice, ConfigError
from neuro_divergent.core.seeding import isolated
from neuro_divergent.data.scaling.per_window import Statistics, WindowScaler, trailing, window_scaler, window_size
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.anchor import Anchor
from neuro_divergent.losses import Loss, Weighted
from neuro_divergent.losses.base import check_values
from neuro_divergent.losses.distribution import Distributional


class Forecast(NamedTuple):
    """The outputs of a network for a batch, and what is needed to read them in scaled or original units."""

    raw: Tensor
    """[B, H, C, Q] outputs of the network, after the loss's head if it has one, as parameters in scaled units."""
    anchor: Tensor | None
    """[B, H, C] naive forecast in scaled units."""
    stats: Statistics


class ForecastModule(nn.Module):
    """A network together with scaling, column standardisation and anchor: it takes raw windows."""

    def __init__(
        self,
        network: nn.Module,
        loss: Loss,
        scaler: WindowScaler,
        spec: InputSpec,
        anchor: Anchor | None = None,
        *,
        sees_target: bool = True,
    ) -> None:
        super().__init__()
        innermost = loss
        while isinstance(innermost, Weighted):
            innermost = innermost.loss
        if not scaler.affine and type(innermost).unscale is not Loss.unscale:
            raise ConfigError(
                f"a distribution ({loss.kind}) cannot be used with the invariant scaler, which is not linear. "
                "Use scaler='robust' or another loss",
                advice=[Advice("model.scaler", "robust")],
            )
        self.network = network
        self.loss = loss
        self.scaler = scaler
        self.anchor = anchor
        self.sees_target = sees_target
        self.spec = spec
        self.head = loss.head()
        self._watcher: Callable[[Tensor], None] | None = None
        # A recursive network gets its point forecast back as input, not just its first output.
        recursive = hasattr(network, "feedback")
        if recursive and not sees_target:
            raise ConfigError(
                "a recursive network reads the target's past and its own forecasts, but got sees_target=False. "
                "Choose a model that forecasts all steps at once"
            )
        self._natural = isinstance(innermost, Distributional) and innermost.floor > 0
        self._told_by_window = recursive and (self.head is not None or loss.units == "original" or self._natural)
        if recursive and not self._told_by_window:
            network.feedback = loss.centre  # type: ignore[assignment]  # torch says Module
        # Columns are standardised by statistics of the training rows; `adapt_columns` fills these in.
        for name, width in (("future", spec.future), ("historical", spec.historical), ("static", spec.static)):
            self.register_buffer(f"{name}_mean", torch.zeros(width))
            self.register_buffer(f"{name}_scale", torch.ones(width))

    def adapt_columns(self, means: dict[str, Tensor], scales: dict[str, Tensor]) -> None:
        """Store the mean and the scale of each numeric column."""
        for name in means:
            getattr(self, f"{name}_mean").copy_(means[name])
            getattr(self, f"{name}_scale").copy_(scales[name])

    def watch_outputs(self, watcher: Callable[[Tensor], None]) -> Callable[[], None]:
        """Call the watcher with the network's outputs, [B, H, C, Q], at every pass. Returns a function that ends it."""
        self._watcher = watcher

        def stop() -> None:
            self._watcher = None

        return stop

    def forward(self, batch: Batch) -> Tensor:
        """The outputs for raw windows in original units, [B, H, C, Q]."""
        return self.original(self.forecast(batch))

    def forecast(self, batch: Batch, levels: Tensor | None = None) -> Forecast:
        """The forecast for a batch of raw windows."""
        scaled, stats = self.as_network_sees(batch)
        if self.training and batch.target is not None and hasattr(self.network, "train_forward"):
            target = self.scaler.transform(batch.target, stats, batch.target_mask)
            raw = self._train_forward(scaled._replace(target=target), stats)
        else:
            if batch.target is not None:
                scaled = scaled._replace(target=None, target_mask=None, weight=None)
            raw = self._run(scaled, stats)
        return self._completed(raw, scaled, stats, levels)

    def from_scaled(self, scaled: Batch, stats: Statistics, levels: Tensor | None = None) -> Forecast:
        """The forecast for windows that `as_network_sees` has scaled, or for changed ones with the same statistics."""
        return self._completed(self._run(scaled, stats), scaled, stats, levels)

    def _completed(self, raw: Tensor, scaled: Batch, stats: Statistics, levels: Tensor | None) -> Forecast:
        if self.head is not None:
            raw = self.head(raw, levels)
        if self._natural:
            raw = self._in_natural_units(raw, stats)
        if self._watcher is not None:
            self._watcher(raw)
        anchor = None if self.anchor is None else self.anchor(scaled.y, scaled.mask)
        return Forecast(raw, anchor, stats)

    def as_network_sees(self, batch: Batch) -> tuple[Batch, Statistics]:
        """Scaled windows with standardised columns, and the statistics to invert the scaling."""
        y, stats = self.scaler.forward(batch.y, batch.mask)
        if not self.sees_target:
            y = torch.zeros_like(y)
        if self._natural and not self.scaler.scales:
            stats = stats._replace(size=window_size(batch.y, batch.mask))
        if batch.future is None and batch.historical is None and batch.static is None:
            return Batch(y, *batch[1:]), stats
        scaled = batch._replace(
            y=y,
            future=self._standardised("future", batch.future),
            historical=self._standardised("historical", batch.historical),
            static=self._standardised("static", batch.static),
        )
        return scaled, stats

    def original(self, forecast: Forecast) -> Tensor:
        """The outputs in original units, [B, H, C, Q]."""
        raw, anchor, stats = forecast
        if not self.scaler.affine:
            return self.scaler.inverse(self.scaled(forecast), stats)
        location, scale = self.scaler.affine_map(stats)
        if anchor is not None:
            location = location + anchor * scale
        raw = _raised(raw, location.dtype)
        if location.dtype != raw.dtype or scale.dtype != raw.dtype:
            location, scale = location.to(raw.dtype), scale.to(raw.dtype)
        location, scale = location.unsqueeze(-1), scale.unsqueeze(-1)
        return self.loss.unscale(raw, location, scale)

    def scaled(self, forecast: Forecast) -> Tensor:
        """The outputs in the units of the scaled window, [B, H, C, Q]."""
        raw = _raised(forecast.raw, forecast.stats.location.dtype)
        if forecast.anchor is None:
            return raw
        anchor = forecast.anchor.unsqueeze(-1)
        return self.loss.unscale(raw, anchor, torch.ones_like(anchor))

    def paths(self, scaled: Batch, stats: Statistics, number: int, generator: torch.Generator | None = None) -> Tensor:
        """Sample paths that the network draws itself for windows that `as_network_sees` has scaled, [N, B, H, 1].

        They are in original units, where counts must be drawn. If the scaler is not linear, the draws are unscaled.
        """
        draw: Callable[..., Tensor] = self.network.sample_paths  # type: ignore[assignment]  # torch says Module
        if self.scaler.affine:
            location, scale = self.scaler.affine_map(stats)
            size = {} if stats.size is None else {"size": stats.size}
            return draw(scaled, self.loss, number, generator, location=location, scale=scale, **size)
        drawn = draw(scaled, self.loss, number, generator)
        return self.scaler.inverse(drawn.movedim(0, -1), stats).movedim(-1, 0)

    def loss_values(self, batch: Batch, loss: Loss | None = None) -> Tensor:
        """Unreduced loss [B, H, C] of a batch with targets, in the units of the loss."""
        loss = loss or self.loss
        assert batch.target is not None
        forecast = self.forecast(batch)
        if loss.units == "original":
            return check_values(loss.values(self.original(forecast), batch.target, batch), batch.target, loss.kind)
        target = self.scaler.transform(batch.target, forecast.stats)
        return check_values(loss.values(self.scaled(forecast), target, batch), target, loss.kind)

    def _in_natural_units(self, raw: Tensor, stats: Statistics) -> Tensor:
        """Outputs [B, H, C, Q], or [B, 1, Q] of a single channel, as parameters of the loss's distribution."""
        raw = _raised(raw, stats.location.dtype)
        return self.loss.natural(raw, None if stats.size is None else trailing(stats.size, raw))

    def _run(self, batch: Batch, stats: Statistics) -> Tensor:
        told = self._feedback(stats)
        output: Tensor = self.network(batch) if told is None else self.network(batch, told)
        return output

    def _train_forward(self, batch: Batch, stats: Statistics) -> Tensor:
        trained: Callable[..., Tensor] = self.network.train_forward  # type: ignore[assignment]  # torch says Module
        told = self._feedback(stats)
        return trained(batch) if told is None else trained(batch, told)

    def _feedback(self, stats: Statistics) -> Callable[[Tensor], Tensor] | None:
        """What a recursive network gets back from its outputs, if that needs the window's statistics or the head."""
        if not self._told_by_window:
            return None

        def point(output: Tensor) -> Tensor:
            """[B, 1, Q] → [B, 1] the point forecast in scaled units; the median if a head needs a level."""
            if self.head is not None:
                output = self.head(output, output.new_tensor([0.5]))
            if self._natural:
                output = self._in_natural_units(output, stats)
            # A scaler that is not linear allows only losses whose outputs are values, and their point is one of them.
            if self.loss.units == "scaled" or not self.scaler.affine:
                return self.loss.centre(output)
            location, scale = self.scaler.affine_map(stats)
            known = self.loss.unscale(_raised(output, location.dtype), location, scale)
            told = self.scaler.transform(self.loss.centre(known).unsqueeze(-1), stats)
            return told.squeeze(-1).to(output.dtype)

        return point

    def _standardised(self, name: str, values: Tensor | None) -> Tensor | None:
        if values is None:
            return None
        mean, scale = self.get_buffer(f"{name}_mean"), self.get_buffer(f"{name}_scale")
        return (values - mean) / scale


def _raised(raw: Tensor, dtype: torch.dtype) -> Tensor:
    """The outputs in at least the precision of the statistics: half precision overflows for large values."""
    return raw if raw.dtype == dtype else raw.to(torch.promote_types(raw.dtype, dtype))


def build_module(model: Model, spec: InputSpec, loss: Loss, anchor: tuple[int, ...], seed: int) -> ForecastModule:
    """The module of a description, with weights drawn from the seed."""
    with isolated(seed, "weights"):
        spec = replace(spec, outputs=loss.outputs, anchored=bool(anchor))
        channels = spec.series if model.capabilities.multivariate else 1
        return ForecastModule(
            network=model.build(spec),
            loss=loss,
            scaler=window_scaler(model.scaler, channels),
            spec=spec,
            anchor=Anchor(anchor, model.h) if anchor else None,
            sees_target=model.sees_target,
        )
