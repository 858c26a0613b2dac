"""Settings that act on the weights and the activations of the network."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from neuro_divergent.core.config import Description


class Regularization(Description):
    """Penalties on the weights, added to the loss once per optimizer step (not on biases and norms)."""

    l1: Annotated[float, Field(ge=0.0)] = 0.0
    """Factor of the sum of absolute weights."""
    l2: Annotated[float, Field(ge=0.0)] = 0.0
    """Factor of the sum of squared weights."""


class ActivationCheckpointing(Description):
    """Recompute activations in the backward pass instead of storing them: less memory for more time."""

    every: Annotated[int, Field(ge=1)] = 1
    """How many blocks share one stored activation. Blocks are, in a Sequential, the layers between two layers with
    weights; in a ModuleList, its members, every n-th of which recomputes."""
