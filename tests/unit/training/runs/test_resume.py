"""Exact resume: a run that was stopped anywhere and resumed gives the bits of the run that never stopped."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from torch import nn

from neuro_divergent.core.errors import ConfigError, CorruptFileError, NoCheckpointError, StorageError
from neuro_divergent.core.tensor_files import read_tensors, write_tensors
from neuro_divergent.models import MLP
from neuro_divergent.optim import SGD, SWA, Adam, AdamW, CosineAnnealing, Lookahead, ReduceOnPlateau, ScheduleFreeAdamW
from neuro_divergent.training import Callback, EarlyStopping, Timer, Trainer, TrainingConfig
from neuro_divergent.training.config.checkpoints import Checkpoints, FaultTolerance
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints, place_of
from neuro_divergent.training.runs.lock import run_lock
from neuro_divergent.training.state.history import History


class StopAfter(Callback):
    """Stops the run after so many steps, as somebody's Ctrl-C would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_batch_end(self, state: Any) -> None:
        if state.step == self.step:
            state.stop("enough for now")


class Counter(Callback):
    """A callback with a memory of its own."""

    def __init__(self) -> None:
        self.total = 0.0

    def on_batch_end(self, state: Any) -> None:
        self.total += state.loss
        state.log(total=self.total)

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, data: dict[str, Any]) -> None:
        self.total = data["total"]


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(40, 3)).astype("float32")
    return x, x @ np.array([[1.0], [2.0], [-3.0]], dtype="float32") + 0.5


def network(bend: type[nn.Module] = nn.Tanh, dropout: float = 0.2) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(dropout), bend(), nn.Linear(8, 1))


def config(directory: Path | None, **fields: Any) -> TrainingConfig:
    checkpoints = None if directory is None else Checkpoints(directory)
    base: dict[str, Any] = {"max_epochs": 5, "batch_size": 8, "checkpoints": checkpoints, "progress": False}
    return TrainingConfig(**base | fields)


def bits(module: nn.Module, history: History) -> tuple[Any, ...]:
    timeless = [{k: v for k, v in record.items() if "seconds" not in k and k != "time"} for record in history.epochs]
    weights = [tensor.numpy().tobytes() for tensor in module.state_dict().values()]
    return (
        weights,
        timeless,
        history.step_loss,
        history.gradient_norm,
        history.events,
        history.best_epoch,
        history.stopped,
    )


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cosine": {"schedule": CosineAnnealing(), "optimizer": Adam(learning_rate=1e-2)},
    "momentum": {"optimizer": SGD(learning_rate=1e-2)},
    "averaged": {"averaging": SWA(start=0.3)},
    "schedule-free": {"optimizer": ScheduleFreeAdamW()},
    "lookahead": {"optimizer": Lookahead(inner=AdamW())},
    "accumulated": {"batch_size": 4, "accumulate_gradients": 2},
    "fp16": {"precision": "fp16"},
    "float64": {"precision": "float64"},
    "by steps": {"max_epochs": None, "max_steps": 17},
    "workers": {"num_workers": 2},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("step", [1, 6, 8, 16])
def test_a_resumed_run_has_the_bits_of_the_whole_one(tmp_path: Path, name: str, step: int) -> None:
    fields = SETTINGS[name]
    whole = network()
    expected = bits(whole, Trainer(config(None, callbacks=(Counter(),), **fields)).fit(whole, data()))
    stopped = Trainer(config(tmp_path, callbacks=(Counter(), StopAfter(step)), **fields)).fit(network(), data())
    assert stopped.stopped == "enough for now"
    assert (tmp_path / "checkpoints" / f"step-{step:08d}").is_dir()
    module = network()  # the resumed process knows nothing but the checkpoint
    history = Trainer(config(tmp_path, callbacks=(Counter(),), **fields)).fit(module, data(), resume="auto")
    assert bits(module, history) == expected


