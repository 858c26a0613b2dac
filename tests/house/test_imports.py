"""The direction of imports, and what an import may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "neuro_divergent"

# Each room may import the rooms named here (and itself); DESIGN's arrow, written out.
LEAVES = {"data", "losses", "metrics", "optim", "nn", "plotting"}
ALLOWED = {
    "core": set(),
    **{room: {"core"} for room in LEAVES},
    "training": {"core", *LEAVES},
    "distributed": {"core", *LEAVES, "training"},
    "forecasting": {"core", *LEAVES, "training", "distributed"},
    "models": {"core", *LEAVES, "training", "forecasting"},
    "search": {"core", *LEAVES, "training", "forecasting", "models"},
    "diagnostics": {"core", *LEAVES, "training", "forecasting", "models"},
    "compat": {"core", *LEAVES, "training", "forecasting", "models", "search"},
    "report": {"core", *LEAVES, "training", "forecasting", "models", "search", "diagnostics"},
    "conformance": {"core", *LEAVES, "training", "forecasting", "models"},
    "export": {"core", *LEAVES, "training", "distributed", "forecasting", "models"},
    "dashboard": {"core"},
    "cli": {
        *("core", *LEAVES, "training", "distributed", "forecasting", "models", "search", "diagnostics", "report"),
        *("dashboard", "conformance"),
    },
}
FACADES = {
    ("forecasting/model/model.py", "search"),
    ("forecasting/predict/forecaster.py", "diagnostics"),
    ("forecasting/predict/forecaster.py", "export"),
    ("search/auto/result.py", "report"),
}
"""Methods that only hand on, and may import a room that stands after theirs: Model.search_space,
Forecaster.architecture, .gradient_report and .export, AutoResult.report."""


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("neuro_divergent"):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("neuro_divergent.")}
    return found - {"_version"}


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_what_stands_before_it(room):
    wrong = {}
    for path in (SRC / room).rglob("*.py"):
        handed_on = {other for file, other in FACADES if file == path.relative_to(SRC).as_posix()}
        odd = imported_rooms(path) - ALLOWED[room] - {room} - handed_on
        if odd:
            wrong[str(path.relative_to(SRC))] = sorted(odd)
    assert not wrong


def test_commands_do_not_import_each_other():
    """What several commands need is in cli/io or cli/request."""
    wrong = {}
    for path in (SRC / "cli" / "commands").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom) and "cli.commands" in ast.unparse(node):
                wrong[path.name] = ast.unparse(node)
    assert not wrong


def test_every_room_is_known():
    rooms = {path.name for path in SRC.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(ALLOWED)


def modules_after(code: str) -> set[str]:
    script = f"import sys; {code}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_the_package_imports_neither_torch_nor_polars():
    loaded = modules_after("import neuro_divergent")
    assert not loaded & {"torch", "polars", "numpy", "pandas", "matplotlib", "pydantic", "rich", "cyclopts"}


def test_help_needs_neither_torch_nor_polars():
    loaded = modules_after("from neuro_divergent.cli.main import main; main(['--help'])")
    assert not loaded & {"torch", "polars", "matplotlib"}


def test_importing_configures_nothing():
    script = (
        "import logging, random; before = (None, random.getstate(), logging.root.handlers[:]);"
        "import neuro_divergent as nd; nd.NHITS, nd.TrainingConfig, nd.TimeSeriesDataFrame;"
        "assert logging.root.handlers == before[2] and not logging.getLogger('neuro_divergent').handlers;"
        "assert random.getstate() == before[1]"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
