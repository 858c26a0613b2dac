"""What an editor sees: mypy and pyright accept every Python block of README and docs, and find what is wrong.

Each tool runs once, over all pages and two files of this folder's own: `RIGHT` must pass, and in `WRONG` the lines that
are marked with "# wrong" must be found, and no others.
"""

import json
import os
import re
import subprocess
import sys

import pytest

from pages import PAGES, ROOT, blocks, name_of

RIGHT = """
from pathlib import Path
from typing import Any, assert_type

import polars as pl
import torch

import neuro_divergent as nd

frame = nd.samples.air_passengers()


def show(epoch: int, logs: dict[str, float]) -> None:
    print(epoch, logs)


config = nd.TrainingConfig(
    early_stopping=15, gradient_clipping=1.0, teacher_forcing=0.5, augmentation=True, learning_rate=1e-3,
    mixed_precision=True, verbose=True, optimizer=nd.AdamW, schedule=nd.CosineAnnealing, loss="mae",
    freeze=("hidden1",), callbacks=[show, nd.Timer(max_minutes=1), nd.CsvLog], metrics=["mae"], checkpoints="runs/a",
)
nd.TrainingConfig(optimizer="adamw", loss=nd.MAE, schedule=lambda step: 1.0, checkpoints=Path("a"), callbacks=show)
both = [nd.ClipByValue(1.0), nd.ClipByNorm(1)]
nd.TrainingConfig(optimizer=torch.optim.Adamax, early_stopping=None, gradient_clipping=both)
nd.TrainingConfig(checkpoints=nd.Checkpoints("runs/a", compression=True), loss=lambda output, target: output - target)
nd.NHITS(h=12, input_size=24, blocks=[1, 1, 1], anchor=[12])
nd.MQLoss(level=[80, 95], point="mean"), nd.MQLoss(quantiles=[0.1, 0.5, 0.9])
nd.ClipByValue(-1, 1), nd.ClipByNorm(0.5, norm=1.0)
nd.DistributionLoss(distribution="Gaussian")
nd.CosineAnnealing(t_max=10), nd.ExponentialDecay(every=5)
assert_type(nd.MQLoss(level=[80]).level, tuple[float, ...] | None)
assert_type(config.metrics, tuple[str | nd.metrics.Metric, ...])
assert_type(config.early_stopping, nd.EarlyStopping | Literal["auto"] | None)

fitted = nd.DLinear(h=6, input_size=12).fit(frame, config, freq="1mo")
assert_type(fitted, nd.Forecaster[pl.DataFrame])
assert_type(fitted.predict(level=[80]), pl.DataFrame)
assert_type(fitted.predict(frame), pl.DataFrame)
assert_type(nd.load("x"), nd.Forecaster[Any] | nd.NeuralForecast | nd.Ensemble)
nd.load("x").predict(level=[80])
assert_type(nd.Forecaster.load("x"), nd.Forecaster[Any])
assert_type(nd.NeuralForecast.load(Path("x")), nd.NeuralForecast)
assert_type(nd.Ensemble.load("x"), nd.Ensemble)
""".replace("import Any, assert_type", "import Any, Literal, assert_type")

WRONG = """
import neuro_divergent as nd

nd.NHIT(h=12, input_size=24)  # wrong
nd.NHITS(h=12, input_size=24, max_steps=5)  # wrong
nd.NHITS(h="12", input_size=24)  # wrong
nd.NHITS(input_size=24)  # wrong
nd.TrainingConfig(max_epoch=5)  # wrong
nd.TrainingConfig(early_stopping="soon")  # wrong
nd.TrainingConfig(metrics=3)  # wrong
nd.MQLoss(level="80")  # wrong
nd.ClipByNorm(1.0, 2.0)  # wrong
nd.Checkpoints(3)  # wrong
model = nd.DLinear(h=6, input_size=12)
model.fit(nd.samples.air_passengers(), {"max_steps": 5})  # wrong
fitted = model.fit(nd.samples.air_passengers(), max_steps=5)  # wrong
model.fit(nd.samples.air_passengers()).predict().to_pands()  # wrong
nd.load("x").predict(levels=[80])  # wrong
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file of each page, as test_documents joins its blocks, and the two of this test."""
    folder = tmp_path_factory.mktemp("snippets")
    texts = {re.sub(r"\W", "_", name_of(page)): "\n\n".join(blocks(page, "python")) for page in PAGES}
    for name, text in (texts | {"right": RIGHT, "wrong": WRONG}).items():
        if text:
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
    settings = {"include": ["."], "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return folder


def run(folder, *command):
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, env=environment, timeout=300
    )


def check(found: dict[tuple[str, int], str]) -> None:
    marked = {("wrong.py", line) for line, text in enumerate(WRONG.splitlines(), 1) if text.endswith("# wrong")}
    assert {place: text for place, text in found.items() if place not in marked} == {}
    assert not marked - found.keys(), "these lines are wrong, but were accepted"


def test_mypy_reads_all_snippets(folder):
    cache = ROOT / ".mypy_cache" / "snippets"
    files = sorted(path.name for path in folder.glob("*.py"))
    done = run(folder, "mypy", "--config-file=", "--follow-imports=silent", f"--cache-dir={cache}", *files)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines = re.findall(r"^(\w+\.py):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    check({(name, int(line)): text for name, line, text in lines})


def test_pyright_reads_all_snippets(folder):
    """basedpyright, in pyright's own mode: unlike pyright's package it brings everything that it needs."""
    done = run(folder, "basedpyright", "--pythonpath", sys.executable, "--outputjson")
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one for one in found if one["severity"] == "error"]
    check({(os.path.basename(one["file"]), one["range"]["start"]["line"] + 1): one["message"] for one in errors})
