"""Files that are not what their names say: plain files in the way, links, pipes, and directories that change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.errors import NeuroDivergentError, StorageError
from neuro_divergent.data.store.files import HEADER
from neuro_divergent.data.store.store import SeriesStore

FORMAT_1 = Path(__file__).parent / "fixtures"
SECONDS = 5


class StillWaitingError(BaseException):
    """No reader catches this one."""


@contextmanager
def limited() -> Iterator[None]:
    """A reader that waits for ever is interrupted."""

    def expire(number: int, frame: object) -> None:
        raise StillWaitingError

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@pytest.fixture
def table() -> nd.TimeSeriesDataFrame:
    frame = pl.DataFrame({"unique_id": ["a"] * 40, "ds": np.arange(40), "y": np.arange(40.0)})
    return nd.TimeSeriesDataFrame.from_frame(frame)


SAVERS: dict[str, Callable[[Path], object]] = {
    "model": lambda path: nd.load(FORMAT_1 / "model-format-1").save(path, overwrite=True),
    "models": lambda path: nd.load(FORMAT_1 / "many-format-1").save(path, overwrite=True),
}


@pytest.mark.parametrize("what", SAVERS)
def test_saving_never_turns_a_file_or_a_link_into_a_directory(what: str, tmp_path: Path) -> None:
    """The file of the user's stays what it is, whatever overwrite says."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"must be a directory or must not exist, but .*notes.txt is a file"):
        SAVERS[what](tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    (tmp_path / "elsewhere").mkdir()
    for name, target in (("link", "elsewhere"), ("broken", "nowhere"), ("to-file", "notes.txt")):
        (tmp_path / name).symlink_to(tmp_path / target)
        with pytest.raises(StorageError, match=f"but .*{name} is a link"):
            SAVERS[what](tmp_path / name)
        assert (tmp_path / name).is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["broken", "elsewhere", "link", "notes.txt", "to-file"]


def test_a_store_is_not_written_over_a_file(table: nd.TimeSeriesDataFrame, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"notes.txt is a file"):
        table.store.save(tmp_path / "notes.txt", overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


TRICKS = {"pipe": _pipe, "link": _link, "folder": _folder}


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("name", [HEADER, "y.npy", "offsets.npy"])
def test_a_store_of_a_stranger_is_read_from_plain_files_only(
    table: nd.TimeSeriesDataFrame, name: str, trick: str, tmp_path: Path
) -> None:
    table.store.save(tmp_path / "store")
    assert SeriesStore.open(tmp_path / "store").y.tolist() == list(range(40))  # the control
    TRICKS[trick](tmp_path / "store" / name)
    with limited(), pytest.raises(StorageError):
        SeriesStore.open(tmp_path / "store")


def test_a_link_to_a_store_is_not_followed(table: nd.TimeSeriesDataFrame, tmp_path: Path) -> None:
    table.store.save(tmp_path / "store")
    (tmp_path / "link").symlink_to(tmp_path / "store")
    with pytest.raises(StorageError, match="must be the directory of a saved store"):
        SeriesStore.open(tmp_path / "link")


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("name", ["config.json", "events.jsonl", "lock", "attempts/heartbeat"])
def test_a_run_of_a_stranger_is_read_from_plain_files_only(name: str, trick: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "attempts").mkdir(parents=True)
    for file in ("config.json", "events.jsonl", "lock", "attempts/heartbeat"):
        (run / file).write_text("{}")
    (run / "checkpoints").mkdir()
    TRICKS[trick](run / name)
    (tmp_path / "elsewhere").write_text('{"secret": 1}')
    with limited():
        record = nd.read_run(run)
        assert record.process.running is not True
        try:
            assert "secret" not in repr((record.config, record.epochs, record.log.events))
        except NeuroDivergentError:
            assert name in ("config.json", "events.jsonl")


@pytest.mark.parametrize("name", ["events.jsonl", "lock", "attempts/heartbeat", "config.json"])
def test_a_training_in_a_run_of_a_stranger_writes_through_no_link(name: str, tmp_path: Path) -> None:
    """Whoever resumes a run from somewhere else must not write to a file that a link in it names."""
    victim, run = tmp_path / "mine.txt", tmp_path / "run"
    victim.write_text("mine")
    (run / name).parent.mkdir(parents=True)
    (run / name).symlink_to(victim)
    x = np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
    config = nd.TrainingConfig(max_steps=2, validation_split=None, checkpoints=nd.Checkpoints(run), progress=False)
    with suppress(NeuroDivergentError):
        nd.Trainer(config).fit(torch.nn.Linear(1, 1), (x, x))
    assert victim.read_text() == "mine"


def test_a_reader_during_an_overwrite_sees_one_of_the_models(tmp_path: Path) -> None:
    """A process saves the same models again and again; whoever loads meanwhile always gets them."""
    sources = {tmp_path / "one": FORMAT_1 / "model-format-1", tmp_path / "many": FORMAT_1 / "many-format-1"}
    for path, source in sources.items():
        nd.load(source).save(path)
    code = textwrap.dedent(f"""
        import os
        import neuro_divergent as nd
        os.fsync = lambda descriptor: None  # a disk that is as fast as can be
        fitted = {{path: nd.load(source) for path, source in {[(str(a), str(b)) for a, b in sources.items()]}}}
        print("ready", flush=True)
        for _ in range(100_000):
            for path, models in fitted.items():
                models.save(path, overwrite=True)
    """)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            for path in [*sources] * 6:
                assert nd.load(path) is not None
                for _ in range(25):  # files only: more of them meet the moment of the change
                    assert nd.read_run(path).models[0].verify()
            assert writer.poll() is None
        finally:
            writer.kill()


def test_what_is_really_damaged_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "model"
    nd.load(FORMAT_1 / "model-format-1").save(path)
    data = (path / "weights.safetensors").read_bytes()
    (path / "weights.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(StorageError, match="is damaged"):
        nd.load(path)
