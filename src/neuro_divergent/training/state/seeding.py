"""The random numbers that a network draws while it is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from neuro_divergent.core import seeding

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState


def seed_network(state: TrainState) -> None:
    """Key what the network draws (dropout) by the step, not by what was drawn before it."""
    drawn = seeding.key(state.config.seed, "network", state.step) >> 1
    torch.default_generator.manual_seed(drawn)
    if state.precision.device.type == "cuda":
        torch.cuda.manual_seed(drawn)
    elif state.precision.device.type == "mps":
        torch.mps.manual_seed(drawn)
