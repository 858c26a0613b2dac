"""The models, which neuralforecast's `auto` also has. The `Auto*` classes come with the search room."""

from __future__ import annotations

from typing import Any

from neuro_divergent.compat.neuralforecast import models
from neuro_divergent.core.errors import ConfigError


def __getattr__(name: str) -> Any:
    if name in models.__all__:
        return getattr(models, name)
    if name.startswith("__"):
        raise AttributeError(name)
    raise ConfigError(
        f"{name} searches for hyperparameters, which comes with the search room in the next stage. "
        "Until then describe the models to compare, and use cross_validation"
    )
