"""Crashes, kills and damage: whatever happens while a checkpoint is written, the last good one loads."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fault_tools import FAST, record, share_of, worker
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.errors import StorageError
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints
from neuro_divergent.training.runs.snapshot import read


def test_every_operation_of_a_save_may_be_the_last_one() -> None:
    """Crash before it, in the middle of it, with what was not flushed lost, or with ENOSPC or EIO: 100 % load."""
    found = worker("crash")
    record("crash points survived", found["tried"] - len(found["bad"]), found["tried"])
    assert found["bad"] == []
    assert found["tried"] >= 200


def test_twenty_kills_leave_no_trace_in_the_result() -> None:
    found = worker("kill", "20", "1")
    assert found["bad"] == [], found["stderr"]
    assert found["survived"] == found["tried"] == 20


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(2, 12))
def test_a_thousand_kills_leave_no_trace_in_the_result(seed: int) -> None:
    kills = share_of(100)
    found = worker("kill", str(kills), str(seed), timeout=7200)
    record("kills survived", found["survived"], found["tried"])
    assert found["bad"] == [], found["stderr"]
    assert found["survived"] == found["tried"] == kills


@pytest.fixture
def small_checkpoint() -> Iterator[Path]:
    """A checkpoint of a module with two parameters."""
    x = np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        checkpoints = nd.Checkpoints(folder)
        config = nd.TrainingConfig(max_steps=2, validation_split=None, checkpoints=checkpoints, progress=False)
        nd.Trainer(config).fit(nn.Linear(1, 1), (x, x))
        yield Path(folder) / "checkpoints" / "step-00000002"


def loads(path: Path) -> bool:
    """Whether a checkpoint is taken for good; an error that is not ours is raised."""
    try:
        read(LocalCheckpoints(path.parent.parent).read(path.name), str(path))
    except StorageError:
        return False
    return True


def truncations(path: Path) -> Iterator[None]:
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for length in range(len(whole)):
            file.write_bytes(whole[:length])
            yield
        file.write_bytes(whole)


def flips(path: Path, count: int, seed: int = 0) -> Iterator[None]:
    chance = random.Random(seed)
    contents = {file: file.read_bytes() for file in sorted(path.iterdir())}
    for _ in range(count):
        file = chance.choices(list(contents), [len(data) for data in contents.values()])[0]
        damaged = bytearray(contents[file])
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        file.write_bytes(damaged)
        yield
        file.write_bytes(contents[file])


def test_no_truncated_checkpoint_is_loaded(small_checkpoint: Path) -> None:
    assert loads(small_checkpoint)
    outcomes = [loads(small_checkpoint) for _ in truncations(small_checkpoint)]
    record("truncations refused", outcomes.count(False), len(outcomes))
    assert len(outcomes) > 2000
    assert not any(outcomes)


def test_no_flipped_bit_is_loaded(small_checkpoint: Path) -> None:
    assert not any(loads(small_checkpoint) for _ in flips(small_checkpoint, 1000))
    assert loads(small_checkpoint)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(1, 5))
def test_none_of_ten_thousand_flipped_bits_is_loaded(small_checkpoint: Path, seed: int) -> None:
    outcomes = [loads(small_checkpoint) for _ in flips(small_checkpoint, share_of(2500), seed)]
    record("bit flips refused", outcomes.count(False), len(outcomes))
    assert not any(outcomes)
