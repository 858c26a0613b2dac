"""Checkpoints: when they are written, what is kept, what is in them, where they may be."""

from __future__ import annotations

import json
import math
import shutil
import threading
from pathlib import Path
from typing import Any, ClassVar, Literal

import fsspec
import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from torch import nn

from neuro_divergent.core.errors import ConfigError, NoCheckpointError, StorageError
from neuro_divergent.core.files import whole
from neuro_divergent.core.json import MAX_JSON_BYTES, MAX_JSON_DEPTH, from_plain, to_plain
from neuro_divergent.training import Callback, EarlyStopping, Trainer, TrainingConfig
from neuro_divergent.training.callbacks.base import CallbackList
from neuro_divergent.training.config.checkpoints import Checkpoints
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints, place_of
from neuro_divergent.training.runs.resume import differences, newest
from neuro_divergent.training.runs.retention import Kept, superfluous
from neuro_divergent.training.runs.snapshot import Snapshot, SnapshotBuffer, read, take

X = np.linspace(-1, 1, 40, dtype=np.float32).reshape(20, 2)
DATA = (X, X.sum(axis=1, keepdims=True))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(2, 1)


def fit(checkpoints: Checkpoints, *callbacks: Callback, **fields: Any) -> Any:
    base: dict[str, Any] = {"max_epochs": 6, "batch_size": 4, "progress": False}
    config = TrainingConfig(checkpoints=checkpoints, callbacks=callbacks, **base | fields)
    return Trainer(config).fit(network(), DATA)


def steps(directory: Path) -> list[int]:
    return [int(name.removeprefix("step-")) for name in LocalCheckpoints(directory).names()]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"every_n_epochs": 2}, [8, 16, 24]),
        ({"every_n_epochs": None, "every_n_steps": 5}, [5, 10, 15, 20, 24]),
        ({"every_n_epochs": None, "every_n_steps": 5, "on_stop": False}, [5, 10, 15, 20]),
        ({"every_n_epochs": None, "every_n_minutes": 1e-9, "keep_last": 3}, [22, 23, 24]),
        ({"every_n_epochs": None, "on_best": True, "keep_last": None}, [4, 24]),
        ({"every_n_epochs": None}, [24]),
        ({"every_n_epochs": 1, "keep_last": 2}, [20, 24]),
        ({"every_n_epochs": 1, "keep_last": 1, "keep_best": 1}, [4, 24]),
        ({"every_n_epochs": 1, "keep_last": 1, "keep_every": 2}, [8, 16, 24]),
    ],
)
@pytest.mark.parametrize("asynchronous", [True, False])
def test_checkpoints_come_when_asked_and_stay_as_asked(
    tmp_path: Path, fields: dict[str, Any], expected: list[int], asynchronous: bool
) -> None:
    """Six epochs of four steps; the loss falls, so the first epoch is the best for who wants the largest."""
    largest = EarlyStopping(patience=20, mode="max")
    fit(Checkpoints(tmp_path, asynchronous=asynchronous, **fields), early_stopping=largest)
    assert steps(tmp_path) == expected
    present = sorted(path.name for path in tmp_path.iterdir())
    assert present == ["about.json", "checkpoints", "config.json", "details.json", "events.jsonl"]


def test_a_checkpoint_says_what_it_is(tmp_path: Path) -> None:
    fit(Checkpoints(tmp_path), early_stopping=EarlyStopping(patience=20))
    path = tmp_path / "checkpoints" / "step-00000024"
    assert sorted(file.name for file in path.iterdir()) == [
        "manifest.json",
        "optimizer.safetensors",
        "state.json",
        "weights.safetensors",
    ]
    state = json.loads((path / "state.json").read_text())
    assert state["progress"]["epoch"] == 6
    assert state["progress"]["position"] == 0
    assert state["config"]["batch_size"] == 4
    assert state["identity"]["data"]["training_rows"] == 16
    assert state["versions"]["torch"] == torch.__version__.split("+")[0]
    assert state["random"] == {"scheme": "counted", "seed": 1, "step": 24}
    assert len(state["history"]["epochs"]) == 6
    assert state["history"]["stopped"] == "all epochs were done"


