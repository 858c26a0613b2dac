"""The packages of `neuro-divergent bench --against`: names, Python interpreters, and one measurement of each.

Packages that cannot share one environment have their own interpreters. Each side of a comparison runs in its own
process: the script `steps.py`, started with a fixed list of arguments.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from neuro_divergent.cli.peers.steps import MODELS, WINDOWS
from neuro_divergent.core.errors import ConfigError, TrainingError, UnknownNameError

MODULES = {
    "neuralforecast": "neuralforecast",
    "darts": "darts.models",
    "gluonts": "gluonts.torch",
    "pytorch-forecasting": "pytorch_forecasting",
}
"""Peer → the module that must be importable."""

INSTALLED_BY = {
    "neuralforecast": "neuro-divergent[bench]",
    "darts": "darts[torch]",
    "gluonts": "gluonts[torch]",
    "pytorch-forecasting": "pytorch-forecasting",
}
"""Peer → the pip requirement that installs it."""


@dataclass(frozen=True)
class Side:
    """The measured speed of one side."""

    milliseconds: float
    parameters: int
    version: str
    torch: str


@dataclass(frozen=True)
class Comparison:
    """One model of a peer beside ours. `theirs` is None if the peer is not installed."""

    peer: str
    model: str
    windows: int
    ours: Side
    theirs: Side | None

    @property
    def ratio(self) -> float | None:
        """The peer's time divided by ours: how many times faster we are."""
        return None if self.theirs is None else self.theirs.milliseconds / self.ours.milliseconds

    def facts(self) -> dict[str, Any]:
        """The comparison for JSON."""
        return asdict(self) | {"ratio": self.ratio}


def known(names: Sequence[str], flag: str = "--against") -> tuple[str, ...]:
    """The names, each once, if all are peers.

    >>> known(["darts", "PyTorch_Forecasting", "darts"])
    ('darts', 'pytorch-forecasting')
    """
    wanted = tuple(dict.fromkeys(name.lower().replace("_", "-") for name in names))
    unknown = [name for name in wanted if name not in MODULES]
    if unknown or not wanted:
        got = ", ".join(unknown) or "none"
        raise UnknownNameError(f"{flag} takes the names {', '.join(MODULES)}, but got {got}")
    return wanted


def interpreters(pairs: Sequence[str]) -> dict[str, str]:
    """Peer → its interpreter, from NAME=PATH.

    >>> interpreters(["darts=/opt/darts/bin/python"])
    {'darts': '/opt/darts/bin/python'}
    """
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals or not path:
            raise ConfigError(f"--peer-python takes NAME=PATH, such as darts=envs/darts/bin/python, but got {pair!r}")
        found[known([name.strip()], "--peer-python")[0]] = path.strip()
    return found


def models_of(peer: str, wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The models in which a peer is compared, or only the wanted ones."""
    chosen = tuple(name for name in MODELS[peer] if not wanted or name.lower() in {item.lower() for item in wanted})
    if not chosen:
        raise ConfigError(f"{peer} is compared in {', '.join(MODELS[peer])}, but got --models {','.join(wanted)}")
    return chosen


def why_absent(peer: str, python: str) -> str | None:
    """A sentence that says why a peer cannot be measured and how to install it; None if it can be measured."""
    remedy = f"Install it (pip install '{INSTALLED_BY[peer]}'), or name a Python that has it: --peer-python {peer}=PATH"
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-c", f"import {MODULES[peer]}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        except OSError as error:
            return f"{peer} is skipped: {python} cannot be started ({error.strerror or error}). {remedy}"
    if done.returncode == 0:
        return None
    reason = _last_line(done.stderr) or f"exit code {done.returncode}"
    return f"{peer} is skipped: {python} cannot import it ({reason}). {remedy}"


def step_time(python: str, side: str, peer: str, model: str, *, steps: int, threads: int = 0) -> Side:
    """Time per step of one side, measured in its own process."""
    script = Path(__file__).with_name("steps.py")
    found = run_script(python, script, [side, peer, model, str(steps), str(threads)])
    return Side(**found)


def run_script(python: str, script: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """The JSON in the last line that a script prints. The script runs as a copy in an empty folder.

    Python searches the folder of a script first, and our folder has modules with the names of other packages.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copyfile(script, Path(folder) / "measured_here.py")
        command = [python, str(copy), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode:
        raise TrainingError(
            f"{' '.join(arguments)} must be measured by {python}, but it ended with: {_last_line(done.stderr)}"
        )
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def compare(peer: str, model: str, python: str | None, *, steps: int, threads: int = 0, rounds: int = 1) -> Comparison:
    """Both sides measured in turns, the best of each. Only ours if the peer has no interpreter."""
    own: list[Side] = []
    other: list[Side] = []
    for _ in range(rounds):
        own.append(step_time(sys.executable, "ours", peer, model, steps=steps, threads=threads))
        if python is not None:
            other.append(step_time(python, peer, peer, model, steps=steps, threads=threads))
    return Comparison(peer, model, WINDOWS[model], _best(own), _best(other) if other else None)


def _best(sides: Sequence[Side]) -> Side:
    return min(sides, key=lambda side: side.milliseconds)


def present(peers: Sequence[str], pythons: Mapping[str, str]) -> tuple[dict[str, str | None], list[str]]:
    """Peer → the interpreter that can import it, or None; and a sentence for each missing peer."""
    found: dict[str, str | None] = {}
    sentences = []
    for peer in peers:
        python = pythons.get(peer, sys.executable)
        sentence = why_absent(peer, python)
        found[peer] = python if sentence is None else None
        sentences += [] if sentence is None else [sentence]
    return found, sentences