class SignalAt(Callback):
    """Sends this process a SIGTERM at the end of a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_batch_end(self, state: Any) -> None:
        if state.step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("schedule", [CosineAnnealing(min_lr=1e-6), ReduceOnPlateau(patience=0, min_delta=10.0)])
def test_the_end_of_an_epoch_that_comes_before_another_step_tells_the_rate_of_the_last(
    tmp_path: Path, schedule: Any
) -> None:
    """Six steps are one epoch and a half: the signal comes at the last one, and only the end of the epoch is due."""
    fields: dict[str, Any] = {"max_epochs": None, "max_steps": 6, "schedule": schedule}
    whole, module = network(), network()
    expected = bits(whole, Trainer(config(None, **fields)).fit(whole, data()))
    with pytest.raises(SystemExit):
        Trainer(config(tmp_path, callbacks=(SignalAt(6),), **fields)).fit(network(), data())
    history = Trainer(config(tmp_path, **fields)).fit(module, data(), resume="auto")
    assert bits(module, history) == expected


def test_a_finished_run_resumes_to_its_own_result(tmp_path: Path) -> None:
    first, second = network(), network()
    expected = bits(first, Trainer(config(tmp_path)).fit(first, data()))
    assert bits(second, Trainer(config(tmp_path)).fit(second, data(), resume="auto")) == expected


def test_a_run_that_stopped_early_stays_stopped_but_may_be_given_more_patience(tmp_path: Path) -> None:
    fields = {"early_stopping": EarlyStopping(patience=1, min_delta=10.0)}
    assert len(Trainer(config(tmp_path, **fields)).fit(network(), data())) == 2
    assert len(Trainer(config(tmp_path, **fields)).fit(network(), data(), resume="auto")) == 2
    more = {"early_stopping": EarlyStopping(patience=3, min_delta=10.0)}
    history = Trainer(config(tmp_path, **fields)).fit(network(), data(), resume="auto", resume_with=more)
    assert len(history) == 4


def test_more_epochs_go_on_from_the_last_weights_not_from_the_best(tmp_path: Path) -> None:
    """Without a schedule, five epochs and five more are ten: also when the best weights were given back between."""
    fields = {"early_stopping": EarlyStopping(patience=10, min_delta=10.0)}  # the first epoch stays the best
    whole, module = network(), network()
    expected = Trainer(config(None, **fields | {"max_epochs": 10})).fit(whole, data())
    Trainer(config(tmp_path, **fields)).fit(network(), data())
    history = Trainer(config(tmp_path, **fields)).fit(module, data(), resume="auto", resume_with={"max_epochs": 10})
    assert bits(module, history) == bits(whole, expected)


def test_auto_starts_afresh_where_there_is_nothing_and_a_path_does_not(tmp_path: Path) -> None:
    assert len(Trainer(config(tmp_path / "run")).fit(network(), data(), resume="auto")) == 5
    with pytest.raises(NoCheckpointError, match=r"resume needs a checkpoint, but .* has none"):
        Trainer(config(tmp_path / "run")).fit(network(), data(), resume=tmp_path / "empty")
    with pytest.raises(ConfigError, match="needs a run directory, but checkpoints is None"):
        Trainer(config(None)).fit(network(), data(), resume="auto")


def test_a_path_may_name_a_run_or_one_checkpoint_and_later_ones_are_set_aside(tmp_path: Path) -> None:
    saved = config(tmp_path, checkpoints=Checkpoints(tmp_path, every_n_epochs=1))
    whole, again, elsewhere = network(), network(), network()
    expected = bits(whole, Trainer(saved).fit(whole, data()))
    third = tmp_path / "checkpoints" / "step-00000012"
    assert third.is_dir()
    history = Trainer(config(tmp_path / "other")).fit(elsewhere, data(), resume=third)
    assert bits(elsewhere, history) == expected
    assert bits(again, Trainer(saved).fit(again, data(), resume=third)) == expected
    assert sorted(path.name for path in (tmp_path / "checkpoints-earlier").iterdir()) == [
        "step-00000016",
        "step-00000020",
    ]


def test_a_new_run_sets_the_checkpoints_of_an_earlier_one_aside(tmp_path: Path) -> None:
    Trainer(config(tmp_path)).fit(network(), data())
    Trainer(config(tmp_path, max_epochs=1)).fit(network(), data())
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000004"]
    assert [path.name for path in (tmp_path / "checkpoints-earlier").iterdir()] == ["step-00000020"]


@pytest.mark.parametrize(
    ("fields", "rows", "module", "sentence"),
    [
        ({"batch_size": 4}, data(), network, "training.batch_size was 8, but is 4"),
        ({"precision": "float64"}, data(), network, "training.precision was 'float32', but is 'float64'"),
        (
            {"optimizer": AdamW(learning_rate=0.5)},
            data(),
            network,
            "training.optimizer.learning_rate was 0.001, but is 0.5",
        ),
        ({}, data(seed=1), network, "data.fingerprint was"),
        ({}, tuple(part[:35] for part in data()), network, "data.training_rows was 32, but is 28"),
        ({}, data(), lambda: nn.Linear(3, 1), "the module's parameters differ in 0.bias"),
        ({}, data(), lambda: network(nn.ReLU), r"but module.3 was 'Tanh\(\)', but is 'ReLU\(\)'"),
        ({}, data(), lambda: network(dropout=0.3), r"but module.2 was 'Dropout\(p=0.2.*, but is 'Dropout\(p=0.3"),
    ],
)
def test_another_run_is_refused_with_the_difference_named(
    tmp_path: Path, fields: dict[str, Any], rows: Any, module: Any, sentence: str
) -> None:
    Trainer(config(tmp_path, callbacks=(StopAfter(3),))).fit(network(), data())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(StorageError, match=sentence):
        Trainer(config(tmp_path, **fields)).fit(module(), rows, resume="auto")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_named_change_is_allowed_where_the_steps_done_stay_meaningful(tmp_path: Path) -> None:
    Trainer(config(tmp_path, callbacks=(StopAfter(3),))).fit(network(), data())
    trainer = Trainer(config(tmp_path))
    history = trainer.fit(network(), data(), resume="auto", resume_with={"optimizer": AdamW(learning_rate=0.5)})
    assert history.epochs[-1]["learning_rate"] == 0.5
    with pytest.raises(ConfigError, match=r"but got batch_size\. Start a new run"):
        trainer.fit(network(), data(), resume="auto", resume_with={"batch_size": 4})
    with pytest.raises(ConfigError, match="resume=None"):
        trainer.fit(network(), data(), resume_with={"max_epochs": 9})


@pytest.mark.parametrize(
    ("first", "then", "fresh"),
    [
        (AdamW(), AdamW(amsgrad=True), True),
        (AdamW(amsgrad=True), AdamW(), False),
        (AdamW(), AdamW(learning_rate=0.5, betas=(0.8, 0.9)), False),
        (Lookahead(inner=AdamW()), Lookahead(inner=SGD(momentum=0.9)), True),
        (SGD(momentum=0.0), SGD(momentum=0.9), False),
        (AdamW(), SGD(), True),
    ],
)
def test_an_optimizer_that_keeps_more_than_the_old_one_begins_without_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: Any, then: Any, fresh: bool
) -> None:
    """AMSGrad has a largest second moment, momentum a buffer: what is not there cannot be gone on with."""
    Trainer(config(tmp_path, optimizer=first)).fit(network(), data())
    changes = {"optimizer": then, "max_epochs": 6}
    with caplog.at_level(logging.WARNING):
        again = config(tmp_path, optimizer=first)
        history = Trainer(again).fit(network(), data(), resume="auto", resume_with=changes)
    assert len(history) == 6
    assert ("starts with a new state" in caplog.text) == fresh


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved = config(tmp_path, checkpoints=Checkpoints(tmp_path, every_n_epochs=1))
    whole, module = network(), network()
    expected = bits(whole, Trainer(saved).fit(whole, data()))
    newest = tmp_path / "checkpoints" / "step-00000020" / "weights.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"\x55")
    with caplog.at_level(logging.WARNING):
        history = Trainer(saved).fit(module, data(), resume="auto")
    assert "resuming from step 16" in caplog.text
    assert [event["event"] for event in history.events] == ["damaged_checkpoint"]
    history.events.clear()
    assert bits(module, history) == expected
    assert (tmp_path / "checkpoints" / "step-00000020").is_dir()


def test_when_all_checkpoints_are_damaged_nothing_is_started(tmp_path: Path) -> None:
    Trainer(config(tmp_path)).fit(network(), data())
    for path in (tmp_path / "checkpoints").iterdir():
        (path / "state.json").write_bytes(b"{}")
    with pytest.raises(CorruptFileError, match="all 1 are damaged"):
        Trainer(config(tmp_path)).fit(network(), data(), resume="auto")


def test_a_model_resumes_and_refuses_another_model(tmp_path: Path) -> None:
    import polars as pl

    frame = pl.DataFrame({"unique_id": ["a"] * 60, "ds": np.arange(60), "y": np.sin(np.arange(60) / 3)})
    model = MLP(h=3, input_size=8, hidden_size=8)
    fields: dict[str, Any] = {"max_epochs": 4, "batch_size": 8, "refit_on_all": True, "progress": False}
    whole = model.fit(frame, TrainingConfig(**fields))
    saved = TrainingConfig(**fields, checkpoints=Checkpoints(tmp_path))
    model.fit(frame, saved.replace(callbacks=(StopAfter(5),), refit_on_all=False))
    fitted = model.fit(frame, saved, resume="auto")
    assert bits(fitted.module, fitted.history) == bits(whole.module, whole.history)
    again = model.fit(frame, saved, resume="auto")
    assert bits(again.module, again.history) == bits(whole.module, whole.history)
    with pytest.raises(StorageError, match=r"model\.hidden_size was 8, but is 16"):
        model.replace(hidden_size=16).fit(frame, saved, resume="auto")
    with pytest.raises(StorageError, match=r"data\.rows was 60, but is 58"):
        model.fit(frame.head(58), saved, resume="auto")


def test_a_refit_goes_on_with_live_callbacks_and_with_changes_that_decide_nothing(tmp_path: Path) -> None:
    """The refit had ended: nothing of it is trained again, whatever watches it."""
    import polars as pl

    frame = pl.DataFrame({"unique_id": ["a"] * 60, "ds": np.arange(60), "y": np.sin(np.arange(60) / 3)})
    model = MLP(h=3, input_size=8, hidden_size=8)
    fields: dict[str, Any] = {"max_epochs": 2, "batch_size": 8, "refit_on_all": True, "progress": False}
    saved = TrainingConfig(**fields, callbacks=(Counter(),), checkpoints=Checkpoints(tmp_path))
    whole = model.fit(frame, saved)
    last = max((tmp_path / "refit" / "checkpoints").iterdir())
    written = last.stat().st_mtime_ns
    for changes in ({}, {"callbacks": (Counter(),)}, {"log_every": 7}):
        again = model.fit(frame, saved.replace(callbacks=(Counter(),)), resume="auto", resume_with=changes)
        assert bits(again.module, again.history) == bits(whole.module, whole.history)
        assert last.stat().st_mtime_ns == written
    assert not (tmp_path / "refit" / "checkpoints-earlier").exists()


def test_other_windows_of_the_same_table_are_another_run(tmp_path: Path) -> None:
    """A series of seven rows has no window of eleven: it is left out, or padded."""
    import polars as pl

    lengths = {"a": 60, "b": 60, "c": 7}
    frame = pl.concat(
        pl.DataFrame({"unique_id": [name] * count, "ds": np.arange(count), "y": np.sin(np.arange(count) / 2)})
        for name, count in lengths.items()
    )
    model = MLP(h=3, input_size=8, hidden_size=8)
    saved = config(tmp_path, validation_split=None, steps_per_epoch=5, batch_size=4)
    model.fit(frame, saved.replace(callbacks=(StopAfter(7),)), short="drop")
    with pytest.raises(StorageError, match="but short was 'drop', but is 'pad'"):
        model.fit(frame, saved, short="pad", resume="auto")
    assert len(model.fit(frame, saved, short="drop", resume="auto").history) == 5


def test_a_run_whose_checkpoints_say_less_of_it_goes_on(tmp_path: Path) -> None:
    """As the first version wrote them: nothing of the module, the short series and the rates, events in the JSON."""
    whole, module = network(), network()
    expected = bits(whole, Trainer(config(None, callbacks=(Counter(),))).fit(whole, data()))
    Trainer(config(tmp_path, callbacks=(Counter(), StopAfter(6)))).fit(network(), data())
    place = LocalCheckpoints(tmp_path)
    contents = place.read("step-00000006")
    document = json.loads(contents["state.json"])
    weights = read_tensors(contents["weights.safetensors"], "weights")
    lines = weights.pop("history/events").numpy().tobytes().splitlines()
    assert document["history"]["events"] == []  # a figure of a callback's, not something that happened
    document["history"]["events"] = [json.loads(line) for line in lines]
    del document["identity"]["module"], document["progress"]["rates"]
    old = {"state.json": json.dumps(document).encode(), "weights.safetensors": write_tensors(weights)}
    place.write("step-00000006", contents | old)
    history = Trainer(config(tmp_path, callbacks=(Counter(),))).fit(module, data(), resume="auto")
    assert bits(module, history) == expected


def test_a_function_in_the_description_of_a_module_is_the_same_in_every_process(tmp_path: Path) -> None:
    class Bend(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bend = lambda x: x.tanh()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.bend(x)

        def extra_repr(self) -> str:
            return repr(self.bend)

    assert repr(Bend()) != repr(Bend())
    Trainer(config(tmp_path, callbacks=(StopAfter(3),))).fit(network(Bend), data())
    assert len(Trainer(config(tmp_path)).fit(network(Bend), data(), resume="auto")) == 5


def test_a_damaged_manifest_that_looks_like_a_later_versions_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One flipped bit makes format 3 of format 1; where no other checkpoint is good it may be the truth."""
    saved = config(tmp_path, checkpoints=Checkpoints(tmp_path, every_n_epochs=1, keep_last=2))
    whole, module = network(), network()
    expected = bits(whole, Trainer(saved).fit(whole, data()))
    manifests = sorted((tmp_path / "checkpoints").glob("*/manifest.json"))
    flipped = manifests[-1].read_bytes().replace(b'"format": 1', b'"format": 3')
    manifests[-1].write_bytes(flipped)
    with caplog.at_level(logging.WARNING):
        history = Trainer(saved).fit(module, data(), resume="auto")
    assert "is ignored, resuming from step 16: this version reads the formats 1 to 1, but" in caplog.text
    history.events.clear()
    assert bits(module, history) == expected
    for manifest in (tmp_path / "checkpoints").glob("*/manifest.json"):
        manifest.write_bytes(flipped)
    with pytest.raises(StorageError, match=r"has format 3\. Update neuro-divergent to read it"):
        Trainer(saved).fit(network(), data(), resume="auto")