class SpyOnSaving(Callback):
    """Makes the place of the checkpoints a file when the training starts, so that every write fails."""

    def __init__(self, block: Path) -> None:
        self.block = block
        self.steps: list[int] = []

    def on_fit_start(self, state: Any) -> None:
        self.block.write_text("in the way")

    def on_batch_end(self, state: Any) -> None:
        if state.saver._writing is not None:
            state.saver._writing.join()
        self.steps.append(state.step)


def test_a_failed_write_is_reported_at_the_next_step(tmp_path: Path) -> None:
    spy = SpyOnSaving(tmp_path / "checkpoints")
    with pytest.raises(StorageError, match="step-00000002 could not be written"):
        fit(Checkpoints(tmp_path, every_n_steps=2), spy)
    assert spy.steps == [1, 2, 3]


class BlockUntil(Callback):
    """A file stands where the checkpoints of an epoch's end should go, and is taken away when that has failed."""

    def __init__(self, block: Path, epoch: int) -> None:
        self.block, self.epoch = block, epoch

    def on_epoch_end(self, state: Any) -> None:
        if state.epoch + 1 == self.epoch:
            state.saver.join()
            shutil.move(self.block, self.block.with_name("elsewhere"))
            self.block.write_text("in the way")

    def on_checkpoint_end(self, state: Any) -> None:
        if state.epoch == self.epoch and self.block.is_file():
            if state.saver._writing is not None:
                state.saver._writing.join()
            self.block.unlink()
            shutil.move(self.block.with_name("elsewhere"), self.block)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_save_that_failed_at_the_end_is_tried_once_more(tmp_path: Path, asynchronous: bool) -> None:
    """The checkpoint of the last epoch fails; the one that is due when the training stops is of the same step."""
    checkpoints = Checkpoints(tmp_path, every_n_epochs=1, on_failure="continue", asynchronous=asynchronous)
    history = fit(checkpoints, BlockUntil(tmp_path / "checkpoints", 6))
    assert [event["event"] for event in history.events] == ["checkpoint_failed"]
    assert steps(tmp_path) == [8, 12, 16, 20, 24]


def test_a_run_that_cannot_even_begin_to_save_goes_on_if_so_configured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(StorageError, match="Not a directory"):
        fit(Checkpoints(tmp_path / "file" / "run"))
    history = fit(Checkpoints(tmp_path / "file" / "run", on_failure="continue"))
    assert len(history) == 6
    assert "config.json could not be written" in history.events[0]["why"]
    assert "config.json could not be written" in caplog.text


class WithMemory(nn.Linear):
    """Counts its batches in something that is no tensor, or in one."""

    def __init__(self, plain: bool) -> None:
        super().__init__(2, 1)
        self.count, self.plain = 0, plain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += self.training
        return super().forward(x)

    def get_extra_state(self) -> Any:
        return {"count": self.count} if self.plain else torch.tensor(self.count)

    def set_extra_state(self, state: Any) -> None:
        self.count = int(state["count"] if self.plain else state)


def test_a_module_that_keeps_more_than_tensors_is_refused_before_it_is_trained(tmp_path: Path) -> None:
    config = TrainingConfig(max_epochs=3, batch_size=4, progress=False, checkpoints=Checkpoints(tmp_path))
    module = WithMemory(plain=True)
    with pytest.raises(ConfigError, match=r"must have tensors as its state, but .* something else for _extra_state"):
        Trainer(config).fit(module, DATA)
    assert module.count == 0
    Trainer(config).fit(WithMemory(plain=False), DATA)
    again = WithMemory(plain=False)
    Trainer(config).fit(again, DATA, resume="auto", resume_with={"max_epochs": 4})
    assert again.count == 16


