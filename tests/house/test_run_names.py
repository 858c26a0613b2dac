"""A run's directory has one module that knows the names in it: core/runs/names.py."""

import ast
from pathlib import Path

from neuro_divergent.core.runs import names

SRC = Path(__file__).parents[2] / "src" / "neuro_divergent"
HOME = SRC / "core" / "runs" / "names.py"

UNMISTAKABLE = {
    *(names.CONFIG, names.EVENTS, names.STATE, names.MODEL_DOCUMENT, names.INDEX_DOCUMENT, names.REPORT, names.EARLIER),
    *(names.LOCK, names.HEARTBEAT, names.ATTEMPTS),
}
"""Texts that are nothing but such a name, wherever they stand."""

WORDS = {names.CHECKPOINTS, names.MODEL, names.INDEX, names.REFIT, names.STOP, names.EVENT_PARTS}
"""Words with other meanings too: these are names where a path is made of them."""


def spelt(tree: ast.AST) -> set[tuple[int, str]]:
    """Line and name wherever a module spells one: as a text of its own, in a message, or as a part of a path."""
    documented = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    prose = documented | {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
            found |= {(node.lineno, name) for name in UNMISTAKABLE if node.value == name}
            found |= {(node.lineno, name) for name in UNMISTAKABLE if "." in name and name in node.value}
            found |= {(node.lineno, name) for name in WORDS if f"/{name}/" in node.value or f"/{name}" == node.value}
        right = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else None
        if isinstance(right, ast.Constant) and right.value in WORDS:
            found.add((right.lineno, right.value))
    return found


def test_names_of_a_run_are_spelt_in_one_module():
    # The sentence of core/files.py names `model` as an example of a place to save to.
    wrong = {
        (str(path.relative_to(SRC)), *place)
        for path in SRC.rglob("*.py")
        if path != HOME
        for place in spelt(ast.parse(path.read_text(encoding="utf-8")))
        if (path.name, place[1]) != ("files.py", names.MODEL)
    }
    assert not wrong


def test_the_check_sees_what_it_is_for():
    code = '''
"""A module about config.json."""
place = run / "model"
file = run / "config.json"
message = f"{run}: model.json is gone"
remote = f"{address}/checkpoints/{name}"
allowed = {"model": 1}
'''
    assert spelt(ast.parse(code)) == {(3, "model"), (4, "config.json"), (5, "model.json"), (6, "checkpoints")}