def test_a_timer_ends_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    timed = config(tmp_path, callbacks=(Timer(max_minutes=1e-9),))
    assert len(Trainer(timed).fit(network(), data()).step_loss) == 1
    assert len(Trainer(config(tmp_path)).fit(network(), data(), resume="auto").step_loss) == 20


@pytest.mark.parametrize("rule", [None, EarlyStopping(patience=10, restore_best_weights=False)])
def test_without_a_rule_that_keeps_the_best_weights_the_last_ones_are_given_back(tmp_path: Path, rule: Any) -> None:
    """The weights that were best by the old rule are no result of the new one."""
    first = {"early_stopping": EarlyStopping(patience=10, min_delta=10.0)}  # the first epoch stays the best
    whole, module = network(), network()
    Trainer(config(None, early_stopping=None, max_epochs=10)).fit(whole, data())
    Trainer(config(tmp_path, **first)).fit(network(), data())
    changes = {"early_stopping": rule, "max_epochs": 10}
    history = Trainer(config(tmp_path, **first)).fit(module, data(), resume="auto", resume_with=changes)
    assert len(history) == 10
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), module.parameters(), strict=True))


def test_another_value_to_watch_is_not_compared_with_the_old_one(tmp_path: Path) -> None:
    """Losses are below 1, the metric that shall grow is negative at first: no r2 would ever be a better loss."""
    first = {"early_stopping": EarlyStopping(patience=2, min_delta=0.0), "metrics": ("r2",)}
    Trainer(config(tmp_path, **first)).fit(network(), data())
    changes = {"early_stopping": EarlyStopping(monitor="validation_r2", mode="max", patience=2), "max_epochs": 9}
    history = Trainer(config(tmp_path, **first)).fit(network(), data(), resume="auto", resume_with=changes)
    values = [record["validation_r2"] for record in history.epochs]
    assert history.best_epoch is not None
    assert history.best_epoch > 5
    assert values[history.best_epoch - 1] == max(values[5:])