def test_keys_of_a_callbacks_state_that_would_come_back_as_texts_are_refused(tmp_path: Path) -> None:
    class Counts(Callback):
        def state_dict(self) -> dict[str, Any]:
            return {"per_epoch": [{0: 4}]}

    with pytest.raises(StorageError, match=r"strings, .* but Counts\.state_dict\(\)\['per_epoch'\] has the key 0"):
        fit(Checkpoints(tmp_path), Counts())


def test_writing_happens_in_the_background_and_is_done_when_fit_returns(tmp_path: Path) -> None:
    names: set[str] = set()

    class Watch(Callback):
        def on_checkpoint_end(self, state: Any) -> None:
            names.update(thread.name for thread in threading.enumerate())

    fit(Checkpoints(tmp_path, every_n_steps=1), Watch())
    assert "nd-saver" in names
    assert "nd-saver" not in {thread.name for thread in threading.enumerate()}
    assert steps(tmp_path)[-1] == 24


def test_a_remote_directory_works_like_a_local_one() -> None:
    """fsspec's file system in memory stands for any store of objects: there is no rename there."""
    address = "memory://runs/one"
    checkpoints = Checkpoints(address, every_n_epochs=1, keep_last=2)
    assert checkpoints.directory == address
    base: dict[str, Any] = {"batch_size": 4, "progress": False}
    whole = network()
    Trainer(TrainingConfig(max_epochs=6, **base)).fit(whole, DATA)
    first = Trainer(TrainingConfig(max_epochs=3, checkpoints=checkpoints, **base))
    first.fit(network(), DATA)
    assert place_of(address).names() == ["step-00000008", "step-00000012"]
    module = network()
    history = first.fit(module, DATA, resume="auto", resume_with={"max_epochs": 6})
    assert len(history) == 6
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), module.parameters(), strict=True))
    system = fsspec.filesystem("memory")
    assert json.loads(system.cat_file("/runs/one/config.json"))["kind"] == "TrainingConfig"
    system.rm_file("/runs/one/checkpoints/step-00000024/manifest.json")  # as if its writing had been cut short
    assert len(first.fit(network(), DATA, resume="auto", resume_with={"max_epochs": 6}).step_loss) == 24
    first.fit(network(), DATA)
    assert sorted(system.ls("/runs/one/checkpoints-earlier", detail=False))[-1].endswith("step-00000024")
    with pytest.raises(NoCheckpointError):
        first.fit(network(), DATA, resume="memory://runs/none")


def test_before_the_first_checkpoint_is_complete_there_is_none_yet_and_nothing_is_damaged() -> None:
    """The manifest comes last: a process killed before has left the other files."""
    system = fsspec.filesystem("memory")
    for file in ("weights.safetensors", "optimizer.safetensors"):
        system.pipe_file(f"/runs/first/checkpoints/step-00000004/{file}", b"half")
    trainer = Trainer(
        TrainingConfig(max_epochs=3, batch_size=4, progress=False, checkpoints=Checkpoints("memory://runs/first"))
    )
    with pytest.raises(NoCheckpointError, match=r"resume needs a checkpoint, but .* has none"):
        trainer.fit(network(), DATA, resume="memory://runs/first")
    with pytest.raises(NoCheckpointError, match=r"step-00000004 has no manifest\.json: writing it was interrupted"):
        trainer.fit(network(), DATA, resume="memory://runs/first/checkpoints/step-00000004")
    assert len(trainer.fit(network(), DATA, resume="auto")) == 3
    assert place_of("memory://runs/first").names() == ["step-00000012"]
    system.pipe_file("/runs/first/checkpoints/step-00000016/weights.safetensors", b"half")
    again = trainer.fit(network(), DATA, resume="auto", resume_with={"max_epochs": 5})
    assert (len(again), again.events) == (5, [])


