"""A validation that is interrupted or does not fit into the memory: the run goes on, to the same bits when resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from fault_tools import environment
from torch import nn

import neuro_divergent as nd
from neuro_divergent.training.config.checkpoints import FaultTolerance
from neuro_divergent.training.runs import snapshot as checkpoint
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints

SCRIPT = """
import json, sys, time
from pathlib import Path
import numpy as np, polars as pl, torch
from torch import nn
import neuro_divergent as nd
from fault_runs import fingerprint
from neuro_divergent.training.callbacks.base import CallbackSettings

case, folder, slow = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
seconds, live = 0.0, []

class Slow(nn.Module):
    "Takes its time for every batch of one validation."
    def forward(self, x):
        if not self.training:
            time.sleep(seconds)
        return x

class Counts(nd.Callback):
    "Keeps and logs how many validations began and ended, and says that one has begun."
    def __init__(self):
        self.seen = {"began": 0, "ended": 0}
    def on_validation_start(self, state):
        global seconds
        self.seen["began"] += 1
        seconds = 3.0 if self.seen["began"] == slow else 0.0
        state.log(began=self.seen["began"])
        (folder / f"began-{self.seen['began']}").touch()
    def on_validation_end(self, state):
        self.seen["ended"] += 1
        state.log(ended=self.seen["ended"])
    def state_dict(self):
        return self.seen
    def load_state_dict(self, data):
        self.seen = data

class Counting(CallbackSettings):
    def build(self):
        live.append(Counts())
        return live[-1]

class SlowMLP(nd.MLP):
    def build(self, spec):
        network = super().build(spec)
        network.register_forward_pre_hook(lambda module, _: None if module.training else time.sleep(seconds))
        return network

fields = {
    "average": {"averaging": nd.EMA(decay=0.9), "num_workers": 2},
    "two weights": {"optimizer": nd.ScheduleFreeAdamW(learning_rate=0.01)},
    "refit": {"refit_on_all": True},
}[case]

def run(directory, resume):
    live.clear()
    config = nd.TrainingConfig(**{
        "max_epochs": 3, "batch_size": 16, "steps_per_epoch": 3, "schedule": None, "callbacks": (Counting(),),
        "early_stopping": nd.EarlyStopping(patience=3), "metrics": ("mae",), "progress": False, "compile": False,
        "checkpoints": nd.Checkpoints(directory, keep_last=1), **fields,
    })
    if case == "refit":
        steps = np.arange(24_000)
        table = pl.DataFrame({"unique_id": "a", "ds": steps, "y": np.sin(steps * 0.3)})
        model = SlowMLP(h=2, input_size=4, hidden_size=4, layers=1)
        fitted = model.fit(table, config.replace(validation_split=0.5), resume=resume)
        return fingerprint(fitted.module, fitted.history), live[0].seen
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 4), Slow(), nn.Dropout(0.1), nn.Linear(4, 1))
    x = np.random.default_rng(0).random((12 * 1024, 2), dtype=np.float32)
    history = nd.Trainer(config).fit(module, (x[:48], x[:48, :1]), validation=(x, x[:, :1]), resume=resume)
    return fingerprint(module, history), live[0].seen

found = [run(folder / "run", "auto")]
if not slow:
    found.append(run(folder / "whole", None))
print(json.dumps(found))
"""


SMALL_MEMORY = """
import json, resource, sys
from pathlib import Path
import torch
import neuro_divergent as nd
from fault_runs import fingerprint
from fault_worker import Hungry  # forty megabytes for every row
from neuro_divergent.training.config.checkpoints import FaultTolerance

class Watched(Hungry):
    def forward(self, x):
        self.largest = max(self.largest, 0 if self.training else len(x))
        return super().forward(x)

folder = Path(sys.argv[1])
rows, held = (torch.linspace(0, 1, 32).reshape(16, 2), torch.ones(16, 1)), torch.linspace(0, 2, 48).reshape(24, 2)

def fit(name, resume=None, **fields):
    saved = nd.Checkpoints(folder / name, every_n_epochs=1, keep_last=None)
    config = nd.TrainingConfig(
        max_epochs=3, batch_size=4, schedule=None, metrics=("mae",), checkpoints=saved, progress=False, **fields
    )
    module = Watched()
    module.largest = 0
    history = nd.Trainer(config).fit(module, rows, validation=(held, held[:, :1]), resume=resume)
    run = fingerprint(module, history)
    return {"run": run, "epochs": history.epochs, "events": history.events, "rows": module.largest}

