"""Scaling: per window inside the network's module (torch), and per series before the windows are cut (numpy).

A window scaler sees one window and nothing else, so its statistics are of the past by construction. A series scaler
(per_series.py, offered here too) is fitted on the training rows and then frozen. Both use observed values only,
give back what they were given (`inverse` of `transform`), and stay finite for constant, empty and extreme series.

Letters: B windows, L lookback, T steps, C channels, Q outputs.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from pydantic import BeforeValidator
from torch import Tensor, nn

from neuro_divergent.core import registry
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.scaling.per_series import (
    MAD_OF_STANDARD,
    NOISE_ULPS,
    SERIES_SCALERS,
    SeriesScaler,
    register_scaler,
    series_scaler,
)

__all__ = [
    "SERIES_SCALERS",
    "WINDOW_SCALERS",
    "SeriesScaler",
    "Statistics",
    "WindowScaler",
    "WindowScalerName",
    "series_scaler",
    "trailing",
    "window_scaler",
    "window_size",
]

WINDOW_SCALERS = ("identity", "standard", "robust", "minmax", "minmax1", "invariant", "revin")
"""The library's own names; `window_scaler` also knows registered classes."""

_SINH_LIMIT = 88.0  # sinh overflows float32 just above


class Statistics(NamedTuple):
    """What a window scaler measured: original = standardised * scale + location."""

    location: Tensor
    """[B, 1, C]"""
    scale: Tensor
    """[B, 1, C], always positive and finite."""
    size: Tensor | None = None
    """[B, 1, C] of windows that are not scaled: `window_size`, where a loss asks for it."""


def trailing(statistic: Tensor, values: Tensor) -> Tensor:
    """A statistic [B, 1, C] with as many trailing ones as `values` [B, T, C, ...] has further dimensions."""
    further = values.dim() - statistic.dim()
    return statistic.reshape(*statistic.shape, *(1 for _ in range(further))) if further else statistic


def _known(item: Any) -> str | WindowScaler:
    """The name of a window scaler as files spell it, or an object; an unknown name is answered with the closest."""
    if isinstance(item, WindowScaler) or (isinstance(item, str) and item in _WINDOW):
        return item
    if isinstance(item, type) and issubclass(item, WindowScaler):
        return str(item.kind)
    if not isinstance(item, str):
        raise ConfigError(f"scaler must be a name, a WindowScaler or a subclass of it, but got scaler={item!r}")
    return str(_window_class(item).kind)


def _window_class(name: str) -> type[WindowScaler]:
    cls: type[WindowScaler] | None = _WINDOW.get(name) or registry.find(WindowScaler.family, name)
    if cls is None:
        raise registry.unknown(WindowScaler.family, name, WINDOW_SCALERS)
    return cls


def window_scaler(item: str | WindowScaler, channels: int = 1) -> WindowScaler:
    """A new window scaler of that name, or a copy of an object.

    Args:
        item: one of `WINDOW_SCALERS`, a registered subclass of `WindowScaler`, or an object.
        channels: how many channels have learnable weights of their own (revin only); 1 shares them among all.
    """
    if isinstance(item, WindowScaler):
        return deepcopy(item)
    cls = _window_class(item)
    if channels < 1:
        raise ConfigError(f"channels must be at least 1, but got channels={channels}")
    return cls(channels)


