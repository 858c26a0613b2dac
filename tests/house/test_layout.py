"""The layout of the source: no import cycles, sub-rooms in one order, no full folders.

Imports inside functions count. Those under TYPE_CHECKING do not: they are annotations. A façade method that only
hands on (`fitted.save(path)`) may import upwards; each is named here.
"""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "neuro_divergent"
PACKAGE = "neuro_divergent"

FACADES = {
    ("data.store.store", "data.read.stream_parquet"): "SeriesStore.create",
    ("data.store.store", "data.store.files"): "SeriesStore.save, .open, .fingerprint",
    ("distributed.settings", "distributed.build"): "Distributed.build",
    ("forecasting.fit.run", "forecasting.storage.save_load"): "Run.save_checkpoint",
    ("forecasting.model.model", "forecasting.fit.fit"): "Model.fit",
    ("forecasting.model.model", "forecasting.fit.parameters"): "Model.num_parameters",
    ("forecasting.model.model", "search.space.default_spaces"): "Model.search_space",
    ("forecasting.predict.forecaster", "diagnostics.architecture"): "Forecaster.architecture",
    ("forecasting.predict.forecaster", "diagnostics.gradient_report"): "Forecaster.gradient_report",
    ("forecasting.predict.forecaster", "forecasting.evaluate.cross_validation"): "Forecaster.cross_validation",
    ("forecasting.predict.forecaster", "export.export"): "Forecaster.export",
    ("forecasting.predict.forecaster", "forecasting.evaluate.scores"): "Forecaster.evaluate",
    ("forecasting.predict.forecaster", "forecasting.fit.continue_training"): "Forecaster.update, .fine_tune",
    ("forecasting.predict.forecaster", "forecasting.fit.training_rows"): "Forecaster.calibrate",
    (
        "forecasting.predict.forecaster",
        "forecasting.storage.save_load",
    ): "Forecaster.save, .save_weights, .load_weights",
    ("search.settings", "search.engine.run"): "Search.fit",
    ("search.auto.auto_forecaster", "search.auto.run"): "AutoForecaster.fit",
    ("search.auto.result", "report.auto"): "AutoResult.report",
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
            if id(node) not in skipped:
                found |= _imported(node)
        graph[name] = {other for other in found if other and other != name and (name, other) not in FACADES}
    return graph


def _imported(node: ast.AST) -> set[str]:
    """The modules of the package that one statement imports."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names if alias.name.startswith(f"{PACKAGE}.")]
        return {name.removeprefix(f"{PACKAGE}.") for name in names}
    if not isinstance(node, ast.ImportFrom):
        return set()
    assert not node.level, f"imports are absolute here, but got: {ast.unparse(node)}"
    if node.module != PACKAGE and not f"{node.module}".startswith(f"{PACKAGE}."):
        return set()
    base = f"{node.module}".removeprefix(PACKAGE).lstrip(".")
    wholes = [f"{base}.{alias.name}".lstrip(".") for alias in node.names]
    return {whole if whole in modules() else base for whole in wholes}


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


OLD_HOMES = {"data.frame"}
"""Import paths of earlier releases, which hand on to the new ones."""


@cache
def order() -> dict[str, dict[str, int]]:
    """For every line of CONTRIBUTING's map of imports the place of each name: {"data": {"time": 0, ...}, ...}."""
    text = (SRC.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = text[text.index("\nrooms: ") : text.index("```", text.index("\nrooms: "))]
    lines = re.findall(r"^(\w+):\s+(.*(?:\n\s+.*)*)", block, re.MULTILINE)
    return {
        room: {
            name.strip(" \n{}").removesuffix(".py"): place
            for place, names in enumerate(line.split("←"))
            for name in names.split(",")
        }
        for room, line in lines
    }


def _step(name: str, other: str) -> tuple[str, str, str] | None:
    """The line of the map that an import belongs to, and its two names there; None for one inside a sub-room."""
    (room, *rest), (other_room, *other_rest) = name.split("."), other.split(".")
    if room != other_room:
        top = not rest and not (SRC / room).is_dir()  # __main__, _version: files of no room
        return None if top or other_room == "_version" else ("rooms", room, other_room)
    if room not in order() or not rest or not other_rest or rest[0] == other_rest[0]:
        return None  # a room's own __init__ only collects names
    return room, rest[0], other_rest[0]


def test_imports_follow_the_order_of_the_map():
    wrong = []
    for name, others in imports().items():
        for other in others:
            step = _step(name, other) if name and name not in OLD_HOMES else None
            if step is not None and not order()[step[0]][step[2]] < order()[step[0]][step[1]]:
                wrong.append(f"{name} imports {other}")
    assert not wrong


def test_every_sub_room_has_its_place_in_the_map():
    assert order().keys() - {"rooms"} == {"data", "training", "distributed", "forecasting", "search", "cli"}
    for room, places in order().items():
        folder = SRC if room == "rooms" else SRC / room
        inside = {path.name for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}
        if room != "rooms":
            inside |= {path.stem for path in folder.glob("*.py")} - {"__init__"}
        homes = {home.partition(".")[2] for home in OLD_HOMES if home.startswith(f"{room}.")}
        assert places.keys() == inside - homes, room


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
