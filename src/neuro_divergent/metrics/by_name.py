"""The figures by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from neuro_divergent.metrics.point import (
    accuracy,
    bias,
    bias_percent,
    directional_accuracy,
    mae,
    mape,
    mse,
    r2,
    rmse,
    smape,
)
from neuro_divergent.metrics.probabilistic import coverage, crps_quantiles, interval_score, pinball, scaled_crps
from neuro_divergent.metrics.scaled import mase, owa, rmsse

METRICS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            accuracy,
            bias,
            bias_percent,
            coverage,
            crps_quantiles,
            directional_accuracy,
            interval_score,
            mae,
            mape,
            mase,
            mse,
            owa,
            pinball,
            r2,
            rmse,
            rmsse,
            scaled_crps,
            smape,
        )
    }
)
"""Every figure by name."""

POINT_METRICS: tuple[str, ...] = (
    *("mae", "mse", "rmse", "mape", "smape", "r2", "bias", "bias_percent", "directional_accuracy"),
)
"""The figures that need nothing but the actual values and a point forecast."""

POINT: tuple[str, ...] = (
    *("mae", "mse", "rmse", "mape", "smape", "mase", "rmsse", "owa", "r2"),
    *("bias", "bias_percent", "directional_accuracy"),
)
PROBABILISTIC: tuple[str, ...] = ("pinball", "scaled_crps", "coverage", "interval_score")
"""The figures of an evaluation: of point forecasts, and of quantiles or intervals."""