def test_a_changed_loss_scale_is_the_one_that_is_used(tmp_path: Path) -> None:
    fields = {"precision": "fp16", "loss_scale": 1024.0}
    Trainer(config(tmp_path, **fields)).fit(network(), data())
    scales: list[float] = []

    class Look(Callback):
        def on_batch_end(self, state: Any) -> None:
            scales.append(state.precision.scaler.get_scale())

    changes = {"loss_scale": 128.0, "max_epochs": 6}
    again = config(tmp_path, callbacks=(Look(),), **fields)
    Trainer(again).fit(network(), data(), resume="auto", resume_with=changes)
    assert scales == pytest.approx([128.0] * 4, rel=1e-6)


def test_a_loss_scale_that_is_named_but_not_changed_goes_on_where_it_was(tmp_path: Path) -> None:
    """Targets this large overflow half precision until the scale has come down: beginning above again is seen."""
    fields = {"precision": "fp16", "loss_scale": "dynamic"}
    rows = (data()[0], 100 * data()[1])
    whole, module = network(), network()
    expected = Trainer(config(None, **fields)).fit(whole, rows)
    Trainer(config(tmp_path, callbacks=(StopAfter(16),), **fields)).fit(network(), rows)
    again = config(tmp_path, **fields)
    history = Trainer(again).fit(module, rows, resume="auto", resume_with={"loss_scale": "dynamic"})
    assert 0 < len(expected.step_loss) < 20  # some were left out
    assert history.step_loss == expected.step_loss
    assert bits(module, history)[0] == bits(whole, expected)[0]


