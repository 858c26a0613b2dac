"""Losses of a point forecast: one output per target value.

In the formulas y is the target, f the forecast and e = f - y. All losses are elementwise; the engine takes the mean.
"""

# ruff: noqa: ARG002  (every loss has the same signature, whatever its formula needs)

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses.base import Loss, Point, check_shapes
from neuro_divergent.losses.stable import divide, huber, root


def errors(output: Tensor, target: Tensor) -> Tensor:
    """Forecast minus target, after the shapes were checked."""
    check_shapes(output, target)
    return output.squeeze(-1) - target


class MSE(Loss):
    """Squared error, e²; the best forecast is the mean."""

    @property
    def shows(self) -> Point:
        """The mean."""
        return "mean"

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced squared errors."""
        return errors(output, target).square()


class RMSE(MSE):
    """Root of the mean squared error; the root is taken after the mean, with derivative 0 where the mean is 0."""

    def finish(self, mean: Tensor) -> Tensor:
        """The root of the mean."""
        return root(mean)


class MAE(Loss):
    """Absolute error, |e|; the derivative at 0 is 0. The best forecast is the median."""

    @property
    def shows(self) -> Point:
        """The median."""
        return "median"

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced absolute errors."""
        return errors(output, target).abs()


class Huber(Loss):
    """½e² where |e| ≤ delta, delta·(|e| - ½delta) beyond: squared near 0, absolute for outliers."""

    delta: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Where the loss turns from squared to absolute, in scaled units."""

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced Huber losses."""
        return huber(errors(output, target), self.delta)


class Tukey(Loss):
    """Tukey's biweight, c²/6·(1 - (1 - (e/c)²)³) within c, the constant c²/6 beyond: outliers have no gradient."""

    c: float = Field(default=4.685, gt=0, allow_inf_nan=False)
    """Errors beyond this, in scaled units, are treated as outliers; 4.685 is 95 % efficient for normal errors."""

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced biweight losses."""
        share = (errors(output, target) / self.c).clamp(-1.0, 1.0)
        return (self.c**2 / 6) * (1 - (1 - share.square()) ** 3)


class LogCosh(Loss):
    """log(cosh(e)): like ½e² near 0 and |e| - log 2 far out, smooth everywhere."""

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced values, computed as e + softplus(-2e) - log 2, which does not overflow."""
        error = errors(output, target)
        return error + F.softplus(-2 * error) - math.log(2)


class MAPE(Loss):
    """Absolute percentage error, 100·|e| / |y|, in percent.

    A target of 0 has no percentage, so it does not enter the mean. The metric mape is the same formula.
    """

    units: ClassVar[Literal["scaled", "original"]] = "original"
    size: ClassVar[float] = 100.0

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced errors in percent of the target; 0, with derivative 0, where that is 0."""
        return divide(100 * errors(output, target).abs(), target.abs())

    def counted(self, target: Tensor) -> Tensor:
        """True where the target is not 0."""
        return target != 0


class SMAPE(Loss):
    """Symmetric percentage error, 200·|e| / (|y| + |f|), in percent, from 0 to 200; 0 where target and forecast are 0.

    The metric smape is the same formula.
    """

    units: ClassVar[Literal["scaled", "original"]] = "original"
    size: ClassVar[float] = 100.0

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced errors in percent of the mean of target and forecast."""
        error = errors(output, target).abs()
        return divide(200 * error, output[..., 0].abs() + target.abs())


class MASE(Loss):
    """Absolute error divided by the mean seasonal naive error of the lookback window (Hyndman & Koehler 2006).

    If the lookback repeats its season exactly, the naive error is 0. Then the divisor is the mean absolute value of the
    lookback, or 1 if that is 0 too.
    """

    units: ClassVar[Literal["scaled", "original"]] = "original"

    seasonality: int = Field(default=1, ge=1)
    """Length of a season in steps: the naive forecast is the value this many steps before."""

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced scaled errors; `context.y` gives the lookback."""
        return errors(output, target).abs() / self._naive_error(_window(self, context))

    def _naive_error(self, window: Batch) -> Tensor:
        y, season = window.y, self.seasonality
        if y.shape[1] <= season:
            raise ConfigError(
                f"MASE needs a lookback longer than its seasonality, but got input_size={y.shape[1]} and "
                f"{season=}. Use a longer input_size or a shorter seasonality"
            )
        seen = torch.ones_like(y, dtype=torch.bool) if window.mask is None else window.mask
        naive = _mean((y[:, season:] - y[:, :-season]).abs(), seen[:, season:] & seen[:, :-season])
        level = _mean(y.abs(), seen)
        return torch.where(naive > 0, naive, torch.where(level > 0, level, 1.0))


class RelativeMSE(Loss):
    """Squared error divided by the mean squared error of the naive forecast in the same window.

    The naive forecast repeats the last observed value. If it is perfect, the divisor is the mean square of the target,
    or 1 if that is 0 too.
    """

    units: ClassVar[Literal["scaled", "original"]] = "original"

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced relative squared errors; `context` gives the lookback and the target's mask."""
        window = _window(self, context)
        counts = torch.ones_like(target, dtype=torch.bool) if window.target_mask is None else window.target_mask
        naive = _mean((target - _last_observed(window)).square(), counts)
        level = _mean(target.square(), counts)
        divisor = torch.where(naive > 0, naive, torch.where(level > 0, level, 1.0))
        return errors(output, target).square() / divisor


class FreDF(Loss):
    """Frequency-domain loss (Wang et al. 2025): alpha·mean|rfft(e)| + (1 - alpha)·e², the transform along the horizon.

    The first part is one number per window and channel, repeated at each horizon step, so that the mean over all values
    is the paper's loss. If `context` has a mask, masked errors enter the transform as 0.
    """

    alpha: float = Field(default=0.5, ge=0, le=1)
    """Share of the frequency part; 0 is MSE."""

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced mixed losses; targets are [B, H, ...]."""
        error = errors(output, target)
        if error.ndim < 2:
            raise ConfigError(f"FreDF needs targets [B, H, ...] with a horizon, but got shape {tuple(target.shape)}")
        counted = error
        if context is not None and context.target_mask is not None:
            counted = torch.where(context.target_mask, error, 0.0)
        wide = counted if counted.dtype in (torch.float32, torch.float64) else counted.float()
        frequencies: Tensor = torch.fft.rfft(wide, dim=1).abs().mean(dim=1, keepdim=True)
        return self.alpha * frequencies.to(error.dtype) + (1 - self.alpha) * error.square()


def _window(loss: Loss, context: Batch | None) -> Batch:
    if context is None:
        raise ConfigError(f"{loss.kind} needs a lookback window, so it is for forecasting only. Use MAE or MSE")
    return context


def _mean(values: Tensor, counts: Tensor) -> Tensor:
    """Masked mean along the steps, [B, T, C] → [B, 1, C]; 0 where every step is masked."""
    total = torch.where(counts, values, 0.0).sum(dim=1, keepdim=True)
    return total / counts.sum(dim=1, keepdim=True).clamp(min=1)


def _last_observed(window: Batch) -> Tensor:
    """[B, 1, C] the newest observed value of each lookback; 0 where there is none."""
    if window.mask is None:
        return window.y[:, -1:]
    steps = torch.arange(window.y.shape[1], device=window.y.device)[None, :, None]
    newest = torch.where(window.mask, steps, 0).amax(dim=1, keepdim=True)
    return torch.gather(window.y, 1, newest)
