"""Several models whose process was killed: the finished one is kept, the one cut short goes on, the next one begins."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fault_runs import fingerprint, table
from fault_tools import environment

import neuro_divergent as nd
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints

NAMES = ["MLP", "LSTM", "DLinear"]
SCRIPT = """
import os, signal, sys
from pathlib import Path
import neuro_divergent as nd
from test_faults_many import fit

class Kill(nd.Callback):
    def on_batch_end(self, state):
        if state.run_directory.name == "LSTM" and state.step == 17:
            state.saver.join()
            os.kill(os.getpid(), signal.SIGKILL)

fit(Path(sys.argv[1]), None, Kill())
"""


class Count(nd.Callback):
    """How many steps each model was trained for."""

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()

    def on_batch_end(self, state: Any) -> None:
        self.steps[state.run_directory.name] += 1


def fit(run: Path, resume: Path | str | None, *callbacks: nd.Callback) -> nd.NeuralForecast:
    models = [
        nd.MLP(h=3, input_size=8, hidden_size=8, layers=1),
        nd.LSTM(h=3, input_size=8, hidden_size=4, layers=2, dropout=0.3),
        nd.DLinear(h=3, input_size=8),
    ]
    config = nd.TrainingConfig(
        max_epochs=4,
        batch_size=10,
        steps_per_epoch=7,
        callbacks=callbacks,
        threads=1,
        progress=False,
        checkpoints=nd.Checkpoints(run, every_n_steps=5, keep_last=2),
    )
    return nd.NeuralForecast(models, local_scaler_type="standard").fit(table(), config, resume=resume)


def results(fitted: nd.NeuralForecast) -> list[str]:
    return [fingerprint(item.module, item.history) for item in fitted.forecasters.values()]


@pytest.mark.parametrize("how", ["auto", "path", "elsewhere"])
def test_models_whose_process_was_killed_go_on_to_the_bits_of_the_run_that_was_not(tmp_path: Path, how: str) -> None:
    run = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(run)], env=environment(), capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [LocalCheckpoints(run / name).names()[-1:] for name in NAMES] == [["step-00000028"], ["step-00000015"], []]
    shutil.copytree(run, tmp_path / "kept")
    steps = Count()
    source = {"auto": "auto", "path": run, "elsewhere": tmp_path / "kept"}[how]
    own = tmp_path / "other" if how == "elsewhere" else run
    fitted = fit(own, source, steps)
    whole = fit(tmp_path / "whole", None)
    assert fitted.predict().equals(whole.predict())
    assert results(fitted) == results(whole)
    assert steps.steps == {"LSTM": 28 - 15, "DLinear": 28}
    # Everything has ended: the same call gives the same results, and trains nothing.
    again = fit(own, "auto", steps)
    assert again.predict().equals(whole.predict())
    assert steps.steps.total() == 28 - 15 + 28
