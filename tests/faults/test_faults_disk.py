"""A full disk: the previous checkpoint stays, nothing is left over, the error is named, training may go on."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fault_runs import fingerprint
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.errors import StorageError
from neuro_divergent.training.process.supervisor import supervise
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints
from neuro_divergent.training.runs.resume import newest

SIZE = 2**20
DATA = (np.linspace(0, 1, 200, dtype=np.float32).reshape(20, 10), np.ones((20, 1), dtype=np.float32))


class Disk:
    """A real small file system where that is permitted, otherwise a limit on the size of files."""

    def __init__(self, path: Path, size: str = SIZE) -> None:
        self.path = path
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
        self.mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
        self._limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, self._limit[1]))
            return
        with open(self.path / "filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def empty(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limit)
        (self.path / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        self.empty()
        if self.mounted:
            subprocess.run(["umount", str(self.path)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    path = tmp_path / "disk"
    path.mkdir()
    small = Disk(path)
    yield small
    small.close()


class FillAt(nd.Callback):
    def __init__(self, disk: Disk, step: int) -> None:
        self.disk, self.step = disk, step

    def on_batch_end(self, state: Any) -> None:
        if state.step == self.step:
            state.saver.join()  # what was begun before may still be written
            self.disk.fill()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 500), nn.ReLU(), nn.Linear(500, 1))


def config(run: Path, *callbacks: nd.Callback, **fields: Any) -> nd.TrainingConfig:
    checkpoints = nd.Checkpoints(run, every_n_epochs=1, keep_last=2, **fields)
    return nd.TrainingConfig(max_epochs=6, batch_size=4, checkpoints=checkpoints, callbacks=callbacks, progress=False)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_full_disk_is_an_error_and_not_a_loss(disk: Disk, asynchronous: bool) -> None:
    run = disk.path / "run"
    whole, module = network(), network()
    expected = nd.Trainer(config(run).replace(checkpoints=None)).fit(whole, DATA)
    with pytest.raises(StorageError, match=r"step-000000\d\d could not be written: (No space left|File too large)"):
        nd.Trainer(config(run, FillAt(disk, 9), asynchronous=asynchronous)).fit(network(), DATA)
    disk.empty()
    found, damaged = newest(LocalCheckpoints(run))
    assert damaged == []
    assert found is not None
    assert found.step == 8
    assert [path.name for path in run.rglob(".nd-*")] == []
    history = nd.Trainer(config(run)).fit(module, DATA, resume="auto")
    assert fingerprint(module, history) == fingerprint(whole, expected)


def test_training_goes_on_without_saving_if_so_configured(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    run = disk.path / "run"
    history = nd.Trainer(config(run, FillAt(disk, 9), on_failure="continue")).fit(network(), DATA)
    disk.empty()
    assert len(history) == 6
    failed = [event for event in history.events if event.get("event") == "checkpoint_failed"]
    assert failed[0]["why"].startswith(str(run / "checkpoints" / "step-00000012"))
    assert "the training continues" in caplog.text
    assert newest(LocalCheckpoints(run))[0] is not None


class LyingDisk(nd.Callback):
    """From a step on, every write stores one wrong bit and says that all went well."""

    def __init__(self, step: int, patch: pytest.MonkeyPatch) -> None:
        self.step, self.patch = step, patch

    def on_batch_end(self, state: Any) -> None:
        if state.step == self.step:
            state.saver.join()
            write = os.write

            def wrong(descriptor: int, data: Any) -> int:
                changed = bytearray(data)
                changed[len(changed) // 2] ^= 1
                return write(descriptor, changed)

            self.patch.setattr(os, "write", wrong)


def test_nothing_is_removed_for_a_checkpoint_that_is_not_read_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match="must be read as it was written, but differs"):
        nd.Trainer(config(tmp_path, LyingDisk(9, monkeypatch), on_stop=False)).fit(network(), DATA)
    monkeypatch.undo()
    assert LocalCheckpoints(tmp_path).names() == ["step-00000004", "step-00000008"]
    found, damaged = newest(LocalCheckpoints(tmp_path))
    assert found is not None
    assert (found.step, damaged) == (8, [])
    assert [path.name for path in tmp_path.rglob(".nd-*")] == []


def test_a_watched_training_says_that_its_heartbeat_could_not_be_written(disk: Disk) -> None:
    if not disk.mounted:
        pytest.skip(
            "a heartbeat of a few bytes fails only on a file system that is full, which may not be mounted here"
        )
    disk.fill()
    with pytest.raises(StorageError, match="heartbeat could not be written: No space left on device"):
        supervise(["true"], nd.FaultTolerance(retries=0), disk.path)