unlimited = resource.getrlimit(resource.RLIMIT_AS)
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
found = {"whole": fit("whole")}
resource.setrlimit(resource.RLIMIT_AS, (size + 350_000_000, unlimited[1]))
found["pieces"] = fit("pieces", fault_tolerance=FaultTolerance(retries=0))
try:
    fit("refused")
except nd.TrainingError as error:
    found["refused"] = str(error)
resource.setrlimit(resource.RLIMIT_AS, unlimited)
found["resumed"] = fit("again", resume=folder / "pieces" / "checkpoints" / "step-00000008")
print(json.dumps(found))
"""


def start(case: str, folder: Path, slow: int) -> subprocess.Popen[str]:
    command, pipe = [sys.executable, "-c", SCRIPT, case, str(folder), str(slow)], subprocess.PIPE
    return subprocess.Popen(command, env=environment(), stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize(("case", "validation"), [("average", 2), ("two weights", 1), ("refit", 3)])
def test_a_signal_does_not_wait_for_a_validation_and_the_run_goes_on_to_the_same_bits(
    tmp_path: Path, case: str, validation: int
) -> None:
    # Twelve batches are validated then, in three seconds each: it would end half a minute after the signal.
    process = start(case, tmp_path, validation)
    try:
        deadline = time.monotonic() + 240
        while not (tmp_path / f"began-{validation}").exists() and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        time.sleep(1.0)  # into its middle
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=25)
    finally:
        process.kill()
    assert process.returncode == 143, said
    place = LocalCheckpoints(tmp_path / "run")
    assert place.names() == [f"step-{3 * validation:08d}"]
    saved = checkpoint.read(place.read(place.names()[0]), "saved").document
    assert saved["progress"]["position"] == 3
    assert saved["progress"]["epoch"] == len(saved["history"]["epochs"]) == validation - 1
    assert saved["callbacks"][0]["state"] == {"began": validation - 1, "ended": validation - 1}
    output, said = start(case, tmp_path, 0).communicate(timeout=240)
    assert output, said
    resumed, whole = json.loads(output)
    assert resumed == whole
    assert whole[1] == {"began": 3, "ended": 3}
    # The last one holds the end of the last epoch, whether or not its step had been saved before that.
    last = checkpoint.read(place.read(place.names()[-1]), "last").document
    assert last["progress"]["position"] == 0
    assert len(last["history"]["epochs"]) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses memory beyond RLIMIT_AS with an error")
def test_a_validation_that_does_not_fit_into_the_memory_is_added_up_from_pieces(tmp_path: Path) -> None:
    """Expected: the figures of the run that had memory enough; and of the resumed run the bits of that in pieces."""
    command = [sys.executable, "-c", SMALL_MEMORY, str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["whole"]["events"] == []
    pieces = [event["validation_pieces"] for event in found["pieces"]["events"]]
    assert pieces in ([2, 4], [2, 4, 8])  # 24 rows need 960 MB, six of them 240
    assert {event["event"] for event in found["pieces"]["events"]} == {"out_of_memory"}
    assert f"validation batches of {24 // pieces[-1]} instead of {24 // pieces[-2]} rows" in done.stderr
    for epoch, whole in zip(found["pieces"]["epochs"], found["whole"]["epochs"], strict=True):
        assert epoch["train_loss"] == whole["train_loss"]
        for name in ("validation_loss", "validation_mae"):
            assert epoch[name] == pytest.approx(whole[name], rel=1e-6)
    # With memory enough, and not told of any tolerance, it goes on in the pieces that it had.
    assert found["resumed"]["rows"] == 24 // pieces[-1]
    assert found["resumed"]["run"] == found["pieces"]["run"]
    assert found["refused"].startswith("a validation batch must fit into memory, but 24 rows after step 4 did not")
    assert "FaultTolerance(retries=0)" in found["refused"]


class Forgetful(nn.Module):
    """Runs out of memory without a word."""

    def __init__(self, training: bool) -> None:
        super().__init__()
        self.layer, self.fails = nn.Linear(1, 1), training

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training == self.fails:
            raise MemoryError
        output: torch.Tensor = self.layer(x)
        return output


@pytest.mark.parametrize("training", [True, False])
def test_an_error_without_words_is_named(training: bool) -> None:
    x = torch.ones(8, 1)
    config = nd.TrainingConfig(max_epochs=1, batch_size=8, fault_tolerance=FaultTolerance(retries=0), progress=False)
    with pytest.raises(nd.TrainingError, match=r"1 rows .* did not: MemoryError"):
        nd.Trainer(config).fit(Forgetful(training), (x, x), validation=(x, x))
