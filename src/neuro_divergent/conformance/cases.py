"""One case of the model matrix: a description, its sizes, and batches that fit.

Letters: B windows, L lookback, H horizon, C channels, Q outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.seeding import numpy_generator, torch_generator
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.windows import Windows
from neuro_divergent.forecasting.fit.anchors import anchor_and_lags
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.module import ForecastModule, build_module
from neuro_divergent.losses import MSE, Loss

CATEGORIES = (3, 4)
COLUMNS = 2
"""How many columns of each declared kind a case has."""


def usual_loss(model: Model) -> Loss:
    """The loss of the model's recipe if it describes a distribution, else MSE."""
    loss = model.recipe(64).loss
    return loss if isinstance(loss, Loss) and loss.outputs > 1 else MSE()


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model at certain sizes, with all declared columns or with none."""

    model: Model
    series: int = 3
    columns: bool = True
    loss: Loss = field(default_factory=MSE)

    def __str__(self) -> str:
        spec = self.spec
        kinds = {"future": spec.future, "historical": spec.historical, "static": spec.static}
        columns = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count) or "no numeric"
        return (
            f"with L={spec.lookback}, H={spec.horizon}, C={self.channels}, Q={self.loss.outputs} ({self.loss.kind}), "
            f"{self.series} series, {columns} columns, categories {spec.categories}"
        )

    @property
    def channels(self) -> int:
        """C: one per series if the model is multivariate."""
        return self.series if self.model.capabilities.multivariate else 1

    @property
    def spec(self) -> InputSpec:
        """The sizes that the network is built for."""
        can = self.model.capabilities
        return InputSpec(
            horizon=self.model.h,
            lookback=self.model.input_size,
            series=self.series,
            future=COLUMNS * (can.future and self.columns),
            historical=COLUMNS * (can.historical and self.columns),
            static=COLUMNS * (can.static and self.columns),
            categories=CATEGORIES if can.categorical and self.columns else (),
        )

    def module(self, *, seed: int = 0, shaken: bool = False) -> ForecastModule:
        """The module before training. `shaken` moves every weight, so that none is zero by design."""
        # The waves of a few rows have no season. Where a model would infer its lags, it gets two of its own.
        anchor, lags = anchor_and_lags(self.model, self.store(1))
        if self.model.lags_read == "auto":
            lags = tuple(sorted({min(3, self.model.input_size), self.model.input_size}))
        module = build_module(self.model, replace(self.spec, lags=lags), self.loss, anchor, seed)
        if shaken:
            generator = torch_generator(seed, "shake")
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
        return module

    def batch(self, windows: int = 3, *, seed: int = 0, masked: float = 0.0) -> Batch:
        """Waves of several lengths with a little noise, and their continuation as the target."""
        spec, C = self.spec, self.channels
        L, H = spec.lookback, spec.horizon
        draw = torch_generator(seed, "batch")
        each = (C,) if self.model.capabilities.multivariate else ()
        waves = _waves(windows, L + H, C, draw)
        mask = torch.rand(windows, L, C, generator=draw) >= masked if masked else None
        y = waves[:, :L] if mask is None else torch.where(mask, waves[:, :L], 0.0)
        codes = [torch.randint(0, count, (windows, L + H, *each), generator=draw) for count in spec.categories]

        def columns(count: int, *steps: int) -> Tensor | None:
            return torch.randn(windows, *steps, *each, count, generator=draw) if count else None

        return Batch(
            y=y.contiguous(),
            mask=mask,
            future=columns(spec.future, L + H),
            historical=columns(spec.historical, L),
            static=columns(spec.static),
            categorical=torch.stack(codes, dim=-1) if codes else None,
            target=waves[:, L:].contiguous(),
            series=torch.arange(C) if each else torch.arange(windows) % self.series,
            time=torch.full((windows,), L),
        )

    def store(self, rows: int, *, seed: int = 0) -> SeriesStore:
        """A table with this many rows per series and the case's columns."""
        spec, draw = self.spec, numpy_generator(seed, "store")
        total = rows * self.series

        def columns(count: int, rows: int) -> np.ndarray | None:
            return draw.standard_normal((rows, count)).astype(np.float32) if count else None

        codes = [draw.integers(1, count, total, dtype=np.int32) for count in spec.categories]
        return SeriesStore(
            ids=np.array([f"series-{number}" for number in range(self.series)]),
            offsets=np.arange(self.series + 1, dtype=np.int64) * rows,
            y=_waves(self.series, rows, 1, torch_generator(seed, "rows")).numpy().reshape(-1),
            start=np.zeros(self.series, dtype=np.int64),
            freq="1i",
            future=columns(spec.future, total),
            historical=columns(spec.historical, total),
            static=columns(spec.static, self.series),
            categorical=np.stack(codes, axis=1) if codes else None,
            future_names=tuple(f"future-{number}" for number in range(spec.future)),
            historical_names=tuple(f"historical-{number}" for number in range(spec.historical)),
            static_names=tuple(f"static-{number}" for number in range(spec.static)),
            categories={
                f"category-{number}": tuple("abcdefgh"[: count - 1]) for number, count in enumerate(spec.categories)
            },
        )

    def windows(self, store: SeriesStore) -> Windows:
        """The windows of a table at the case's sizes."""
        multivariate = self.model.capabilities.multivariate
        return Windows(store, lookback=self.model.input_size, horizon=self.model.h, multivariate=multivariate)

    def resized(self, *, h: int, input_size: int) -> Case:
        """The same case at another horizon and lookback."""
        return replace(self, model=self.model.replace(h=h, input_size=input_size))


def _waves(windows: int, steps: int, channels: int, draw: torch.Generator) -> Tensor:
    """[B, T, C] sines with different periods, phases and heights, so that no two windows are equal."""
    period = 3 + 5 * torch.rand(windows, 1, channels, generator=draw)
    phase = 2 * torch.pi * torch.rand(windows, 1, channels, generator=draw)
    height = 1 + torch.rand(windows, 1, channels, generator=draw)
    noise = 0.05 * torch.randn(windows, steps, channels, generator=draw)
    time = torch.arange(steps).view(1, -1, 1)
    return height * torch.sin(2 * torch.pi * time / period + phase) + noise + 3 * height
