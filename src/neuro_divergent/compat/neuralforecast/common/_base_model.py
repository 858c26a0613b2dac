"""The place of neuralforecast's base classes; of them only what scripts hand over is here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["DistributedConfig"]


@dataclass
class DistributedConfig:
    """Where several machines would train; `fit` refuses it, for a training runs in one process."""

    partitions_path: str
    num_nodes: int
    devices: int


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(
        f"{name} is a base class for plugins of neuralforecast, which are out of scope here: write a model of your own "
        "as a subclass of neuro_divergent.Model (docs/plugins.md)"
    )
