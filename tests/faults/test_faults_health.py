"""A watched training is hung when it is slower than it ever was, not when it is slow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from neuro_divergent.core.errors import TrainingError
from neuro_divergent.training.config.checkpoints import FaultTolerance
from neuro_divergent.training.process.supervisor import supervise

SCRIPT = """
import sys, time
import torch
from torch import nn
import neuro_divergent as nd

class Slow(nn.Linear):
    calls = 0
    def forward(self, x):
        Slow.calls += 1
        time.sleep(600 if Slow.calls == int(sys.argv[2]) else float(sys.argv[1]))
        return super().forward(x)

x = torch.linspace(-1, 1, 4)[:, None]
config = nd.TrainingConfig(max_epochs=None, max_steps=3, batch_size=4, validation_split=None, progress=False)
nd.Trainer(config).fit(Slow(1, 1), (x, x))
"""


def watch(tmp_path: Path, seconds: float, hang_at: int) -> list[str]:
    command = [sys.executable, "-c", SCRIPT, str(seconds), str(hang_at)]
    return supervise(command, FaultTolerance(retries=0, health_check_interval=0.2), tmp_path)


def test_steps_slower_than_the_interval_are_no_hang(tmp_path: Path) -> None:
    assert watch(tmp_path, 0.4, hang_at=0) == []


def test_a_step_that_never_ends_is_a_hang(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"attempt 1: no sign of life for [\d.]+ s at step \d"):
        watch(tmp_path, 0.01, hang_at=3)