class InterruptedSystem(MemoryFileSystem):  # type: ignore[misc]
    """fsspec's file system in memory at an address of its own; Ctrl-C is pressed before the n-th change of a file."""

    protocol = "interrupted"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    left: ClassVar[int] = 0

    def _change(self) -> None:
        InterruptedSystem.left -= 1
        if InterruptedSystem.left == 0:
            raise KeyboardInterrupt

    def cp_file(self, *arguments: Any, **named: Any) -> None:
        self._change()
        super().cp_file(*arguments, **named)

    def rm_file(self, *arguments: Any, **named: Any) -> None:
        self._change()
        super().rm_file(*arguments, **named)

    def rm(self, *arguments: Any, **named: Any) -> None:
        self._change()
        super().rm(*arguments, **named)


def test_a_checkpoint_that_is_moved_aside_is_whole_somewhere_whenever_that_is_cut_short() -> None:
    fsspec.register_implementation("interrupted", InterruptedSystem, clobber=True)
    tried = 0
    for point in range(1, 100):
        address, InterruptedSystem.left = f"interrupted://run{point}", 0
        config = TrainingConfig(max_epochs=3, batch_size=4, progress=False, checkpoints=Checkpoints(address))
        Trainer(config).fit(network(), DATA)
        place, InterruptedSystem.left = place_of(address), point
        try:
            place.set_aside(place.names())
        except KeyboardInterrupt:
            tried += 1
        done, InterruptedSystem.left = InterruptedSystem.left > 0, 0
        found, damaged = newest(place)
        aside = [path for path in InterruptedSystem.store if f"run{point}/checkpoints-earlier" in path]
        assert damaged == []
        assert found is not None or len(aside) == 4
        if done:
            break
    assert tried >= 5  # four files are copied; the manifest and the folder are removed


class CountingSystem(MemoryFileSystem):  # type: ignore[misc]
    """fsspec's file system in memory at an address of its own, which counts the bytes that were fetched from it."""

    protocol = "counting"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    fetched: ClassVar[int] = 0

    def cat_file(self, *arguments: Any, **named: Any) -> bytes:
        data: bytes = super().cat_file(*arguments, **named)
        CountingSystem.fetched += len(data)
        return data


def test_of_the_checkpoints_before_it_a_resume_fetches_what_retention_needs() -> None:
    """One checkpoint whole, and of the other eleven what they say of themselves: less than one more of them."""
    fsspec.register_implementation("counting", CountingSystem, clobber=True)
    kept = Checkpoints("counting://run", every_n_epochs=1, keep_last=None)
    config = TrainingConfig(max_epochs=12, batch_size=8, validation_split=None, progress=False, checkpoints=kept)
    module = nn.Sequential(nn.Linear(2, 3000), nn.Linear(3000, 1, bias=False))
    Trainer(config).fit(module, DATA)
    size = sum(len(file.getvalue()) for path, file in CountingSystem.store.items() if "step-00000036" in path)
    CountingSystem.fetched = 0
    Trainer(config).fit(module, DATA, resume="auto")
    assert size < CountingSystem.fetched < 2 * size
    CountingSystem.fetched = 0
    fewer = config.replace(checkpoints=kept.replace(keep_last=1, keep_every=5))
    Trainer(fewer).fit(module, DATA, resume="auto", resume_with={"max_epochs": 13})
    assert place_of("counting://run").names() == ["step-00000015", "step-00000030", "step-00000039"]


def test_an_unknown_kind_of_address_is_refused_with_a_sentence() -> None:
    with pytest.raises(StorageError, match="nowhere://x could not be opened"):
        fit(Checkpoints("nowhere://x"))


def test_compressed_checkpoints_resume_to_the_same_bits(tmp_path: Path) -> None:
    whole, module = network(), network()
    base: dict[str, Any] = {"batch_size": 4, "progress": False}
    Trainer(TrainingConfig(max_epochs=6, **base)).fit(whole, DATA)
    first = TrainingConfig(max_epochs=3, checkpoints=Checkpoints(tmp_path, compression="zstd"), **base)
    Trainer(first).fit(network(), DATA)
    Trainer(first).fit(module, DATA, resume="auto", resume_with={"max_epochs": 6})
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), module.parameters(), strict=True))