class WindowScaler(nn.Module):
    """Scales each window by its own statistics; also the identity, whose location is 0 and scale is 1.

    A subclass is known by its `kind`, or by the name of the class. It overrides `measure`, and `bend` and `unbend`
    (with affine = False) where values are bent after they were standardised. One that scales in another way overrides
    `transform`, `inverse` and `affine_map` together. By name it is made as `MyScaler(channels)`; one with further
    arguments is handed over as an object.
    """

    family: ClassVar[str] = "window scaler"
    kind: ClassVar[str]
    """How the scaler is called in files."""
    affine: ClassVar[bool] = True
    """Whether `affine_map` answers: the map back is one multiplication and one addition."""
    scales: ClassVar[bool] = True
    """Whether scaled windows are of about the same size, whatever the data's size is."""
    _strange: ClassVar[bool] = False
    """Whether what it measures is checked: the library's own have been."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" not in cls.__dict__:
            cls.kind = cls.__name__
        cls._strange = not cls.__name__.startswith("_")
        register_scaler(cls, WINDOW_SCALERS)

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        self.channels = channels

    def statistics(self, y: Tensor, mask: Tensor | None = None) -> Statistics:
        """Location and scale of `y` [B, L, C] where `mask` is true (everywhere if None), without gradient."""
        y = _at_least_float32(y.detach() if y.requires_grad else y)
        found = Statistics(*self.measure(y, mask))
        if self._strange:
            self._check(y, found)
        return found

    def transform(self, values: Tensor, stats: Statistics, mask: Tensor | None = None) -> Tensor:
        """Scaled `values` [B, T, C] (or [B, T, C, Q]); with a mask, unobserved positions become 0."""
        scaled = (values - trailing(stats.location, values)) / trailing(stats.scale, values)
        return _settle(self.bend(scaled), values, mask)

    def inverse(self, values: Tensor, stats: Statistics) -> Tensor:
        """Original units of scaled `values` [B, T, C] (or [B, T, C, Q])."""
        original = self.unbend(values) * trailing(stats.scale, values) + trailing(stats.location, values)
        return _as(values.dtype, original)

    def affine_map(self, stats: Statistics) -> tuple[Tensor, Tensor]:
        """(location, scale), each [B, 1, C], with original = scaled * scale + location."""
        return stats.location, stats.scale

    def forward(self, y: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Statistics]:
        """The scaled lookback and its statistics."""
        stats = self.statistics(y, mask)
        return self.transform(y, stats, mask), stats

    def measure(self, y: Tensor, mask: Tensor | None) -> Statistics | tuple[Tensor, Tensor]:  # noqa: ARG002
        """(location, scale) of each window, both [B, 1, C]; the scale is above 0. `mask` is true where y was seen."""
        location = y.new_zeros(y.shape[0], 1, y.shape[2])
        return location, torch.ones_like(location)

    def bend(self, scaled: Tensor) -> Tensor:
        """What follows the standardisation."""
        return scaled

    def unbend(self, scaled: Tensor) -> Tensor:
        """The inverse of `bend`."""
        return scaled

    def _check(self, y: Tensor, found: Statistics) -> None:
        wanted = (y.shape[0], 1, y.shape[2])
        for name, part in zip(("location", "scale"), found[:2], strict=True):
            if part.shape != wanted:
                raise ConfigError(
                    f"measure() gives a {name} of shape {wanted} for windows of shape {tuple(y.shape)}, but "
                    f"{self.kind} gave {tuple(part.shape)}"
                )
        if torch.compiler.is_compiling():
            return
        good = found.location.isfinite() & found.scale.isfinite() & (found.scale > 0)
        if not bool(good.all()):
            raise ConfigError(
                "measure() gives finite locations and scales above 0, also for constant and unobserved windows, but "
                f"{self.kind} gave the location {float(found.location[~good][0]):g} and the scale "
                f"{float(found.scale[~good][0]):g}"
            )


class _Identity(WindowScaler):
    """Leaves values as they are: no arithmetic at all."""

    scales: ClassVar[bool] = False

    def transform(self, values: Tensor, stats: Statistics, mask: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return _settle(values, values, mask)

    def inverse(self, values: Tensor, stats: Statistics) -> Tensor:  # noqa: ARG002
        return values


class _Standard(WindowScaler):
    """Mean and population standard deviation."""

    def measure(self, y: Tensor, mask: Tensor | None) -> Statistics:
        mean, deviation = _moments(y, mask)
        if _clear(mean, deviation):
            return Statistics(mean, deviation)
        return Statistics(mean, _positive(deviation, _peak(mean, deviation)))


class _Robust(WindowScaler):
    """Median and median absolute deviation; the scaled standard deviation where more than half the values agree."""

    def measure(self, y: Tensor, mask: Tensor | None) -> Statistics:
        mean, deviation = _moments(y, mask)
        peak, median = _peak(mean, deviation), _median(y, mask)
        spread = _median((y - median).abs(), mask)
        noise = _noise(peak)
        spread = torch.where(spread > noise, spread, deviation * MAD_OF_STANDARD)
        return Statistics(median, _positive(spread, peak))


class _MinMax(WindowScaler):
    """The smallest observed value becomes 0, the largest 1."""

    def measure(self, y: Tensor, mask: Tensor | None) -> Statistics:
        low, high = _extremes(y, mask)
        return Statistics(low, _positive(high - low, torch.maximum(low.abs(), high.abs())))


class _MinMax1(WindowScaler):
    """The smallest observed value becomes -1, the largest 1."""

    def measure(self, y: Tensor, mask: Tensor | None) -> Statistics:
        low, high = _extremes(y, mask)
        # Halving first: the sum of two float32 numbers near the limit is not a float32 number.
        half = high * 0.5 - low * 0.5
        return Statistics(low + half, _positive(half, torch.maximum(low.abs(), high.abs())))


class _Invariant(_Robust):
    """The inverse hyperbolic sine of the robustly scaled values: linear near the median, logarithmic far from it."""

    affine: ClassVar[bool] = False

    def affine_map(self, stats: Statistics) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        raise ConfigError(
            "the invariant scaler bends its values, so it has no location and scale. "
            "Use inverse(), or choose another scaler"
        )

    def bend(self, scaled: Tensor) -> Tensor:
        return torch.asinh(scaled)

    def unbend(self, scaled: Tensor) -> Tensor:
        return torch.sinh(scaled.clamp(-_SINH_LIMIT, _SINH_LIMIT))


class _RevIN(_Standard):
    """Reversible instance normalisation (Kim et al. 2022): standard, then a learnable affine map per channel.

    The weight is stored as its logarithm: it stays positive, so the way back always exists and quantiles keep their
    order, and weight decay pulls it to 1.
    """

    def __init__(self, channels: int = 1) -> None:
        super().__init__(channels)
        self.log_weight = nn.Parameter(torch.zeros(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def transform(self, values: Tensor, stats: Statistics, mask: Tensor | None = None) -> Tensor:
        scaled = (values - trailing(stats.location, values)) / trailing(stats.scale, values)
        weight, bias = self._weights(values)
        return _settle(scaled * weight + bias, values, mask)

    def inverse(self, values: Tensor, stats: Statistics) -> Tensor:
        weight, bias = self._weights(values)
        scaled = (values - bias) / weight
        return _as(values.dtype, scaled * trailing(stats.scale, values) + trailing(stats.location, values))

    def affine_map(self, stats: Statistics) -> tuple[Tensor, Tensor]:
        scale = stats.scale / self.log_weight.exp()
        return stats.location - self.bias * scale, scale

    def _weights(self, values: Tensor) -> tuple[Tensor, Tensor]:
        shape = (1, 1, self.channels)
        weight, bias = self.log_weight.exp().reshape(shape), self.bias.reshape(shape)
        return trailing(weight, values), trailing(bias, values)


_WINDOW: dict[str, type[WindowScaler]] = {
    "identity": _Identity,
    "standard": _Standard,
    "robust": _Robust,
    "minmax": _MinMax,
    "minmax1": _MinMax1,
    "invariant": _Invariant,
    "revin": _RevIN,
}

WindowScalerName = Annotated[str | WindowScaler, BeforeValidator(_known)]
"""A field that takes a window scaler: one of `WINDOW_SCALERS`, a registered subclass or its name, or an object of one.