def test_a_shorter_training_than_was_done_is_refused(tmp_path: Path) -> None:
    Trainer(config(tmp_path)).fit(network(), data())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(StorageError, match=r"max_epochs was 5, but is 2; 20 steps are done, but the new total is 8"):
        Trainer(config(tmp_path)).fit(network(), data(), resume="auto", resume_with={"max_epochs": 2})
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    with pytest.raises(
        StorageError, match=r"batch_size was 8, but is 16\. Restore the old values"
    ):  # steps of another size
        Trainer(config(tmp_path, batch_size=16)).fit(network(), data(), resume="auto")
    # Shorter than it was to be, but not than it is: what is left of it is trained.
    Trainer(config(tmp_path / "other", callbacks=(StopAfter(6),))).fit(network(), data())
    changes = {"max_epochs": 3}
    assert len(Trainer(config(tmp_path / "other")).fit(network(), data(), resume="auto", resume_with=changes)) == 3


def test_what_was_set_aside_is_never_replaced(tmp_path: Path) -> None:
    """Three new runs in one directory: what the first two left is there, and can be gone on from."""
    first, again = network(), network()
    expected = bits(first, Trainer(config(tmp_path)).fit(first, data()))
    for epochs in (1, 2):
        Trainer(config(tmp_path, max_epochs=epochs)).fit(network(), data())
    kept = {path.name: [item.name for item in path.iterdir()] for path in tmp_path.glob("checkpoints*")}
    assert kept == {
        "checkpoints": ["step-00000008"],
        "checkpoints-earlier": ["step-00000020"],
        "checkpoints-earlier-2": ["step-00000004"],
    }
    old = tmp_path / "checkpoints-earlier" / "step-00000020"
    assert bits(again, Trainer(config(tmp_path)).fit(again, data(), resume=old)) == expected
    assert old.is_dir()


