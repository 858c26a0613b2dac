"""The table of names (core/kinds.py): it is what the source holds, and one name imports one model's file."""

import json
import subprocess
import sys
from pathlib import Path

import neuro_divergent as nd
from neuro_divergent import models
from neuro_divergent.core.kinds import KINDS

EVERYTHING = """
import importlib, json, pkgutil
import neuro_divergent
for found in pkgutil.walk_packages(neuro_divergent.__path__, "neuro_divergent."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
from neuro_divergent.core import registry
print(json.dumps({
    family: {cls.kind: cls.__module__ for cls in members.values()} for family, members in registry._families.items()
}))
"""


def in_a_fresh_process(code: str, *arguments: str, cwd: Path | None = None) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_table_names_every_class_of_the_source():
    """The compatibility layer stays out of it: its kinds are known to those who import it."""
    found = json.loads(in_a_fresh_process(EVERYTHING).splitlines()[-1])
    own = {
        family: {kind: module for kind, module in members.items() if not module.startswith("neuro_divergent.compat.")}
        for family, members in found.items()
    }
    named = {family: set(kinds) for family, kinds in KINDS.items()}
    assert named == {family: set(kinds) for family, kinds in own.items() if kinds}
    wrong = {
        kind: f"named in {home}, but defined in {own[family][kind]}"
        for family, kinds in KINDS.items()
        for kind, home in kinds.items()
        if not f"{own[family][kind]}.".startswith(f"neuro_divergent.{home}.")
    }
    assert not wrong


def test_every_model_has_a_file_of_its_own():
    homes = KINDS["model"]
    assert len(set(homes.values())) == len(homes)
    assert set(models.__all__) == set(homes)
    assert set(homes) <= set(nd.__all__)


LOADED = "; import sys; print(sorted(m[23:] for m in sys.modules if m.startswith('neuro_divergent.models.')))"
TRAIN = "train sales.csv --model nhits --h 4 --input-size 8 --set training.max_steps=1 --no-report --out run"


WAYS = [
    "import neuro_divergent as nd; nd.NHITS(h=2, input_size=4)",
    "from neuro_divergent.models import NHITS",
    "from neuro_divergent.core import registry; registry.resolve('model', 'nhits')",
    "import neuro_divergent as nd; nd.Model.from_dict({'kind': 'nhits', 'h': 2, 'input_size': 4})",
]
IN_FORKS = """
import os, sys
import torch, polars  # once for all
for code in sys.argv[1:]:
    if os.fork() == 0:
        exec(code, {})
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0, code
"""


def test_one_model_imports_one_file():
    found = in_a_fresh_process(IN_FORKS, *(way + LOADED for way in WAYS)).splitlines()
    assert found == ["['nhits']"] * len(WAYS)


def test_training_and_loading_on_the_shell_import_one_model(tmp_path):
    rows = "\n".join(f"2024-01-{day:02d},{day % 7}" for day in range(1, 32))
    (tmp_path / "sales.csv").write_text(f"ds,y\n{rows}\n")
    code = "import sys; from neuro_divergent.cli.main import main; assert main(sys.argv[1:]) == 0"
    for command in (TRAIN.split(), ["predict", "run"]):
        assert in_a_fresh_process(code + LOADED, *command, cwd=tmp_path).splitlines()[-1] == "['nhits']"


def test_a_misspelt_model_is_answered_without_importing_any():
    code = (
        "from neuro_divergent.core import registry\n"
        "try: registry.resolve('model', 'nhitts')\n"
        "except Exception as error: print(error)\n"
        "import sys; print([m for m in sys.modules if m == 'torch' or m.startswith('neuro_divergent.models.')])"
    )
    error, loaded = in_a_fresh_process(code).splitlines()
    assert "did you mean NHITS" in error
    assert loaded == "[]"
