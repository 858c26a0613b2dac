"""Metrics: pure functions of numpy arrays, torch tensors or lists, computed in float64.

Subclass `Metric` to define your own metric, for training and evaluation.
"""

from typing import TYPE_CHECKING, Any

from neuro_divergent.metrics.by_name import METRICS, POINT_METRICS
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
from neuro_divergent.metrics.scaled import mase, naive_scale, owa, rmsse

if TYPE_CHECKING:
    from neuro_divergent.metrics.base import Metric as Metric
    from neuro_divergent.metrics.training import TrainingMetric as TrainingMetric
    from neuro_divergent.metrics.training import training_metric as training_metric


def __getattr__(name: str) -> Any:
    # Only training metrics need torch: a table is evaluated without importing it.
    if name in ("TrainingMetric", "training_metric"):
        from neuro_divergent.metrics import training

        return getattr(training, name)
    if name == "Metric":
        from neuro_divergent.metrics.base import Metric

        return Metric
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "METRICS",
    "POINT_METRICS",
    "Metric",
    "TrainingMetric",
    "accuracy",
    "bias",
    "bias_percent",
    "coverage",
    "crps_quantiles",
    "directional_accuracy",
    "interval_score",
    "mae",
    "mape",
    "mase",
    "mse",
    "naive_scale",
    "owa",
    "pinball",
    "r2",
    "rmse",
    "rmsse",
    "scaled_crps",
    "smape",
    "training_metric",
]
