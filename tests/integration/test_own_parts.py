"""A package with one of each kind of part, found by its metadata: checked, trained, saved, and called on the shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "own_parts"

CHECKED = """
from neuro_divergent import conformance
from neuro_divergent.core.registry import resolve

for family, name, kind in (
    ("model", "hold", "model"), ("loss", "fourth", "loss"), ("schedule", "halving", "schedule"),
    ("optimizer", "signed", "optimizer"), ("window scaler", "peak_one", "scaler"),
):
    part, check = resolve(family, name), getattr(conformance, f"check_{kind}")
    for one in getattr(conformance, f"{kind.upper()}_CHECKS"):
        check(part, one)
print("all hold")
"""

RUN_FILE = """
data: {file: sales.csv, freq: 1d, gaps: linear}
model: {kind: hold, h: 4, input_size: 8, scaler: peak_one}
training:
  max_epochs: 6
  batch_size: 16
  loss: {kind: fourth, width: 0.5}
  schedule: {kind: halving, every: 4}
  optimizer: {kind: signed, learning_rate: 0.01}
  metrics: [exceeded, mae]
  early_stopping: {kind: EarlyStopping, monitor: exceeded, patience: 50}
  callbacks: [{kind: count_steps, every: 2}]
  strategy: {kind: every_other}
"""


def run(*command: str, cwd: Path) -> str:
    path = os.pathsep.join([str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_every_part_passes_its_suite(tmp_path: Path) -> None:
    assert run("-c", CHECKED, cwd=tmp_path) == "all hold\n"


def test_one_training_uses_all_of_them_by_name(tmp_path: Path) -> None:
    rows = "\n".join(f"2024-{month:02d}-{day:02d},{3 + day % 7}" for month in (1, 2, 3) for day in range(1, 29))
    (tmp_path / "sales.csv").write_text(f"ds,y\n{rows}\n")
    (tmp_path / "run.yaml").write_text(RUN_FILE)
    command = ("-m", "neuro_divergent")
    run(*command, "train", "--config", "run.yaml", "--out", "run", "--no-report", "--json", cwd=tmp_path)
    document = json.loads((tmp_path / "run" / "model" / "model.json").read_text())
    config, history = document["config"], document["history"]
    assert [config[name]["kind"] for name in ("loss", "schedule", "optimizer", "strategy")] == [
        "Fourth", "Halving", "Signed", "EveryOther",
    ]  # fmt: skip
    assert config["early_stopping"]["monitor"] == "validation_exceeded"
    assert document["model"]["scaler"] == "PeakOne"
    counted = [event["counted"] for event in history["events"] if "counted" in event]
    assert counted[:2] == [2, 4]
    # The rate of step t is 0.01 halved after every four steps; an epoch's record has that of its last step.
    steps_per_epoch = counted[-1] // len(history["epochs"]) or 1
    last = history["epochs"][-1]
    assert last["learning_rate"] == 0.01 * 0.5 ** ((len(history["epochs"]) * steps_per_epoch - 1) // 4)
    assert 0.0 <= last["validation_exceeded"] <= 1.0
    said = run(*command, "evaluate", "run", "sales.csv", "--metrics", "exceeded,mae", "--json", cwd=tmp_path)
    assert 0.0 <= json.loads(said)["overall"][0]["exceeded"] <= 1.0
    assert run(*command, "countdown", "4", "--step", "2", cwd=tmp_path) == "4 2 0\n"
