"""Record what neuralforecast answers to the scripts of migration_scripts.py.

Run by hand, with a Python that has neuralforecast: `python tests/integration/record_peer.py`.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from migration_scripts import SCRIPTS, described, misuse, modules, raised

PREFIX = "neuralforecast"
RECORDS = Path(__file__).resolve().parent / "records"


def main(names: list[str]) -> None:
    """Write one file per script, and one for the misuse."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    versions = {name: version(name) for name in (PREFIX, "pandas", "torch")}
    for name, script in SCRIPTS.items():
        if not names or name in names:
            frames = script(modules(PREFIX))
            write(name, {"versions": versions, "frames": {key: described(frame) for key, frame in frames.items()}})
    if not names or "misuse" in names:
        found = {what: raised(call) for what, call in misuse(modules(PREFIX)).items()}
        write("misuse", {"versions": versions, "raised": found})
    if not names or "arguments" in names:
        write("arguments", {"versions": versions, "models": arguments()})


def arguments() -> dict[str, dict[str, Any]]:
    """Every model's arguments with their defaults; those without one are "required", losses are written by name."""
    models = modules(PREFIX)("models")
    found: dict[str, dict[str, Any]] = {}
    for name in models.__all__:
        parameters = inspect.signature(getattr(models, name).__init__).parameters
        found[name] = {
            key: "required" if item.default is item.empty else plain_default(item.default)
            for key, item in parameters.items()
            if key not in ("self", "trainer_kwargs")
        }
    return found


def plain_default(value: Any) -> Any:
    """A default as JSON."""
    known = value is None or isinstance(value, str | int | float | list)
    return value if known else type(value).__name__


def write(name: str, record: object) -> None:
    """One record as JSON."""
    (RECORDS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:  # its trainer writes logs where it stands
        os.chdir(scratch)
        main(sys.argv[1:])
