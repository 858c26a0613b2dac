"""The layout of the source: no import cycles, sub-rooms in one order, no full folders.

Imports inside functions count. Those under TYPE_CHECKING do not: they are annotations. A façade method that only
hands on (`fitted.save(path)`) may import upwards; each is named here.
"""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "neuro_divergent"
PACKAGE = "neuro_divergent"

FACADES = {
    ("data.store.store", "data.read.stream_parquet"): "SeriesStore.create",
    ("data.store.store", "data.store.files"): "SeriesStore.save, .open, .fingerprint",
    ("forecasting.model.model", "forecasting.fit.fit"): "Model.fit",
    ("forecasting.model.model", "forecasting.fit.parameters"): "Model.num_parameters",
    ("forecasting.predict.forecaster", "forecasting.evaluate.cross_validation"): "Forecaster.cross_validation",
    ("forecasting.predict.forecaster", "forecasting.evaluate.scores"): "Forecaster.evaluate",
    ("forecasting.predict.forecaster", "forecasting.fit.continue_training"): "Forecaster.update, .fine_tune",
    (
        "forecasting.predict.forecaster",
        "forecasting.storage.save_load",
    ): "Forecaster.save, .save_weights, .load_weights",
}
"""Who may import what stands above it, inside a function, and for which method."""

MOST_FILES = 20
LONG_FOLDERS = {"models"}
"""One file per model."""


@cache
def modules() -> dict[str, Path]:
    """Every module by its name below the package."""
    found = {}
    for path in SRC.rglob("*.py"):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _annotations_only(tree: ast.Module) -> set[int]:
    guarded = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    return {id(inner) for node in guarded for inner in ast.walk(node)}


@cache
def imports() -> dict[str, set[str]]:
    """For every module, the modules of the package that it imports, façades left out."""
    graph: dict[str, set[str]] = {}
    for name, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        skipped = _annotations_only(tree)
        found = set()
        for node in ast.walk(tree):
            if id(node) in skipped or not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module != PACKAGE and not node.module.startswith(f"{PACKAGE}."):
                continue
            base = node.module.removeprefix(PACKAGE).lstrip(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}".lstrip(".")
                found.add(whole if whole in modules() else base)
        graph[name] = {other for other in found if other and other != name and (name, other) not in FACADES}
    return graph


def assert_no_cycle(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_files_do_not_import_in_a_circle():
    graph = {name: others for name, others in imports().items() if name}
    # A package's own file that only collects names is imported with every module of the package.
    assert_no_cycle({name: {other for other in others if other != _package(name)} for name, others in graph.items()})


def test_sub_rooms_do_not_import_in_a_circle():
    graph: dict[str, set[str]] = {}
    for name, others in imports().items():
        own = _sub_room(name)
        graph.setdefault(own, set()).update(_sub_room(other) for other in others)
        graph[own].discard(own)
    assert_no_cycle(graph)


def _package(name: str) -> str:
    return name.rpartition(".")[0]


def _sub_room(name: str) -> str:
    """`training.step` for a file of a sub-room; a file that lies in a room itself stands for itself."""
    parts = name.split(".")
    return ".".join(parts[:2]) if len(parts) > 1 else name


def test_every_facade_is_used():
    """An entry that nobody needs any more would hide the next cycle."""
    for (name, other), method in FACADES.items():
        source = modules()[name].read_text(encoding="utf-8")
        assert f"from {PACKAGE}.{other} import" in source, f"{method} no longer imports {other}"


def test_no_folder_has_more_files_than_a_person_can_take_in():
    full = {}
    for folder in {path.parent for path in SRC.rglob("*.py")}:
        name, count = str(folder.relative_to(SRC)), len(list(folder.glob("*.py")))
        if count > MOST_FILES and name not in LONG_FOLDERS:
            full[name] = count
    assert not full
