"""Run files from a stranger: they write inside of the run's directory, and cost little however they are made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

import neuro_divergent as nd
from neuro_divergent.cli.main import main
from neuro_divergent.core import registry
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.yaml import parse_yaml
from neuro_divergent.training.config.checkpoints import Checkpoints

WRITERS = {
    "CsvLog": ("path", "log.csv"),
    "JsonLines": ("path", "log.jsonl"),
    "LossPlot": ("path", "loss.png"),
    "TensorBoard": ("directory", "board"),
}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    nd.samples.air_passengers().write_csv(tmp_path / "air.csv")
    return tmp_path / "air.csv"


def _train(training: dict[str, Any], *flags: str, command: str = "train") -> int:
    small = {"max_steps": 1, "progress": False} | training
    document = {"data": {"file": "air.csv"}, "model": {"kind": "nlinear", "h": 2, "input_size": 4}, "training": small}
    Path("run.yaml").write_text(yaml.safe_dump(document))
    few = ["--models", "nlinear", "--n-windows", "1"] if command == "cv" else ["--no-report"]
    return main([command, "--config", "run.yaml", *few, *flags])


@pytest.mark.parametrize("kind", WRITERS)
def test_a_run_file_overwrites_nothing_outside_of_the_run(
    table: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    field, name = WRITERS[kind]
    victim = table.parent / "mine"
    victim.write_text("mine")
    for place in (str(victim), "../../mine", "../run-2/mine"):
        assert _train({"callbacks": [{"kind": kind, field: place}]}, "--out", "runs/a") == 2
        assert "--allow-writes" in capsys.readouterr().err
    assert victim.read_text() == "mine"
    assert {path.name for path in table.parent.iterdir()} == {"air.csv", "mine", "run.yaml", "runs"}
    # A relative path is one of the run's own.
    assert _train({"callbacks": [{"kind": kind, field: name}]}, "--out", "runs/b") == 0
    assert (table.parent / "runs" / "b" / name).exists()


def test_checkpoints_of_a_run_file_stay_in_the_run(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = table.parent / "elsewhere"
    for place in (str(elsewhere), "../elsewhere", "memory://elsewhere"):
        assert _train({"checkpoints": {"directory": place}}, "--out", "run") == 2
        assert "training.checkpoints.directory" in capsys.readouterr().err
    assert not elsewhere.exists()
    assert _train({"checkpoints": {"every_n_steps": 1}}, "--out", "run") == 0  # as ever
    assert (table.parent / "run" / "checkpoints").is_dir()


def test_what_is_typed_or_allowed_may_be_anywhere(table: Path) -> None:
    log = table.parent / "log.csv"
    written = {"callbacks": [{"kind": "CsvLog", "path": str(log)}]}
    assert _train(written, "--out", "a", "--allow-writes") == 0
    assert log.exists()
    log.unlink()
    assert _train({}, "--out", "b", "--set", f"training.callbacks=[{{kind: CsvLog, path: {log}}}]") == 0
    assert log.exists()


def test_cross_validation_by_a_run_file_writes_into_its_directory_only(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = {"callbacks": [{"kind": "CsvLog", "path": "log.csv"}]}
    assert _train(written, command="cv") == 2
    assert "there is none without --out" in capsys.readouterr().err
    assert _train(written, "--out", "compared", command="cv") == 0
    assert (table.parent / "compared" / "log.csv").exists()
    assert not (table.parent / "log.csv").exists()


def test_a_run_file_names_no_pipe_and_no_device_as_its_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reading /dev/zero takes all memory, and a pipe waits for ever."""
    table.unlink()
    os.mkfifo(table)
    assert _train({}) == 2
    assert "must be a file" in capsys.readouterr().err


def test_every_description_says_which_of_its_fields_are_written_to() -> None:
    """A field of a path that is not named in `writes` would slip through the confinement."""
    found = [Checkpoints, *(cls for cls in _descriptions() if cls.family == "callback")]
    assert len(found) > 7
    for cls in found:
        places = {name for name, field in cls.model_fields.items() if _is_path(field.annotation)}
        assert places == set(cls.writes), cls.kind


def _descriptions() -> list[type[Description]]:
    return [registry.resolve(family, name) for family in ("callback",) for name in registry.members(family)]


def _is_path(annotation: Any) -> bool:
    return annotation is Path or any(_is_path(part) for part in get_args(annotation))


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
HOSTILE = {
    "aliases of aliases": BOMB,
    "an alias of itself": "training: &a [*a]",
    "deep": "[" * 5000,
    "deep by indentation": "".join(" " * n + "a:\n" for n in range(600)),
    "many parts": "[" + "1," * 60_000 + "]",
    "long": "a: " + "x" * 300_000,
    "a number of ten thousand digits": "a: " + "9" * 10_000,
    "a day that is none": "a: 2024-13-45",
    "an object of Python": "a: !!python/object/apply:os.system ['touch HACKED']",
    "two documents": "a: 1\n---\na: 2",
    "a control character": "a: \x07",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^the run file x\.yaml must"):
        parse_yaml(HOSTILE[name], "the run file x.yaml")
    with pytest.raises(ConfigError):
        nd.TrainingConfig.from_yaml(HOSTILE[name])


def test_a_bomb_of_aliases_costs_no_memory(tmp_path: Path) -> None:
    """Resolved, the nine levels would be 3.8e8 parts; the process may have 200 MB more than at its start."""
    (tmp_path / "run.yaml").write_text("training:\n" + "".join(f"  {line}\n" for line in BOMB.splitlines()))
    code = (
        "import resource, sys\nfrom neuro_divergent.cli.main import main\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"code = main(['train', 'x.csv', '--h', '2', '--config', {str(tmp_path / 'run.yaml')!r}])\n"
        "print(code, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code, megabytes = map(int, done.stdout.split())
    assert code == 2
    assert megabytes < 200
    assert "has an alias" in done.stderr
