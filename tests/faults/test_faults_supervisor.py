"""A supervised training: restarted after a crash or a hang, given up with the reasons; too little memory is borne."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fault_runs import MODELS, config_of, fingerprint, table
from fault_tools import environment, worker

import neuro_divergent as nd
from neuro_divergent.core.errors import ConfigError, NonFiniteError, StorageError, TrainingError
from neuro_divergent.forecasting.fit import in_subprocess as supervised
from neuro_divergent.forecasting.fit.worker import main as work
from neuro_divergent.training.compiled.full_step import obstacle
from neuro_divergent.training.config.checkpoints import FaultTolerance
from neuro_divergent.training.process.heartbeat import SUPERVISOR, VARIABLE, heartbeat
from neuro_divergent.training.process.supervisor import supervise
from neuro_divergent.training.process.worker import error_of
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints

COUNT = """
import os, pathlib, signal, sys, time
seen = pathlib.Path(sys.argv[1]); seen.write_text(seen.read_text() + "x" if seen.exists() else "x")
attempt = len(seen.read_text()); beat = pathlib.Path(os.environ["NEURO_DIVERGENT_HEARTBEAT"])
"""


def run(tmp_path: Path, script: str, **settings: Any) -> list[str]:
    command = [sys.executable, "-S", "-c", COUNT + script, str(tmp_path / "seen")]
    return supervise(command, FaultTolerance(**settings), tmp_path)


def test_a_crashed_training_is_started_again_and_the_reasons_are_given(tmp_path: Path) -> None:
    script = "if attempt == 1: os.kill(os.getpid(), signal.SIGKILL)\nif attempt == 2: sys.exit('out of luck')"
    assert run(tmp_path, script, retries=3) == [
        "attempt 1: killed by SIGKILL at starting 0",
        "attempt 2: exit code 1 at starting 0: out of luck",
    ]


def test_a_hung_training_is_killed_and_started_again(tmp_path: Path) -> None:
    script = "beat.write_text('step 7')\nif attempt == 1: time.sleep(600)"
    reasons = run(tmp_path, script, retries=1, health_check_interval=0.3)
    assert reasons == ["attempt 1: no sign of life for 0.3 s at step 7"]


def test_after_the_last_attempt_all_reasons_are_listed(tmp_path: Path) -> None:
    with pytest.raises(
        TrainingError, match=r"failed 3 times and is not started again\. attempt 1: .*no 1; attempt 2: .*no 2; .*no 3"
    ):
        run(tmp_path, "sys.exit(f'no {attempt}')", retries=2)


def test_what_would_fail_again_is_not_tried_again(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="wrong field"):
        run(tmp_path, "sys.stderr.write('wrong field'); sys.exit(2)", retries=5)
    assert (tmp_path / "seen").read_text() == "x"


def test_a_clock_that_was_set_is_no_hang_and_hides_none(tmp_path: Path) -> None:
    """The times of the file are an hour off, as after a sleep, or on a server with a clock of its own."""
    ago = "[(beat.write_text(f'step {i}'), os.utime(beat, (0, time.time() - 3600)), time.sleep(0.1)) for i in range(5)]"
    assert run(tmp_path, ago, retries=0, health_check_interval=60, startup_seconds=60) == []
    ahead = "beat.write_text('step 7'); os.utime(beat, (0, time.time() + 3600))\nif attempt == 2: time.sleep(600)"
    reasons = run(tmp_path, ahead, retries=1, health_check_interval=0.3)
    assert reasons == ["attempt 1: no sign of life for 0.3 s at step 7"]


def test_a_training_may_change_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-S", "-c", COUNT + "os.chdir('/'); beat.write_text('step 7')", str(tmp_path / "seen")]
    assert supervise(command, FaultTolerance(retries=0), "run") == []
    assert (tmp_path / "run" / "attempts" / "heartbeat").read_text() == "step 7"


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("end", ["time.sleep(600)", "os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)"])
def test_no_process_of_a_failed_attempt_is_left_when_the_next_one_begins(tmp_path: Path, end: str) -> None:
    """Hung, or left alone by the shell that started it: two trainings must not share a directory."""
    script = f"""