A file keeps an object by reference: give it back with `nd.load(path, using={"MyScaler": MyScaler(...)})`."""


def window_size(y: Tensor, mask: Tensor | None = None) -> Tensor:
    """The root of the mean square of each window's observed steps, [B, 1, C]; 1 where that is 0."""
    mean, deviation = _moments(_at_least_float32(y.detach()), mask)
    return _positive(torch.hypot(mean, deviation), _peak(mean, deviation))


# What changes nothing is not called: for a single window, calls are most of the cost.


def _as(dtype: torch.dtype, values: Tensor) -> Tensor:
    return values if values.dtype == dtype else values.to(dtype)


def _at_least_float32(y: Tensor) -> Tensor:
    return y if y.dtype == torch.float32 else y.to(torch.promote_types(y.dtype, torch.float32))


def _settle(scaled: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    scaled = _as(values.dtype, scaled)
    return scaled if mask is None else torch.where(mask, scaled, 0.0)


def _noise(peak: Tensor) -> Tensor:
    return peak * (NOISE_ULPS * torch.finfo(peak.dtype).eps)


def _positive(scale: Tensor, peak: Tensor) -> Tensor:
    """The scale, or 1 where it is only rounding noise (more than 1 where rounding alone exceeds that)."""
    noise = _noise(peak)
    return torch.where(scale > noise, scale, noise.clamp_(min=1.0))


def _peak(mean: Tensor, deviation: Tensor) -> Tensor:
    """The magnitude of a window as a whole."""
    return mean.abs().add_(deviation)


def _clear(mean: Tensor, deviation: Tensor) -> bool:
    """Whether a single window, scaled for a forecast, varies by far more than rounding noise.

    Then `_positive` changes nothing, and asking costs a third of what its operations do.
    """
    if deviation.numel() != 1 or not torch.is_inference_mode_enabled() or torch.compiler.is_compiling():
        return False
    spread = deviation.item()
    return bool(spread > 2 * (abs(mean.item()) + spread) * NOISE_ULPS * torch.finfo(deviation.dtype).eps)


def _moments(y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and population standard deviation of the observed steps, each [B, 1, C]."""
    # The squares of 1e30 and of 1e-30 are outside of float32, but not of float64. A norm would be one operation less,
    # but its rounding depends on how many windows stand beside each other.
    if mask is None:
        # The sum divided is the very mean, at half the cost of asking for it.
        steps = y.shape[1]
        mean = y.sum(1, keepdim=True).div_(steps)
        share = (y - mean).double().square_().sum(1, keepdim=True).div_(steps)
    else:
        count = mask.sum(1, keepdim=True).clamp(min=1)
        mean = torch.where(mask, y, 0.0).sum(1, keepdim=True) / count
        share = torch.where(mask, y - mean, 0.0).double().square_().sum(1, keepdim=True) / count
    deviation = _as(y.dtype, share.sqrt_())
    return mean, deviation


def _median(y: Tensor, mask: Tensor | None) -> Tensor:
    """The lower median over the observed steps, [B, 1, C]; 0 where nothing was observed."""
    if torch.compiler.is_exporting():
        return _median_by_sorting(y, mask)
    if mask is None:
        return y.median(1, keepdim=True).values
    return torch.where(mask, y, torch.nan).nanmedian(1, keepdim=True).values.nan_to_num(0.0)


def _median_by_sorting(y: Tensor, mask: Tensor | None) -> Tensor:
    """The same element in operations that exporters know."""
    if mask is None:
        return y.sort(1).values[:, (y.shape[1] - 1) // 2].unsqueeze(1)
    count = mask.sum(1, keepdim=True)
    ordered = torch.where(mask, y, torch.inf).sort(1).values
    middle = ordered.gather(1, ((count - 1) // 2).clamp(min=0))
    return torch.where(count > 0, middle, 0.0)


def _extremes(y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Smallest and largest observed value, each [B, 1, C]; 0 where nothing was observed."""
    if mask is None:
        return y.amin(1, keepdim=True), y.amax(1, keepdim=True)
    low = torch.where(mask, y, torch.inf).amin(1, keepdim=True)
    high = torch.where(mask, y, -torch.inf).amax(1, keepdim=True)
    observed = mask.any(1, keepdim=True)
    return torch.where(observed, low, 0.0), torch.where(observed, high, 0.0)
