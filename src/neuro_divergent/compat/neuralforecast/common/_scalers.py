"""Window scaling as a module on tensors [batch, time, channels], with our window scalers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.scaling.per_window import Statistics, window_scaler


def masked_mean(x: Tensor, mask: Tensor, dim: int = -1, keepdim: bool = True) -> Tensor:
    """The mean of the observed values; 0 if there are none."""
    observed = mask.to(x.dtype)
    return (x * observed).sum(dim, keepdim=keepdim) / observed.sum(dim, keepdim=keepdim).clamp(min=1)


def masked_median(x: Tensor, mask: Tensor, dim: int = -1, keepdim: bool = True) -> Tensor:
    """The lower median of the observed values; 0 if there are none."""
    seen = torch.where(mask.bool().expand_as(x), x, torch.nan)
    return seen.nanmedian(dim=dim, keepdim=keepdim).values.nan_to_num(0.0)


class TemporalNorm(nn.Module):
    """A window scaler that stores its statistics for `inverse_transform`.

    Args:
        scaler_type: identity, standard, robust, minmax, minmax1, invariant or revin; None is identity.
        dim: the dimension of time: 1, or -1 for channels before time.
        eps: accepted, but has no effect: constant windows are scaled by 1.
        num_features: channels with learnable weights of their own, for revin.
    """

    x_shift: Tensor
    x_scale: Tensor

    def __init__(
        self, scaler_type: str | None = "robust", dim: int = -1, eps: float = 1e-6, num_features: int | None = None
    ) -> None:
        super().__init__()
        if scaler_type == "revin" and num_features is None:
            raise ConfigError("revin has weights for each channel, so it needs num_features, but got none")
        self.scaler_type, self.dim, self.eps = scaler_type, dim, eps
        self.scaler = window_scaler(scaler_type or "identity", num_features or 1)

    def transform(self, x: Tensor, mask: Tensor) -> Tensor:
        """The scaled tensor. Location and scale are stored as x_shift and x_scale."""
        stats = self.scaler.statistics(self._time_first(x), self._time_first(mask.bool().expand_as(x)))
        self.x_shift, self.x_scale = self._time_first(stats.location), self._time_first(stats.scale)
        return self._time_first(self.scaler.transform(self._time_first(x), stats))

    def inverse_transform(self, z: Tensor, x_shift: Tensor | None = None, x_scale: Tensor | None = None) -> Tensor:
        """The tensor in original units, by the stored statistics or by a given location and scale."""
        shift = self.x_shift if x_shift is None else x_shift
        scale = self.x_scale if x_scale is None else x_scale
        stats = Statistics(self._time_first(shift), self._time_first(scale))
        return self._time_first(self.scaler.inverse(self._time_first(z), stats))

    def forward(self, x: Tensor) -> Tensor:
        """`transform` of a tensor that was observed everywhere."""
        return self.transform(x, torch.ones_like(x))

    def _time_first(self, x: Tensor) -> Tensor:
        """The tensor with time as the second axis, as our scalers need it. The function is its own inverse."""
        return x.transpose(1, -1) if self.dim == -1 else x