mine = pathlib.Path(sys.argv[1]).with_name(f"pid-{{attempt}}"); mine.write_text(str(os.getpid()))
first = mine.with_name("pid-1").read_text()
if attempt == 1:
    beat.write_text("step 7"); {end}
stat = pathlib.Path(f"/proc/{{first}}/stat")
sys.exit(3 if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX" else 0)
"""
    python = shlex.join([sys.executable, "-S", "-c", COUNT + script, str(tmp_path / "seen")])
    reasons = supervise(
        ["sh", "-c", f"{python}; exit $?"], FaultTolerance(retries=1, health_check_interval=1), tmp_path
    )
    assert len(reasons) == 1
    assert not lives(int((tmp_path / "pid-1").read_text()))


SAVES = """
def handle(number, frame):
    got.append(number)
got = []; signal.signal(signal.SIGINT, handle); signal.signal(signal.SIGTERM, handle)
beat.write_text(f"step 7{NAMED}")
seen.with_name("ready").touch()
while not got: time.sleep(0.01)
time.sleep(1)
seen.with_name("saved").write_text(str(got))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("named", [" {os.getpid()}", ""])
def test_a_signal_reaches_the_training_below_a_shell_once(tmp_path: Path, number: signal.Signals, named: str) -> None:
    """With and without the training saying which process it is; the supervisor waits until it has saved."""
    script = COUNT + SAVES.replace("{NAMED}", named)
    python = shlex.join([sys.executable, "-S", "-c", script, str(tmp_path / "seen")])
    program = f"""
import signal
from neuro_divergent.training.config.checkpoints import FaultTolerance
from neuro_divergent.training.process.supervisor import supervise
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    supervise(["sh", "-c", {python + "; exit 1"!r}], FaultTolerance(retries=0), {str(tmp_path)!r})
except KeyboardInterrupt:
    raise SystemExit(130)
"""
    process = subprocess.Popen([sys.executable, "-c", program], env=environment())
    try:
        wait_for(lambda: (tmp_path / "ready").exists())
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    finally:
        process.kill()
    assert (tmp_path / "saved").read_text() == f"[{int(number)}]"


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_unknown_signal_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="killed by signal 40 at starting 0"):
        supervise(["bash", "-c", "kill -40 $$"], FaultTolerance(retries=0), tmp_path)


