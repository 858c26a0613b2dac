"""What the fault tests run in a process of its own; prints one JSON object.

Everything is imported once; each attempt is a real child process made by fork, so that a thousand of them are cheap.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # every optimizer imports it: once here instead of in every child
from crash_shim import CRASHED, FailingDisk
from fault_runs import MODELS, fingerprint, train_and_report
from fault_tools import FAST

from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import StorageError, TrainingError
from neuro_divergent.training.config.checkpoints import Checkpoints, FaultTolerance
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.module_trainer import Trainer
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints, step_name
from neuro_divergent.training.runs.resume import newest
from neuro_divergent.training.runs.retention import Kept
from neuro_divergent.training.runs.saver import Saver
from neuro_divergent.training.runs.snapshot import Snapshot
from neuro_divergent.training.state.history import History

RUN = "disk/parent/run"


def in_child(work: Callable[[], Any]) -> int:
    """Run in a forked process; its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def snapshot(step: int) -> Snapshot:
    # One tensor is large enough to be written by itself, so that a file takes several writes.
    tensors = {"module/w": torch.full((50,), float(step)), "module/large": torch.full((20_000,), float(step))}
    document = {"schema": 1, "kind": "Checkpoint", "progress": {"step": step}, "history": {"events": []}}
    return Snapshot(document, tensors, {"w/exp_avg": torch.zeros(50)}, [0.5] * step, [1.0] * step)


def save(run: Path, step: int) -> None:
    """One checkpoint as the engine writes it, keeping only the newest; a failure is raised."""
    saver = Saver(Checkpoints(run, keep_last=1, asynchronous=False), {})
    saver.begin(step - 1 if step > 1 else None)
    saver.write(snapshot(step), Kept(step_name(step), step, None))
    if saver._failure is not None:
        raise saver._failure


def save_model(run: Path, step: int) -> None:
    """A model directory that is replaced."""
    bundle.write(run / "model", {"model.json": b"%d" % step}, overwrite=True)


def loaded(run: Path) -> int:
    """The step of the newest good checkpoint, 0 for a clean "none yet"; anything damaged is an error."""
    found, damaged = newest(LocalCheckpoints(run))
    assert not damaged, damaged
    if found is None:
        return 0
    assert found.weights["module/w"].tolist() == [float(found.step)] * 50
    assert found.weights["module/large"].tolist() == [float(found.step)] * 20_000
    return found.step


def loaded_model(run: Path) -> int:
    try:
        return int(bundle.read(run / "model")["model.json"])
    except StorageError as error:
        if "does not exist" not in str(error):
            raise
        return 0


SCENARIOS: dict[str, tuple[Callable[[Path, int], None], Callable[[Path], int]]] = {
    "checkpoints": (save, loaded),
    "models": (save_model, loaded_model),
}


def crash(_: list[str]) -> dict[str, Any]:
    """Crash at every operation of a first and a second save, in every way."""
    tried, bad = 0, []
    for scenario, (write, read) in SCENARIOS.items():
        with tempfile.TemporaryDirectory(dir=FAST) as folder:
            operations = _saves(write, Path(folder), 0, "crash").done
        for mode in ("crash", "torn", "drop", "ENOSPC", "EIO"):
            for point, operation in enumerate(operations, start=1):
                if mode == "torn" and operation != "write":
                    continue
                tried += 1
                with tempfile.TemporaryDirectory(dir=FAST) as folder:
                    wrong = _attempt(write, Path(folder), point, mode)
                    wrong += _after(Path(folder) / RUN, write, read, before=int((Path(folder) / "first").exists()))
                bad += [f"{scenario}, {mode} at {point}, {operation}: {reason}" for reason in wrong]
    return {"tried": tried, "bad": bad}


def _attempt(write: Callable[[Path, int], None], folder: Path, point: int, mode: str) -> list[str]:
    """What is wrong with the way in which two saves met their fate."""
    if mode not in ("ENOSPC", "EIO"):
        code = in_child(lambda: _saves(write, folder, point, mode))
        return [] if code == CRASHED else [f"exit code {code}"]
    disk = _saves(write, folder, point, mode)
    # What could not be removed is left over, of course: the next save removes it.
    left = [path.name for path in (folder / RUN).rglob(f"{files.TEMPORARY_PREFIX}*")]
    return [f"leftovers: {left}"] if left and disk.done[point - 1] not in ("unlink", "rmdir") else []


