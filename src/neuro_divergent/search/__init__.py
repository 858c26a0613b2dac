"""Hyperparameter search: the space, the searches and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuro_divergent.search.ray_tune import ray_trainable as ray_trainable

__all__ = ["ray_trainable"]


def __getattr__(name: str) -> Any:
    """`ray_trainable`, imported when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from neuro_divergent.search.ray_tune import ray_trainable

    return ray_trainable