def children() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == os.getpid() and supervised.WORKER.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def test_a_model_survives_the_death_of_its_training_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, _ = MODELS["mlp"]
    whole = model.fit(table(), config_of("mlp", None, max_epochs=20))

    def kill_once() -> None:
        deadline = time.monotonic() + 120
        while len(LocalCheckpoints(tmp_path).names()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        for child in children():
            os.kill(child, signal.SIGKILL)

    killer = threading.Thread(target=kill_once)
    killer.start()
    tolerant = config_of("mlp", tmp_path, max_epochs=20, fault_tolerance=FaultTolerance(retries=2))
    fitted = model.fit(table(), tolerant)
    killer.join()
    assert fingerprint(fitted.module, fitted.history) == fingerprint(whole.module, whole.history)
    assert "attempt 1: killed by SIGKILL" in caplog.text


def test_a_training_that_was_stopped_in_its_process_is_not_trained_further_in_this_one(tmp_path: Path) -> None:
    model, _ = MODELS["mlp"]
    tolerant = {"fault_tolerance": FaultTolerance(retries=1), "callbacks": (nd.Timer(max_minutes=1e-9),)}
    fitted = model.fit(table(), config_of("mlp", tmp_path, max_epochs=20, **tolerant))
    assert len(fitted.history.step_loss) == 1
    assert fitted.history.stopped == "the time limit of 1e-09 minutes was reached"


def test_a_last_checkpoint_that_could_not_be_written_is_no_end(tmp_path: Path) -> None:
    """Files of a checkpoint grow with the history: a limit between those of step 150 and 200 fails the last one."""
    model, _ = MODELS["mlp"]
    fields = {"max_epochs": None, "max_steps": 200, "early_stopping": None}

    def config(name: str, **more: Any) -> nd.TrainingConfig:
        when = {"every_n_steps": 50, "every_n_epochs": None}
        checkpoints = nd.Checkpoints(tmp_path / name, **when, on_failure="continue")
        return config_of("mlp", None, **fields | {"checkpoints": checkpoints} | more)

    model.fit(table(), config("whole"))
    place = LocalCheckpoints(tmp_path / "whole")
    small, large = (len(place.read(name)["state.json"]) for name in place.names()[-2:])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((small + large) // 2, before[1]))
    try:
        with pytest.raises(TrainingError, match=r"that of step 200 could not be written: .*File too large"):
            model.fit(table(), config("watched", fault_tolerance=FaultTolerance(retries=1)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert LocalCheckpoints(tmp_path / "watched").names() == place.names()[:3]
    fitted = model.fit(table(), config("watched", fault_tolerance=FaultTolerance(retries=1)), resume="auto")
    assert len(fitted.history.step_loss) == 200


def test_an_error_of_the_watched_process_is_raised_as_it_was_there_and_not_provoked_again(tmp_path: Path) -> None:
    model, _ = MODELS["mlp"]
    tolerant = {"fault_tolerance": FaultTolerance(retries=3)}
    wild = {"optimizer": nd.SGD(learning_rate=1e30), "gradient_clipping": None}
    with pytest.raises(NonFiniteError, match="must be finite, but at step"):
        model.fit(table(), config_of("mlp", tmp_path, **tolerant, **wild))
    model.fit(table(), config_of("mlp", tmp_path, max_epochs=1))
    with pytest.raises(StorageError, match="batch_size was 10, but is 5"):
        model.fit(table(), config_of("mlp", tmp_path, max_epochs=1, batch_size=5, **tolerant), resume="auto")
    assert sorted(path.name for path in (tmp_path / "attempts").iterdir()) == ["attempt-1.log", "heartbeat"]
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("error", "cause", "code"),
    [
        (nd.core.errors.DataFileError("no table"), None, 2),
        (StorageError("another run"), None, 2),
        (StorageError("no room", rule="writable", got="run"), OSError(28, "no space left"), 1),
        (nd.core.errors.DataError("gaps", advice=[nd.core.errors.Advice("data.gaps", "mask")]), None, 2),
        (TrainingError("unlucky"), None, 1),
    ],
)
def test_only_what_may_pass_is_tried_again(tmp_path: Path, error: Exception, cause: Exception, code: int) -> None:
    def fail(_: Path) -> None:
        raise error from cause

    assert work([str(tmp_path)], fail) == code
    left = error_of(tmp_path)
    assert type(left) is type(error)
    assert str(left) == str(error)
    assert left.facts == error.facts


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "annotations", "sentence": "x"}', '{"kind": "__doc__"}'])
def test_an_error_is_looked_up_among_our_own_only(tmp_path: Path, content: str) -> None:
    (tmp_path / "error.json").write_text(content)
    assert error_of(tmp_path) is None


def watched_process(run: Path) -> list[int]:
    """The processes that do the job of a run."""
    wanted = f"{supervised.WORKER}\0{run / 'job'}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and wanted in (entry / "cmdline").read_bytes() and lives(int(entry.name)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_training_whose_supervisor_was_killed_is_saved_and_ends(tmp_path: Path) -> None:
    """However often it validates and saves, which are signs of life too; and a refit is not begun."""
    program = f"""
import pathlib
from fault_runs import MODELS, config_of, table
from neuro_divergent.training.config.checkpoints import FaultTolerance
fields = {{"max_epochs": 100000, "validation_split": 0.2, "early_stopping": None, "refit_on_all": True}}
tolerant = {{"fault_tolerance": FaultTolerance(retries=1), "compile": False}}
MODELS["mlp"][0].fit(table(), config_of("mlp", pathlib.Path({str(tmp_path)!r}), **fields, **tolerant))
"""
    supervisor = subprocess.Popen([sys.executable, "-c", program], env=environment())
    try:
        wait_for(lambda: LocalCheckpoints(tmp_path).names())
        (training,) = watched_process(tmp_path)
    finally:
        supervisor.kill()
        supervisor.wait()
    try:
        wait_for(lambda: not lives(training))
    finally:
        for left in watched_process(tmp_path):
            os.kill(left, signal.SIGKILL)
    last = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()][-1]
    assert last["error"] == "SystemExit: 143"
    assert LocalCheckpoints(tmp_path).names()[-1] == f"step-{last['step']:08d}"
    assert not (tmp_path / "refit").exists()


DATA = (np.arange(40, dtype=np.float32).reshape(20, 2) / 40, np.ones((20, 1), dtype=np.float32))


def plain(directory: Path | None, *callbacks: nd.Callback, **fields: Any) -> nd.TrainingConfig:
    """Three epochs of five steps."""
    checkpoints = None if directory is None else nd.Checkpoints(directory, **fields)
    base = {"max_epochs": 3, "batch_size": 4, "validation_split": None, "progress": False, "compile": False}
    return nd.TrainingConfig(checkpoints=checkpoints, callbacks=callbacks, **base)


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_a_supervisor_that_was_gone_before_the_first_step_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thread: bool, saved: bool
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "beat"))
    monkeypatch.setenv(SUPERVISOR, str(gone.pid))
    steps: list[int] = []

    class Count(nd.Callback):
        def on_batch_end(self, state: Any) -> None:
            steps.append(state.step)

    codes: list[Any] = []

    def fit() -> None:
        with pytest.raises(SystemExit) as caught:
            nd.Trainer(plain(tmp_path if saved else None, Count())).fit(torch.nn.Linear(2, 1), DATA)
        codes.append(caught.value.code)

    if thread:  # where no signal can be handled
        other = threading.Thread(target=fit)
        other.start()
        other.join()
    else:
        fit()
    assert (codes, steps) == ([143], [])