def test_one_checkpoint_at_a_remote_address_is_resumed_and_another_run_there_is_left_alone() -> None:
    saved = config(None, checkpoints=Checkpoints("memory://resumed/one", every_n_epochs=1, keep_last=None))
    other = config(None, checkpoints=Checkpoints("memory://resumed/two"))
    whole, module = network(), network()
    expected = bits(whole, Trainer(saved).fit(whole, data()))
    Trainer(other).fit(network(), data())
    third = "memory://resumed/one/checkpoints/step-00000012"
    assert bits(module, Trainer(other).fit(module, data(), resume=third)) == expected
    assert len(place_of("memory://resumed/one").names()) == 5
    aside = fsspec.filesystem("memory").ls("/resumed/two/checkpoints-earlier", detail=False)
    assert [path.rsplit("/", 1)[-1] for path in aside] == ["step-00000020"]


SECOND = """
import sys
import numpy as np
from torch import nn
from neuro_divergent.core.errors import StorageError
from neuro_divergent.training import Trainer, TrainingConfig
from neuro_divergent.training.config.checkpoints import Checkpoints, FaultTolerance

x = np.ones((8, 1), dtype="float32")
config = TrainingConfig(max_epochs=1, validation_split=None, progress=False, checkpoints=Checkpoints(sys.argv[1]))
try:
    Trainer(config).fit(nn.Linear(1, 1), (x, x), resume=sys.argv[2] or None)
except StorageError as error:
    sys.exit(str(error))
"""


