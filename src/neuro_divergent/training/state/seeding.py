"""The random numbers of a network during training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from neuro_divergent.core import seeding

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState


def seed_network(state: TrainState) -> None:
    """Seed torch's global generator from the step, so that dropout does not depend on earlier random numbers."""
    drawn = seeding.key(state.config.seed, "network", state.step) >> 1
    torch.default_generator.manual_seed(drawn)
    if state.precision.device.type == "cuda":
        torch.cuda.manual_seed(drawn)
    elif state.precision.device.type == "mps":
        torch.mps.manual_seed(drawn)
