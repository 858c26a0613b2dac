"""Nothing in src may run what a file says."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "src").rglob("*.py"))
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "subprocess"}
# The supervisor of a fault-tolerant run starts the same program again; no text of a user's reaches it.
# `bench --against` starts the interpreters that its user named, each with a fixed list of arguments, without a shell.
# An executor starts this package's own module, which runs functions that the code names; no file names one.
# `nd.Dashboard` starts this package's own module, with its settings on the standard input.
MAY_START_PROCESSES = {
    "training/process/supervisor.py",
    "cli/peers/registry.py",
    "core/executors/processes.py",
    "dashboard/dashboard.py",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "src" / "neuro_divergent")))
def test_no_pickle_eval_exec_or_torch_load(path):
    relative = str(path.relative_to(ROOT / "src" / "neuro_divergent"))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        where = f"{relative}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS, where
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("torch", "load"), ("os", "system"), ("os", "popen")}, where
            assert (node.value.id, node.attr) != ("yaml", "load"), where
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        banned = {name.split(".")[0] for name in names} & FORBIDDEN_MODULES
        assert not banned - ({"subprocess"} if relative in MAY_START_PROCESSES else set()), where
        if isinstance(node, ast.keyword):
            assert not (node.arg == "allow_pickle" and getattr(node.value, "value", None) is True), where
            assert not (node.arg == "shell" and getattr(node.value, "value", None) is True), where


def test_constraints_are_names_and_plain_versions():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert "torch==2.13.0" in lines
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9A-Za-z.]+", line), line