def second(directory: Path, resume: str = "") -> str:
    """What a training in another process says to a directory."""
    done = subprocess.run([sys.executable, "-c", SECOND, str(directory), resume], capture_output=True, text=True)
    return done.stderr.strip()


class Intrude(Callback):
    """Starts other trainings in the run's directory, in other processes and in this one, while it is trained in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.answers: list[str] = []

    def on_epoch_end(self, state: Any) -> None:
        if state.epoch == 2:
            self.answers += [second(self.directory), second(self.directory, "auto")]
            with pytest.raises(StorageError, match="is in use by process"):
                Trainer(config(self.directory)).fit(network(), data())


def test_a_directory_is_trained_in_by_one_process_at_a_time(tmp_path: Path) -> None:
    whole, module = network(), network()
    expected = bits(whole, Trainer(config(None)).fit(whole, data()))
    intruder = Intrude(tmp_path)
    assert bits(module, Trainer(config(tmp_path, callbacks=(intruder,))).fit(module, data())) == expected
    refusal = f"a run directory is used by one process, but {tmp_path} is in use by process {os.getpid()}."
    assert [answer.startswith(refusal) for answer in intruder.answers] == [True, True]
    present = sorted(path.name for path in tmp_path.iterdir())
    assert present == ["about.json", "checkpoints", "config.json", "details.json", "events.jsonl"]
    assert "is in use by process" not in second(tmp_path)
    assert (tmp_path / "checkpoints-earlier" / "step-00000020").is_dir()


def test_a_lock_ends_with_its_process_and_a_refit_holds_that_of_its_run(tmp_path: Path) -> None:
    """A process that was killed leaves the file, and nothing else."""
    import polars as pl

    (tmp_path / "lock").write_text("1")  # the first of all processes, which is always there
    frame = pl.DataFrame({"unique_id": ["a"] * 60, "ds": np.arange(60), "y": np.sin(np.arange(60) / 3)})
    intruder = Intrude(tmp_path)
    saved = config(tmp_path, callbacks=(intruder,), refit_on_all=True, max_epochs=3, early_stopping=None)
    MLP(h=3, input_size=8, hidden_size=8).fit(frame, saved)
    assert len(intruder.answers) == 4  # two of the training, two of the refit
    assert all("is in use by process" in answer for answer in intruder.answers)
    assert list(tmp_path.rglob("lock")) == []


def test_a_watched_training_is_refused_before_it_touches_a_directory_that_is_trained_in(tmp_path: Path) -> None:
    import polars as pl

    frame = pl.DataFrame({"unique_id": ["a"] * 60, "ds": np.arange(60), "y": np.sin(np.arange(60) / 3)})
    saved = config(tmp_path, fault_tolerance=FaultTolerance(retries=1))
    with run_lock(saved.checkpoints), pytest.raises(StorageError, match=f"is in use by process {os.getpid()}"):
        MLP(h=3, input_size=8, hidden_size=8).fit(frame, saved)
    assert list(tmp_path.iterdir()) == []
