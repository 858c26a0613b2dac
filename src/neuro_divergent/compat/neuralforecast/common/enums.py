"""Names as text enums."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class TimeSeriesDatasetEnum(StrEnum):
    """Default names of the columns of a table."""

    Datetime = "ds"
    UniqueId = "unique_id"
    Target = "y"


class ExplainerEnum(StrEnum):
    """Explainers of `NeuralForecast.explain`."""

    IntegratedGradients = "IntegratedGradients"
    ShapleyValueSampling = "ShapleyValueSampling"
    InputXGradient = "InputXGradient"

    AllExplainers: Any
    AdditiveExplainers: Any


ExplainerEnum.AdditiveExplainers = ["IntegratedGradients", "ShapleyValueSampling"]
ExplainerEnum.AllExplainers = ["IntegratedGradients", "ShapleyValueSampling", "InputXGradient"]
