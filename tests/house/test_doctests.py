"""The examples in docstrings run and print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import neuro_divergent

SOURCE = Path(neuro_divergent.__file__).parent
MODULES = [
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name):
    found = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert found.attempted
    assert not found.failed