@pytest.mark.parametrize(("on_stop", "stop_at", "step"), [(True, 99, 15), (False, 99, 15), (True, 8, 8), (False, 8, 8)])
def test_the_last_checkpoint_may_take_longer_than_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_stop: bool, stop_at: int, step: int
) -> None:
    """A supervisor allows so long for what is not called a step."""
    beat = tmp_path / "beat"
    monkeypatch.setenv(VARIABLE, str(beat))
    found: list[str] = []

    class Look(nd.Callback):
        def on_batch_end(self, state: Any) -> None:
            if state.step == stop_at:
                state.stop("enough")

        def on_fit_end(self, state: Any) -> None:  # the last write is over
            found.extend(beat.read_text().split()[:2])

    nd.Trainer(plain(tmp_path / "run", Look(), every_n_steps=1, on_stop=on_stop)).fit(torch.nn.Linear(2, 1), DATA)
    assert found == ["ending", str(step)]


def test_signs_of_life_do_not_change_how_a_step_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "beat"))
    config = plain(None).resolved()
    assert len(heartbeat()) == 1
    assert obstacle(config, heartbeat(), torch.nn.Linear(2, 1)) == obstacle(config, [], torch.nn.Linear(2, 1)) is None


def test_trainings_that_run_as_one_give_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "beat"))
    model, _ = MODELS["mlp"]
    config = config_of("mlp", None, max_epochs=2, early_stopping=None)
    nd.fit_many(model, table(), config, seeds=2, stacked=True)
    assert (tmp_path / "beat").read_text().split()[:3] == ["ending", "14", str(os.getpid())]


def test_a_supervised_training_says_what_it_needs(tmp_path: Path) -> None:
    model, _ = MODELS["mlp"]
    tolerant = {"fault_tolerance": FaultTolerance()}
    with pytest.raises(ConfigError, match=r"needs checkpoints=Checkpoints.* but got checkpoints=None"):
        model.fit(table(), config_of("mlp", None, **tolerant))
    with pytest.raises(ConfigError, match="cannot contain your own callables, but got Callback"):
        model.fit(table(), config_of("mlp", tmp_path, callbacks=(nd.Callback(),), **tolerant))
    with pytest.raises(ConfigError, match="retries=0"):
        nd.Trainer(config_of("mlp", tmp_path, **tolerant)).fit(None, None)  # type: ignore[arg-type]


def test_too_little_memory_halves_the_batch_and_keeps_the_step() -> None:
    """Sixteen rows in quarters are the sixteen rows of four accumulated batches of four: the same bits."""
    found = worker("memory")
    assert found["halved"] == found["small"]
    assert [event["micro_batches"] for event in found["halved_events"]] == [2, 4]
    assert "but 16 rows at step 1 did not" in found["refused"]
    assert "fault_tolerance=FaultTolerance(retries=0)" in found["refused"]