def _saves(write: Callable[[Path, int], None], folder: Path, point: int, mode: str) -> FailingDisk:
    """Two saves on a failing disk; a file elsewhere tells that the first one was done."""
    (folder / "disk").mkdir()
    disk = FailingDisk(folder / "disk", point, mode)
    disk.install()
    try:
        write(folder / RUN, 1)
        (folder / "first").touch()
        write(folder / RUN, 2)
    except StorageError:
        pass
    finally:
        disk.remove()
    return disk


def _after(run: Path, write: Callable[[Path, int], None], read: Callable[[Path], int], before: int) -> list[str]:
    """What is wrong after a crash: nothing may be lost, and the next save must work and clean up."""
    try:
        found = read(run)
        if found not in (before, before + 1):
            return [f"step {found} was loaded"]
        write(run, before + 1 if found == before else before + 2)
        if read(run) <= before:
            return ["the save after it was lost"]
        left = [path.name for path in (run / "checkpoints").rglob(".nd-*")]
        return [f"leftovers: {left}"] if left else []
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def kill(arguments: list[str]) -> dict[str, Any]:
    """SIGKILL at random instants, resume, and compare with the run that was never killed."""
    wanted, chance = int(arguments[0]), random.Random(int(arguments[1]))
    kills, survived, bad = 0, 0, []
    for number, name in enumerate(MODELS):
        share = wanted // len(MODELS) + (number < wanted % len(MODELS))
        with tempfile.TemporaryDirectory(dir=FAST) as folder:
            whole = Path(folder) / "whole"
            begun = time.monotonic()
            assert in_child(lambda: _report(name, whole, None, Path(folder) / "whole.json")) == 0  # noqa: B023
            length = time.monotonic() - begun
            expected = json.loads((Path(folder) / "whole.json").read_text())
            mine = pending = 0
            while mine < share or pending:
                run, answer = Path(folder) / "run", Path(folder) / "run.json"
                workers = {} if name == "lstm" else {"num_workers": 2 * chance.randrange(2)}
                ended = _killed(name, run, answer, workers, chance.uniform(0.0, length) if mine < share else None)
                if not ended:
                    mine, pending = mine + 1, pending + 1
                    continue
                same = answer.exists() and json.loads(answer.read_text()) == expected
                if not same:
                    bad.append(f"{name}: the result differs after {pending} kills")
                survived, pending = survived + pending * same, 0
                shutil.rmtree(run)
            kills += mine
    return {"tried": kills, "survived": survived, "bad": bad}


def _killed(name: str, run: Path, answer: Path, fields: dict[str, Any], after: float | None) -> bool:
    """Whether the training came to its end before the kill."""
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            _report(name, run, "auto", answer, **fields)
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
            os._exit(1)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL


def _report(name: str, run: Path, resume: str | None, answer: Path, **fields: Any) -> None:
    answer.write_text(json.dumps(train_and_report(name, run, resume, **fields)))


class Hungry(torch.nn.Module):
    """Needs forty megabytes for every row."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.2), torch.nn.Linear(4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        room = torch.empty(x.shape[0] * 10_000_000)
        return self.inner(x) + 0.0 * room[0].nan_to_num(0.0, 0.0, 0.0).detach()


def memory(_: list[str]) -> dict[str, Any]:
    """Train with too little memory for a batch, and with smaller batches from the start."""
    rows = (torch.linspace(0, 1, 64).reshape(32, 2), torch.ones(32, 1))
    tolerant = {"fault_tolerance": FaultTolerance(retries=0)}
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + 250_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    found: dict[str, Any] = {}
    for name, fields in {
        "small": {"batch_size": 4, "accumulate_gradients": 4},
        "halved": {"batch_size": 16} | tolerant,
    }.items():
        module = Hungry()
        config = TrainingConfig(max_epochs=2, validation_split=None, progress=False, **fields)
        history = Trainer(config).fit(module, rows)
        found[name] = fingerprint(module, History(epochs=history.epochs, step_loss=history.step_loss))
        found[f"{name}_events"] = history.events
    try:
        Trainer(TrainingConfig(max_epochs=2, batch_size=16, validation_split=None)).fit(Hungry(), rows)
    except TrainingError as error:
        found["refused"] = str(error)
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    commands = {"crash": crash, "kill": kill, "memory": memory}
    sys.stdout.write(json.dumps(commands[sys.argv[1]](sys.argv[2:])) + "\n")
