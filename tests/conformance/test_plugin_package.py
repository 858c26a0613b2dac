"""What another package brings is used by name: real processes, the package found by the metadata beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "plugin_package"


def run(*arguments: str, cwd: Path, more: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = [str(part) for part in (more, PLUGIN) if part] + [os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-m", "neuro_divergent", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, path))},
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = "\n".join(f"2024-{month:02d}-{day:02d},{day % 7}" for month in (1, 2, 3) for day in range(1, 29))
    (tmp_path / "sales.csv").write_text(f"ds,y\n{rows}\n")
    return tmp_path


def test_a_run_file_names_the_model_the_metric_the_callback_and_the_scaler(table: Path) -> None:
    (table / "run.yaml").write_text(
        "data: {file: sales.csv, freq: 1d, gaps: linear}\n"
        "model: {kind: drift, h: 4, input_size: 8, scaler: last_value}\n"
        "training: {max_epochs: 50, metrics: [too_low, mae], callbacks: [{kind: stop_after, steps: 3}]}\n"
    )
    done = run("train", "--config", "run.yaml", "--out", "run", "--no-report", "--json", cwd=table)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stopped"] == "the drift package has seen enough"
    config = json.loads((table / "run" / "config.json").read_text())
    assert "StopAfter" in json.dumps(config)
    # A fresh process reads it back: the saved model names the plugin's classes.
    done = run("evaluate", "run", "sales.csv", "--metrics", "too-low,mae", "--json", cwd=table)
    assert done.returncode == 0, done.stderr
    assert 0.0 <= json.loads(done.stdout)["overall"][0]["too-low"] <= 1.0


def test_the_command_of_a_package(tmp_path: Path) -> None:
    assert run("drift", "1,2,4", "--h", "2", cwd=tmp_path).stdout == "5.5,7\n"
    assert "Straight lines into the future. (drift-forecaster)" in " ".join(run("--help", cwd=tmp_path).stdout.split())
    own = run("drift", "--help", cwd=tmp_path).stdout
    assert "Continue a line" in own
    assert "How many steps ahead" in own
    assert run("drift", "1,2", "--hh", "2", cwd=tmp_path).returncode == 2


def test_broken_commands_do_not_break_the_others(tmp_path: Path) -> None:
    info = tmp_path / "broken_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[neuro_divergent.commands]\nabsent = no_such_module_of_tests:run\ntrain = os:getcwd\n"
    )
    helped = run("--help", cwd=tmp_path, more=tmp_path)
    assert helped.returncode == 0
    assert "Train a model on a table" in " ".join(helped.stdout.split())
    (warning,) = helped.stderr.splitlines()
    assert "'train' exists and the package broken-plugin defines it again. It is left out" in warning
    assert run("drift", "1,2", cwd=tmp_path, more=tmp_path).stdout == "3\n"
    asked = run("absent", cwd=tmp_path, more=tmp_path)
    assert asked.returncode == 1
    (said,) = asked.stderr.splitlines()
    assert "the command 'absent' of the package broken-plugin could not be loaded: ModuleNotFoundError" in said
    script = run("completion", "bash", cwd=tmp_path, more=tmp_path)
    assert script.returncode == 0
    assert "drift" in script.stdout
    assert "'absent' of the package broken-plugin could not be loaded" in script.stderr


def test_help_imports_no_command_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "loud_plugin.py").write_text("raise SystemExit('imported')\n")
    info = tmp_path / "loud_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[neuro_divergent.commands]\nloud = loud_plugin:run\n")
    done = run("--help", cwd=tmp_path, more=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "A command of the package loud-plugin" in " ".join(done.stdout.split())


def test_a_package_brings_several_commands_under_one_name(tmp_path: Path) -> None:
    (tmp_path / "zoo_plugin.py").write_text(
        "from cyclopts import App\napp = App(name='animals', help='Animals.')\n"
        "@app.command\ndef count():\n    'Count them.'\n    print(3)\n"
    )
    info = tmp_path / "zoo_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zoo-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[neuro_divergent.commands]\nzoo = zoo_plugin:app\n")
    assert run("zoo", "count", cwd=tmp_path, more=tmp_path).stdout == "3\n"
    assert "zoo" in run("--help", cwd=tmp_path, more=tmp_path).stdout
