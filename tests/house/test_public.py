"""The public names: pinned, documented, and what the type checker sees is what Python gives."""

import ast
import inspect
import json
from pathlib import Path

import pytest

import neuro_divergent as nd

ROOT = Path(__file__).parents[2]
PINNED = json.loads((Path(__file__).parent / "public_names.json").read_text())


def test_the_public_names_are_the_pinned_ones():
    """A name that goes breaks somebody's script; a new one is added to public_names.json on purpose."""
    assert sorted(nd.__all__) == PINNED


def test_names_are_lazy_for_python_and_plain_for_type_checkers():
    tree = ast.parse((ROOT / "src" / "neuro_divergent" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    shown = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert shown == set(nd.__all__) - {"__version__"}


@pytest.mark.parametrize("name", [name for name in PINNED if name != "__version__"])
def test_every_public_name_has_a_docstring(name):
    thing = getattr(nd, name)
    assert inspect.getdoc(thing)
    if not inspect.isclass(thing):
        return
    for method, value in vars(thing).items():
        if not method.startswith("_") and (inspect.isfunction(value) or isinstance(value, property | classmethod)):
            assert inspect.getdoc(value), f"{name}.{method} has no docstring"


def test_a_misspelt_name_is_answered_with_the_closest():
    with pytest.raises(AttributeError, match="did you mean NHITS"):
        nd.NHITSS  # noqa: B018


def test_version():
    assert nd.__version__.count(".") == 2