def test_a_callback_whose_state_is_no_plain_data_is_named(tmp_path: Path) -> None:
    class Odd(Callback):
        def state_dict(self) -> dict[str, Any]:
            return {"lock": threading.Lock()}

    with pytest.raises(StorageError, match=r"state\.callbacks\.state\.lock is a lock"):
        fit(Checkpoints(tmp_path), Odd())


class Live(Callback):
    """Hands out what it goes on to change; takes a snapshot at step 2 and has it as files when all is done."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.room = SnapshotBuffer()

    def on_batch_end(self, state: Any) -> None:
        self.seen.append(state.step)
        state.validation["steps"] = state.step
        if state.step == 1:
            state.log(event="begun", seen=self.seen, by=[])
        if state.step == 2:
            self.snapshot = take(state, CallbackList([self]), {}, self.room)
            state.history.events[0]["by"].append("somebody")

    def on_fit_end(self, state: Any) -> None:
        state.history.epochs[0]["train_loss"] = 0.0
        self.files = {name: whole(data) for name, data in self.snapshot.contents().items()}

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}


def test_a_snapshot_is_not_changed_by_the_training_that_goes_on() -> None:
    """Whatever is written later is what was there after step 2."""
    live = Live()
    config = TrainingConfig(max_epochs=6, batch_size=4, progress=False, callbacks=(live,), steps_per_epoch=1)
    history = Trainer(config).fit(network(), DATA)
    document = read(live.files, "run").document
    assert document["progress"]["validation"]["steps"] == 2
    assert document["callbacks"] == [{"name": "Live", "state": {"seen": [1, 2]}}]
    assert document["history"]["events"] == [{"step": 1, "epoch": 0, "event": "begun", "seen": [1, 2], "by": []}]
    assert document["history"]["epochs"][0]["train_loss"] == history.step_loss[0]


class Talk(Callback):
    """Logs so many bytes after every step."""

    def __init__(self, size: int) -> None:
        self.size = size

    def on_batch_end(self, state: Any) -> None:
        state.log(note="x" * self.size)


def test_what_is_logged_may_be_longer_than_one_json_may_be(tmp_path: Path) -> None:
    """Three steps log 90 MiB each: more than a reader takes as one JSON."""
    base: dict[str, Any] = {"max_steps": 3, "max_epochs": None, "validation_split": None, "batch_size": 4}
    assert MAX_JSON_BYTES < 3 * 90 * 2**20
    fit(Checkpoints(tmp_path), Talk(90 * 2**20), **base)
    config = TrainingConfig(checkpoints=Checkpoints(tmp_path), progress=False, **base)
    resumed = Trainer(config).fit(network(), DATA, resume="auto")
    assert [(event["step"], len(event["note"])) for event in resumed.events] == [(n, 90 * 2**20) for n in (1, 2, 3)]


class Growing(Callback):
    """A state that nobody can read again from some step on: too long, or nested too deep."""

    def __init__(self, step: int, state: Any) -> None:
        self.step, self.state, self.now = step, state, None

    def on_batch_end(self, state: Any) -> None:
        if state.step == self.step:
            self.now = self.state()

    def state_dict(self) -> dict[str, Any]:
        return {"now": self.now}


def deep() -> Any:
    value: Any = []
    for _ in range(MAX_JSON_DEPTH):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (lambda: "x" * MAX_JSON_BYTES, f"state must be at most {MAX_JSON_BYTES} bytes"),
        (deep, "state must be nested at most 64 deep, but is 69 deep"),
    ],
)
def test_what_nobody_could_read_again_replaces_nothing(tmp_path: Path, state: Any, sentence: str) -> None:
    with pytest.raises(StorageError, match=rf"{sentence}.* and could not be read again. Nothing was written"):
        fit(Checkpoints(tmp_path, every_n_epochs=1, keep_last=1), Growing(6, state))
    assert steps(tmp_path) == [4]
    found, damaged = newest(LocalCheckpoints(tmp_path))
    assert (found is not None, damaged) == (True, [])


def test_files_above_a_readers_limits_are_refused_before_they_are_written(tmp_path: Path) -> None:
    """Seventeen GiB that are nowhere on the disk, and seventy names of a megabyte each."""
    with open(tmp_path / "hole", "wb") as file:
        file.truncate(17 * 2**30)
    huge = torch.from_numpy(np.memmap(tmp_path / "hole", np.uint8, "r+"))
    document = {"progress": {"step": 1}, "history": {}}
    with pytest.raises(StorageError, match=r"weights.safetensors would have 18253611\d+ and "):
        Snapshot(document, {"module/w": huge}, {}, [], []).contents("zstd")
    named = {f"module/{number}{'x' * 2**20}": torch.zeros(1) for number in range(70)}
    with pytest.raises(StorageError, match=r"67108864 of them for the names .* weights.safetensors would have"):
        Snapshot(document, named, {}, [], []).contents()


def test_numbers_come_back_as_the_same_bits() -> None:
    values = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, math.inf, -math.inf, 2**80]
    read = from_plain(json.loads(json.dumps(to_plain({"values": values, "nan": math.nan}), allow_nan=False)))
    assert [repr(value) for value in read["values"]] == [repr(value) for value in values]
    assert math.isnan(read["nan"])


def test_retention_keeps_the_union_of_what_is_asked() -> None:
    present = [Kept(f"step-{n:08d}", n, score) for n, score in enumerate([5.0, 1.0, None, 3.0, 2.0, 4.0], start=1)]
    settings = Checkpoints("run", keep_last=1, keep_best=2, keep_every=4)
    assert superfluous(settings, present) == ["step-00000001", "step-00000003"]
    assert superfluous(settings.replace(keep_last=None), present) == []


def test_differences_are_named_by_their_place() -> None:
    kept = {"kind": "A", "layers": [1, 2], "optimizer": {"kind": "Adam", "rate": 1}}
    assert differences(kept, kept | {"layers": (1, 2)}) == []
    assert differences(kept, kept | {"optimizer": {"kind": "SGD"}}, "training") == [
        "training.optimizer was Adam, but is SGD"
    ]
    assert differences({"a": 1}, {"b": 2}) == ["a was 1, but is None", "b was None, but is 2"]


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="keep_last"):
        Checkpoints("run", keep_last=0)
    assert Checkpoints.from_json(Checkpoints("s3://bucket/run").to_json()).directory == "s3://bucket/run"
    assert Checkpoints.from_json(Checkpoints("some/run").to_json()).directory == Path("some/run")


@pytest.mark.parametrize(
    ("fields", "mode", "expected"),
    [
        ({"every_n_epochs": None, "on_best": True, "keep_last": None, "on_stop": False}, "min", [8, 16, 24]),
        ({"every_n_epochs": None, "every_n_steps": 1, "keep_last": 1, "keep_best": 2}, "max", [8, 16, 24]),
    ],
)
def test_only_a_checkpoint_that_was_validated_has_a_score(
    tmp_path: Path, fields: dict[str, Any], mode: Literal["min", "max"], expected: list[int]
) -> None:
    """The loss falls, and every second epoch of four steps is validated: after steps 8, 16 and 24."""
    fit(Checkpoints(tmp_path, **fields), validate_every=2, early_stopping=EarlyStopping(patience=20, mode=mode))
    assert steps(tmp_path) == expected


def test_a_checkpoint_that_somebody_else_removed_stops_nothing(tmp_path: Path) -> None:
    class RemoveFirst(Callback):
        def on_epoch_end(self, state: Any) -> None:
            if state.epoch == 2:
                state.saver.join()
                shutil.rmtree(tmp_path / "checkpoints" / "step-00000004")

    fit(Checkpoints(tmp_path, every_n_epochs=1, keep_last=2), RemoveFirst())
    assert steps(tmp_path) == [20, 24]
