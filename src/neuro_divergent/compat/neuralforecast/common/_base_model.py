"""Stands in for neuralforecast's base classes; only what scripts pass as arguments is here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["DistributedConfig"]


@dataclass
class DistributedConfig:
    """Settings of a training on several machines. `fit` refuses it: a training runs in one process."""

    partitions_path: str
    num_nodes: int
    devices: int


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(
        f"{name} is a base class for plugins of neuralforecast, which are not supported here. Write your own model "
        "as a subclass of neuro_divergent.Model (docs/plugins.md)"
    )
